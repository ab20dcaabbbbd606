#include <linnet/core/distributed/transport.h>
#include <linnet/core/error.h>

namespace linnet {

/// Replaces mpi.cpp in a build without MPI.
std::unique_ptr<detail::Transport> detail::mpi_transport() {
  if (!started_by_mpi_launcher()) return nullptr;
  throw IoError(
      "a launcher of MPI started this program, but this linnet was built without MPI; install libopenmpi-dev or "
      "libmpich-dev and configure with -DLINNET_MPI=ON, or start a single process without a launcher");
}

std::string describe_mpi() { return "no MPI"; }

}  // namespace linnet
