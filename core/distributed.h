#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/core/tensor.h>

/// Many processes that work together, as PyTorch's torch.distributed has them. MPI carries their messages.

namespace linnet {

namespace detail {
class Messages;
class Transport;
struct GpuMessages;
}  // namespace detail

/// Options of an all_reduce.
struct AllReduceOptions {
  /// Leaves the order of the sum to MPI, which may be faster. Its bits then depend on the number of ranks, and two
  /// runs may differ.
  bool any_order = false;
};

/// A collective operation under way, like PyTorch's Work. Messages make progress only while a member runs, since MPI
/// has no thread of its own for them. Those of NCCL run on the GPU by themselves. Every Work must come to its end
/// before its group ends.
class Work {
 public:
  /// What an operation does: its messages, step by step.
  class Steps {
   public:
    virtual ~Steps() = default;
    /// Goes on, to the end if `wait`. Returns whether the end is reached.
    virtual bool advance(bool wait) = 0;
  };

  Work() = default;                                                          ///< is completed
  explicit Work(std::unique_ptr<Steps> steps) : steps_(std::move(steps)) {}  ///< is under way

  /// Goes on as far as is possible without waiting, and returns whether the operation has ended.
  bool is_completed();
  /// Waits for the end. Between GPUs it holds kernels that are launched later, and not the program.
  void wait();

 private:
  std::unique_ptr<Steps> steps_;
};

/// The processes that a launcher of MPI, such as `mpirun -np 4`, started together. Each has a rank from 0 on. A
/// program that was started without one is a group of one process, for which MPI is neither loaded nor initialised.
/// All ranks must make the same calls in the same order, on the thread that made the first group.
///
///     ProcessGroup group;
///     Tensor x = full({3}, group.rank());
///     group.all_reduce(x);  // 6 everywhere, with 4 ranks
///     if (group.rank() == 0) std::cout << x << "\n";
///
/// Tensors may be on the CPU or on a GPU. Where a launcher started several ranks on a host, each uses the GPU of its
/// number among them, or of that place in CUDA_VISIBLE_DEVICES. Tensors go from GPU to GPU by NCCL, whose library is
/// loaded when they first do. Where it is missing, or ranks share a GPU, they go by way of the CPU.
///
/// MPI is initialised with MPI_THREAD_FUNNELED unless the program did so before, and finalised at the end of the
/// program if it was initialised here. A group that ends by an exception leaves MPI as it is: the launcher then ends
/// the other ranks too.
class ProcessGroup {
 public:
  /// Throws: IoError where a launcher started the program and MPI is missing, or cannot be used; the message says
  /// what to install.
  explicit ProcessGroup(Where where = {});
  /// Over other messages than MPI's, for tests; a group of this process alone where it is null.
  explicit ProcessGroup(std::unique_ptr<detail::Transport> transport);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }              ///< of this process, from 0 on
  int world_size() const { return world_size_; }  ///< the number of ranks

  /// Waits until all ranks are here.
  void barrier();
  /// The same, but for a limited time. Returns whether all ranks came. For the end of a program, once: ranks that
  /// failed alike tell themselves from one that failed alone.
  bool barrier_within(double seconds);
  /// Copies tensors of rank `source`, such as a model's parameters, into those of the others.
  ///
  /// Shapes: the same on all ranks; dtypes and devices too.
  /// Throws: IndexError for a rank that does not exist; ValueError for a tensor of 2 GiB or more.
  void broadcast(const std::vector<Tensor>& tensors, int source = 0, Where where = {});
  /// The texts of all ranks, in their order.
  std::vector<std::string> all_gather(std::string_view text);
  /// Replaces `x` by the sum over all ranks. Ranks are added in a binary tree, neighbours first: (0 + 1) + (2 + 3).
  /// So a sum of 8 parts has the same bits for 1, 2, 4 and 8 ranks if each rank adds its own parts in this tree. Each
  /// rank sends 2 (R − 1) / R of the bytes of `x`, the least that is possible.
  ///
  /// Shapes: the same on all ranks; dtypes and devices too.
  /// Throws: ValueError for a number of ranks that is no power of two, and for 2 GiB or more; DTypeError, with
  /// `any_order`, for dtypes other than float32 and float64.
  void all_reduce(Tensor x, const AllReduceOptions& options = {}, Where where = {});
  /// The same without waiting. `x` is contiguous, and is not touched until the Work has ended.
  ///
  /// Throws: as all_reduce; ValueError for a tensor that is not contiguous.
  Work start_all_reduce(Tensor x, const AllReduceOptions& options = {}, Where where = {});

  /// How tensors go from GPU to GPU: the version of NCCL, or why they go by way of the CPU. All ranks must call it.
  std::string describe_gpu_messages();
  /// The bytes that this rank has sent in the trees of all_reduce.
  int64_t bytes_sent() const { return *bytes_sent_; }
  /// Ends all ranks at once, this one with `code`.
  [[noreturn]] void abort(int code);

 private:
  void read_size();
  /// Messages between memories of the device; null for a GPU whose tensors go by way of the CPU.
  detail::Messages* messages_of(Device device);
  const detail::GpuMessages& gpu_messages();

  std::unique_ptr<detail::Transport> transport_;       ///< null for one process
  std::unique_ptr<detail::GpuMessages> gpu_messages_;  ///< null until they are needed
  std::shared_ptr<int64_t> bytes_sent_ = std::make_shared<int64_t>(0);
  int rank_ = 0, world_size_ = 1;
  int tag_ = 0;     ///< of the next all_reduce
  int exceptions_;  ///< under way when this began
};

/// Whether a launcher of MPI started this program with others, by the variables that it sets. Loads nothing.
bool started_by_mpi_launcher();
/// The MPI that linnet was built with, or why there is none, for build_info.
std::string describe_mpi();

}  // namespace linnet
