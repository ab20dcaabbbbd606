#include <linnet/core/distributed/local_rank.h>

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

std::optional<int> local_rank() {
  // The variables of Open MPI; of MPICH and Intel MPI; of Slurm.
  for (const char* const name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const char* const rank = std::getenv(name)) return std::atoi(rank);
  }
  return std::nullopt;
}

std::string visible_gpu(const char* visible, int local_rank) {
  if (visible == nullptr) return std::to_string(local_rank);
  std::vector<std::string> entries{""};
  for (const char* c = visible; *c != '\0'; ++c) {
    if (*c == ',') {
      entries.emplace_back();
    } else {
      entries.back() += *c;
    }
  }
  if (entries.size() == 1) return entries[0];
  if (static_cast<size_t>(local_rank) < entries.size()) return entries[static_cast<size_t>(local_rank)];
  throw DeviceError(
      fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" has no GPU for rank {} of this host, counted from 0; start "
                  "{} ranks on it, or name more GPUs",
                  visible, local_rank, entries.size()));
}

}  // namespace linnet::detail
