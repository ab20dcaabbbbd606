#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/core/tensor.h>

/// Many processes that work together, as in PyTorch's torch.distributed. Their messages go by MPI, and between GPUs
/// by NCCL.

namespace linnet {

namespace detail {
class Messages;
class Transport;
struct GpuMessages;
}  // namespace detail

/// Options of an all_reduce.
struct AllReduceOptions {
  /// Lets MPI choose the order of the sum, which may be faster. The bits of the sum then depend on the number of
  /// ranks, and two runs may differ.
  bool any_order = false;
};

/// A running collective operation, like PyTorch's Work. Its copies are the same operation. Messages by MPI make
/// progress only while a member function of this class runs, because MPI has no thread of its own for them. Messages
/// by NCCL run on the GPU by themselves. Every Work must have ended before its group is destroyed.
///
/// If an exception destroys a Work before its end, its tensor has no defined content. The group keeps the memory
/// until the messages have ended: later calls of the group continue them, so that other ranks do not wait for ever.
class [[nodiscard]] Work {
 public:
  /// The messages of an operation, step by step.
  class Steps {
   public:
    virtual ~Steps() = default;
    /// Continues, to the end if `wait`. Returns whether the operation has ended.
    virtual bool advance(bool wait) = 0;
  };

  Work() = default;  ///< a completed operation
  /// A running operation.
  explicit Work(std::unique_ptr<Steps> steps) : steps_(std::make_shared<std::unique_ptr<Steps>>(std::move(steps))) {}

  /// Continues as far as is possible without waiting, and returns whether the operation has ended.
  bool is_completed();
  /// Waits for the end. Between GPUs the program does not wait: only kernels that are launched later do.
  void wait();

 private:
  friend class detail::Messages;

  std::shared_ptr<std::unique_ptr<Steps>> steps_;  ///< of all copies; they reset the inner pointer at the end
};

/// The processes that an MPI launcher, such as `mpirun -np 4`, started together. Each has a rank, counted from 0. A
/// program that was started without a launcher is a group of one process; MPI is then neither loaded nor initialised.
/// All ranks must make the same calls in the same order, on the thread that made the first group.
///
///     ProcessGroup group;
///     Tensor x = full({3}, group.rank());
///     group.all_reduce(x);  // 6 everywhere, with 4 ranks
///     if (group.rank() == 0) std::cout << x << "\n";
///
/// Tensors may be on the CPU or on a GPU. If a launcher started several ranks on a host, each uses the GPU whose
/// number is the rank's number on that host, or the entry at that position in CUDA_VISIBLE_DEVICES. NCCL sends
/// tensors from GPU to GPU; its library is loaded at the first such message. If it is missing, or if ranks share a
/// GPU, tensors go through the CPU.
///
/// MPI is initialised with MPI_THREAD_FUNNELED unless the program has initialised it before, and finalised at the end
/// of the program if it was initialised here. A group that an exception destroys does not finalise MPI: the launcher
/// then ends the other ranks too.
class ProcessGroup {
 public:
  /// Throws: IoError if a launcher started the program but MPI is missing or cannot be used; the message says what to
  /// install.
  explicit ProcessGroup(Where where = {});
  /// A group that sends its messages by `transport` instead of MPI, for tests. If it is null, a group of one process.
  explicit ProcessGroup(std::unique_ptr<detail::Transport> transport);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }              ///< the number of this process, from 0 on
  int world_size() const { return world_size_; }  ///< the number of ranks

  /// Waits until all ranks have called this.
  void barrier();
  /// A barrier that waits at most `seconds`. A program calls it once, when it ends after an error. If all ranks
  /// failed, it returns true. If only this rank failed, it returns false after `seconds`.
  bool barrier_within(double seconds);
  /// Copies tensors of rank `source`, such as a model's parameters, into those of the others.
  ///
  /// Shapes: the same on all ranks; dtypes and devices too.
  /// Throws: IndexError for a rank that does not exist; ValueError for a tensor of 2 GiB or more.
  void broadcast(const std::vector<Tensor>& tensors, int source = 0, Where where = {});
  /// The strings of all ranks, ordered by rank. Throws: ValueError for one of 2 GiB or more.
  std::vector<std::string> all_gather(std::string_view text);
  /// Replaces `x` by the sum over all ranks. Ranks are added in a binary tree, neighbours first: (0 + 1) + (2 + 3).
  /// So a sum of 8 parts is bit-identical on 1, 2, 4 and 8 ranks if each rank adds its own parts in this tree. Each
  /// of R ranks sends 2 (R − 1) / R times the bytes of `x`, which is the minimum.
  ///
  /// Shapes: the same on all ranks; dtypes and devices too.
  /// Throws: ValueError for a number of ranks that is not a power of two, and for 2 GiB or more; DTypeError for bool
  /// and, with `any_order`, for dtypes other than float32 and float64.
  void all_reduce(Tensor x, const AllReduceOptions& options = {}, Where where = {});
  /// Starts an all_reduce and returns without waiting for it. `x` must be contiguous. Do not read or write it until
  /// the Work has ended.
  ///
  /// Throws: as all_reduce; ValueError for a tensor that is not contiguous.
  Work start_all_reduce(Tensor x, const AllReduceOptions& options = {}, Where where = {});

  /// How tensors go from GPU to GPU: the version of NCCL, or why they go through the CPU. All ranks must call it.
  std::string describe_gpu_messages();
  /// The number of bytes that this rank has sent in sums of all_reduce, except those with `any_order`.
  int64_t bytes_sent() const { return *bytes_sent_; }
  /// Ends all ranks at once, this one with `code`.
  [[noreturn]] void abort(int code);

 private:
  void read_size();
  /// Messages between tensors on the device; null for GPUs whose tensors go through the CPU.
  detail::Messages* messages_of(Device device);
  const detail::GpuMessages& gpu_messages();

  std::unique_ptr<detail::Transport> transport_;       ///< null for one process
  std::unique_ptr<detail::GpuMessages> gpu_messages_;  ///< null until they are needed
  std::shared_ptr<int64_t> bytes_sent_ = std::make_shared<int64_t>(0);
  int rank_ = 0, world_size_ = 1;
  int tag_ = 0;     ///< the tag of the next all_reduce
  int exceptions_;  ///< the number of exceptions in flight when the group was made
};

/// Whether an MPI launcher started this program together with others. It reads the environment variables that
/// launchers set, and does not load MPI.
bool started_by_mpi_launcher();
/// The MPI that linnet was built with, or why there is none. Part of build_info.
std::string describe_mpi();

}  // namespace linnet
