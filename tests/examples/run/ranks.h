#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/run/tiny_run.h"

/// Programs that a launcher of MPI starts several times.

namespace linnet::examples::test {

/// The arguments of mpirun, which let it start more processes than processors, beside other programs, and as root in
/// a container.
inline Arguments launch(int count, const std::string& program, const Arguments& flags) {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  const std::string path = std::filesystem::path(LINNET_BIN_DIR) / program;  // `program`, if that is a path
  return Arguments{"-np", std::to_string(count), path} + flags;
}

inline linnet::test::Ended run_ranks(int count, const std::string& program, const Arguments& flags) {
  return linnet::test::run_program(LINNET_MPIRUN, launch(count, program, flags));
}

/// Flags of a run with everything that could depend on the ranks: dropout, micro-batches, clipping.
inline Arguments sharded(const Workshop& shop, const std::string& out) {
  return shop.tiny(out) + Arguments{"--batch", "8", "--shards", "8", "--dropout", "0.1", "--accumulate", "2"};
}

/// The processes that `launcher` or its helpers started, by rank.
inline std::map<int, pid_t> ranks_of(pid_t launcher) {
  std::map<int, pid_t> ranks;
  const std::string parent = std::to_string(launcher);
  std::ifstream children("/proc/" + parent + "/task/" + parent + "/children");
  for (pid_t child = 0; children >> child;) {
    std::ifstream variables("/proc/" + std::to_string(child) + "/environ");
    for (std::string variable; std::getline(variables, variable, '\0');) {
      for (const std::string name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
        if (variable.starts_with(name)) ranks.emplace(std::stoi(variable.substr(name.size())), child);
      }
    }
    ranks.merge(ranks_of(child));
  }
  return ranks;
}

/// Waits until all ranks have been started.
inline std::map<int, pid_t> wait_for_ranks(linnet::test::ChildProgram& run, size_t count) {
  std::map<int, pid_t> ranks;
  while (run.running() && ranks.size() < count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ranks = ranks_of(run.pid());
  }
  return ranks;
}

/// Waits until the run has a later checkpoint than its first.
inline void wait_for_progress(linnet::test::ChildProgram& run, const std::filesystem::path& folder) {
  const auto steps = [&] {
    if (!std::filesystem::exists(folder / "config.json")) return 0L;
    return std::stol(read_safetensors(folder / "checkpoint.safetensors").metadata.at("step"));
  };
  while (run.running() && steps() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace linnet::examples::test
