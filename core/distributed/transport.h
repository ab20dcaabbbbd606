#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <linnet/core/distributed.h>
#include <linnet/core/dtype.h>

/// The messages of a ProcessGroup. Internal to core, and to tests that have ranks in threads.

namespace linnet::detail {

/// Messages between memories of the ranks of a group, all on the CPU or all on GPUs. Calls that all ranks make match
/// in their order.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends to and receives from `partner`, which makes the same call with this tag. Memory must stay until the end.
  virtual Work exchange(int partner, int tag, const void* sent, int64_t sent_bytes, void* received,
                        int64_t received_bytes) = 0;
  /// Sums in place over all ranks, in any order. The dtype is float32 or float64.
  virtual Work sum(void* data, int64_t count, DType dtype) = 0;
  virtual void broadcast(void* data, int64_t bytes, int source) = 0;
  /// Begins `steps`, which make the messages above. Messages between GPUs are made in no other way: they then go
  /// beside kernels that are launched later.
  virtual Work start(std::unique_ptr<Work::Steps> steps);
  /// Says that this rank ends by an error, and so will not come to where all ranks end together.
  virtual void fail() = 0;
};

/// Messages on the CPU, and what else MPI has.
class Transport : public Messages {
 public:
  /// Places the bytes of all ranks, `bytes` each, side by side.
  virtual void all_gather(const void* from, void* to, int64_t bytes) = 0;
  virtual bool barrier_within(double seconds) = 0;
  virtual void barrier() = 0;
  [[noreturn]] virtual void abort(int code) = 0;
};

/// Messages by MPI; null where neither a launcher nor this program has started MPI. In mpi.cpp, or in stub.cpp for a
/// build without MPI.
///
/// Throws: IoError where MPI is needed and missing, or is another than that of the launcher.
std::unique_ptr<Transport> mpi_transport();

/// Messages between GPUs.
struct GpuMessages {
  std::unique_ptr<Messages> messages;  ///< null where tensors on GPUs travel by way of the CPU
  std::string description;             ///< the library that has them, or why there are none
};
/// Messages between the GPUs of all ranks by NCCL, where each rank has a GPU of its own and the library is found. All
/// ranks must call it. In cuda/distributed/nccl.cpp, or in cuda/stub.cpp for a build without CUDA.
GpuMessages gpu_messages(ProcessGroup& group);

/// How many processes a launcher started together, by the variables that it sets; 0 where none of them says so.
int launched_processes();

}  // namespace linnet::detail
