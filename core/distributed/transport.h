#pragma once

#include <cstdint>
#include <memory>

#include <linnet/core/distributed.h>
#include <linnet/core/dtype.h>

/// The messages of a ProcessGroup. Internal to core, and to tests that have ranks in threads.

namespace linnet::detail {

/// Messages between the ranks of a group, as MPI has them. Calls that all ranks make match in their order.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends to and receives from `partner`, which makes the same call with this tag. Memory must stay until the end.
  virtual Work exchange(int partner, int tag, const void* sent, int64_t sent_bytes, void* received,
                        int64_t received_bytes) = 0;
  /// Sums in place over all ranks, in any order. The dtype is float32 or float64.
  virtual Work sum(void* data, int64_t count, DType dtype) = 0;
  virtual void broadcast(void* data, int64_t bytes, int source) = 0;
  /// Places the bytes of all ranks, `bytes` each, side by side.
  virtual void all_gather(const void* from, void* to, int64_t bytes) = 0;
  virtual bool barrier_within(double seconds) = 0;
  virtual void barrier() = 0;
  [[noreturn]] virtual void abort(int code) = 0;
  /// Says that this rank ends by an error, and so will not come to where all ranks end together.
  virtual void fail() = 0;
};

/// Messages by MPI; null where neither a launcher nor this program has started MPI. In mpi.cpp, or in stub.cpp for a
/// build without MPI.
///
/// Throws: IoError where MPI is needed and missing, or is another than that of the launcher.
std::unique_ptr<Transport> mpi_transport();

/// How many processes a launcher started together, by the variables that it sets; 0 where none of them says so.
int launched_processes();

}  // namespace linnet::detail
