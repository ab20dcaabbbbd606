#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include <linnet/core/distributed.h>
#include <linnet/core/dtype.h>

/// The messages of a ProcessGroup. Internal to core, and to tests that run ranks in threads.

namespace linnet::detail {

/// Messages between the memories of a group's ranks, all on the CPU or all on GPUs. All ranks make the collective
/// calls in the same order.
class Messages {
 public:
  Messages() = default;
  /// Keeps the memory of operations that have not ended until the process ends.
  virtual ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends to and receives from `partner`, which makes the same call with this tag. The memory must stay valid until
  /// the Work ends.
  virtual Work exchange(int partner, int tag, const void* sent, int64_t sent_bytes, void* received,
                        int64_t received_bytes) = 0;
  /// Sums in place over all ranks, in any order. The dtype is float32 or float64.
  virtual Work sum(void* data, int64_t count, DType dtype) = 0;
  virtual void broadcast(void* data, int64_t bytes, int source) = 0;
  /// Starts `steps`, which call the functions above. Messages between GPUs must be sent inside such steps: they then
  /// run at the same time as kernels that are launched later.
  virtual Work start(std::unique_ptr<Work::Steps> steps);
  /// Continues operations whose Work was dropped, to the end if `wait`.
  void advance_dropped(bool wait);
  /// Called when this rank ends by an error, so that it does not wait for the other ranks at its end.
  virtual void fail() = 0;

 private:
  std::list<Work> started_;  ///< by `start`; MPI may write to their memory until they end
};

/// Messages on the CPU, and MPI's other functions.
class Transport : public Messages {
 public:
  /// Writes the bytes of all ranks to `to`, `bytes` from each, ordered by rank.
  virtual void all_gather(const void* from, void* to, int64_t bytes) = 0;
  virtual bool barrier_within(double seconds) = 0;
  virtual void barrier() = 0;
  [[noreturn]] virtual void abort(int code) = 0;
};

/// Messages by MPI; null if neither a launcher nor this program has started MPI. Implemented in mpi.cpp, or in
/// stub.cpp for a build without MPI.
///
/// Throws: IoError if MPI is needed and missing, or differs from that of the launcher.
std::unique_ptr<Transport> mpi_transport();

/// Messages between GPUs.
struct GpuMessages {
  std::unique_ptr<Messages> messages;  ///< null if tensors on GPUs go through the CPU
  std::string description;             ///< the library that sends them, or why there are none
};
/// Messages between the GPUs of all ranks by NCCL, if each rank has a GPU of its own and the library is found. All
/// ranks must call it. Implemented in cuda/distributed/nccl.cpp, or in cuda/stub.cpp for a build without CUDA.
GpuMessages gpu_messages(ProcessGroup& group);

/// The number of processes that a launcher started together, from the environment variables that it sets; 0 if none
/// of them is set.
int launched_processes();

}  // namespace linnet::detail
