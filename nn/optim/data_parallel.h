#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <linnet/core/autograd/post_accumulate_hook.h>
#include <linnet/core/distributed.h>
#include <linnet/core/where.h>
#include <linnet/nn/module.h>

namespace linnet::nn {

/// One of the equal parts that a batch is cut into.
struct Shard {
  int64_t index;            ///< the shard's number in the batch
  int64_t count;            ///< the number of shards of a batch
  int64_t micro_batch = 0;  ///< the micro-batch's number, of DataParallelOptions::accumulate

  /// The shard's rows of a tensor of the batch, a view.
  ///
  /// Throws: ShapeError where the shards do not divide the rows.
  Tensor of(const Tensor& batch, Where where = {}) const;
};

/// Options of DataParallel.
struct DataParallelOptions {
  int64_t shards = 1;      ///< of a batch: 1, 2, 4, 8, … up to 65,536; the number of ranks divides it
  int64_t accumulate = 1;  ///< micro-batches in a step
  /// Leaves the order of sums between ranks to MPI. Rounding then depends on the number of ranks, and the number of
  /// shards need not be a power of two.
  bool any_order = false;
  int64_t bucket_bytes = 1 << 20;  ///< about how many bytes of gradients are summed over the ranks in one message
};

/// Computes the gradients of a batch in several processes, like PyTorch's DistributedDataParallel, bit for bit as in
/// one. Each rank computes the gradients of its own shards of the batch, one after the other. They are summed in a
/// binary tree of shards, neighbours first, in which the shards of a rank are a subtree. So 1, 2, 4 and 8 ranks get
/// the same model if they have the same number of shards.
///
///     ProcessGroup group;
///     nn::DataParallel parallel(group, model, {.shards = 8});
///     nn::Loader loader(data.train, {.batch = 64, .drop_last = true});  // shards must divide the last batch too
///     for (auto [x, y] : loader) {  // all ranks make the whole batch, of the same seed
///       const Tensor inputs = x, targets = y;
///       const double loss = parallel.backward([&](const nn::Shard& shard) {
///         return cross_entropy(model(shard.of(inputs)), shard.of(targets));
///       });
///       optimizer.step();
///       optimizer.zero_grad();
///     }
///
/// The random numbers of a shard, such as its dropout masks, depend on its index in the batch and not on the rank.
/// Batch norm uses the statistics of a shard, as in PyTorch it uses those of a rank. PyTorch's
/// DistributedDataParallel wraps the model; here the model stays as it is, and the loop calls this `backward`.
///
/// Every shard begins with the buffers that the model has when `backward` is called, and its micro-batches change
/// them one after the other. A buffer that shards change becomes the mean over these shards, computed in float64, so
/// batch norm's running statistics are updated by the mean of the shards' statistics. A buffer whose mean has no
/// meaning, such as a Performer's random features, must change outside of shards: call Module::begin_step before
/// `backward`.
class DataParallel {
 public:
  /// Copies the parameters, buffers and generator of rank 0 to all ranks. The group and the model must outlive it.
  /// Make it after parameters are loaded, and frozen or unfrozen.
  ///
  /// Throws: ValueError for a number of shards that is not a power of two or that the ranks do not divide.
  DataParallel(ProcessGroup& group, Module& model, const DataParallelOptions& options = {}, Where where = {});
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Computes `loss(shard)`, a mean over the rows of the shard, and its gradient for each shard and micro-batch of
  /// this rank. Then grad() of each parameter is the mean over all shards and micro-batches of all ranks. Returns the
  /// mean loss. Gradients are sent to other ranks while the last backward still runs. Gradients that are sent
  /// together are views of one buffer, which the next call overwrites.
  ///
  /// Throws: AutogradError where a parameter has a gradient already, or was unfrozen after the constructor;
  /// ValueError, on all ranks, where shards draw different numbers of times from the model's generator; what `loss`
  /// throws.
  double backward(const std::function<Tensor(const Shard& shard)>& loss, Where where = {});

  /// Compares the parameters, buffers and generator of all ranks with those of rank 0.
  ///
  /// Throws: ValueError, on all ranks, if any bit differs; the message names what differs.
  void check_same(Where where = {});

  /// The seconds that all calls of `backward` waited for other ranks after their last gradient was computed.
  double waited_seconds() const { return waited_seconds_; }

 private:
  /// Sums values over the shards of this rank in a binary tree. `waiting[h]` is a sum of 2^h shards; it waits until
  /// the sum of the next 2^h shards is complete.
  struct Tree {
    std::vector<Tensor> waiting;

    /// Adds the value of shard number `shard`, counted from 0 in the order of the calls; an undefined value is zeros.
    /// With the last shard it returns the sum of all.
    Tensor add(int64_t shard, bool is_last, Tensor value);
  };
  struct Slot {
    Tensor parameter;
    Tree tree;
    Tensor sum;  ///< over all shards of this rank, from is_complete until it is copied to its bucket
    size_t bucket = 0;
    int64_t offset = 0;  ///< in the bucket
    bool is_complete = false;
    bool has_grad = false;  ///< whether any shard of this rank gave a gradient
  };
  /// A buffer of the model, and what the shards of this rank make of it.
  struct Buffer {
    Tensor tensor;
    Tensor start;          ///< a copy of the values that each shard begins with
    uint64_t version = 0;  ///< the tensor's version while it has these values
    Tree tree;
    Tensor sum;           ///< over the shards of this rank that changed it, of float64 and rank 1
    int64_t changes = 0;  ///< the number of these shards
  };
  /// Parameters whose gradients are sent together, as views of `sum`. If there is only one, its gradient is `sum`.
  struct Bucket {
    Tensor sum;
    int64_t slots = 0, missing = 0;
    Work work;
  };

  void make_buckets(int64_t bytes);
  void begin();
  /// Adds a parameter's gradient for local shard `shard` to its sum. After the last shard, sends the sum to the other
  /// ranks as soon as its bucket is full.
  void take(Slot& slot, int64_t shard, bool is_last);
  void send(Slot& slot);
  /// Adds a buffer that local shard `shard` changed to its sum, and gives it its first values again.
  static void take(Buffer& buffer, int64_t shard, bool is_last);
  /// Gives a buffer the values that each shard begins with.
  static void restore(Buffer& buffer);
  /// Gives the parameters their gradients and the buffers their means, and returns the sum of the losses over all
  /// ranks. `draws` has the number of draws of each shard of this rank.
  double finish(const Tensor& loss, const std::vector<uint64_t>& draws);
  /// Throws: ValueError if not all shards of all ranks have drawn equally often.
  void check_draws(const std::vector<uint64_t>& draws);
  /// Gives each buffer the mean over the shards that changed it. `changes` has their number over all ranks.
  void set_buffers(std::span<const double> changes);

  ProcessGroup& group_;
  Module& model_;
  DataParallelOptions options_;
  int64_t local_shards_;
  std::vector<Slot> slots_;
  std::vector<NamedTensor> frozen_;  ///< parameters that have no slot
  std::vector<Buffer> buffers_;      ///< none for one shard, whose buffers stay as it leaves them
  std::vector<HookHandle> hooks_;
  std::vector<Bucket> buckets_;
  size_t next_bucket_ = 0;  ///< the first bucket that is not being sent
  bool is_last_ = false;    ///< whether the running backward is the last of this rank in the step
  double waited_seconds_ = 0;
};

}  // namespace linnet::nn
