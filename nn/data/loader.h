#pragma once

#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <linnet/core/refused.h>
#include <linnet/core/where.h>
#include <linnet/nn/data/dataset.h>

namespace linnet::detail {

/// A Loader's options with PyTorch's names.
struct RefusedLoaderOptions {
  int64_t batch_size = 0;
  bool shuffle = false;
  uint64_t seed = 0;
  int64_t num_workers = 0;
  bool drop_last = false;
};

}  // namespace linnet::detail

namespace linnet::nn {

/// Options of a Loader.
struct LoaderOptions {
  int64_t batch = 1;       ///< examples in a batch: PyTorch's batch_size
  bool shuffle = true;     ///< PyTorch's default is false
  uint64_t seed = 0;       ///< of the order and of augmentation
  bool drop_last = false;  ///< leave out a last batch that is smaller than `batch`
  int64_t prefetch = 2;    ///< batches that the loader's threads prepare in advance; 0 for none
  /// Threads that prepare batches, if `prefetch` is not 0; 0 for none, which is PyTorch's default. Each may prepare
  /// one batch beyond `prefetch`. With several, calls of the data set's `collate` run at the same time. The order of
  /// the batches stays the same.
  int64_t num_workers = 1;
  /// The batches' device. Batches are also copied to it in advance, so that taking a batch does not wait for a copy.
  /// Copies of more than 64 KiB and up to 16 MiB overlap with running kernels.
  Device device = Device::cpu;
  /// The length of each example. If it is given, a batch has examples of about the same length, which need little
  /// padding. As in Hugging Face's group_by_length, the shuffled examples are taken in windows of up to 50 batches,
  /// sorted by length in each window and cut into batches. Unlike there, the batches are then shuffled. The examples
  /// that are left for a smaller last batch are not sorted. Without `shuffle`, all examples are sorted and the
  /// longest come first. So the batch that needs most memory is the first, and examples are not in the order of the
  /// data.
  std::vector<int64_t> lengths = {};
};

/// Batches of a data set, in an order that depends only on the seed and the epoch. A range-for takes the batches up
/// to the end of the epoch, and the next range-for takes the next epoch. After a `break`, the next range-for
/// continues the same epoch with the batch after it; in PyTorch a `break` ends the epoch:
///
///     nn::Loader loader(data.train, {.batch = 64, .seed = 1337});
///     for (int epoch = 0; epoch < 10; ++epoch) {
///       for (auto [x, y] : loader) backward(cross_entropy(model(x), y));
///     }
///
/// Sequences need less padding in batches by length:
///
///     nn::Loader loader(data.train, {.batch = 2, .lengths = {7, 2, 9, 5}});  // of four sequences
///
/// The data set must outlive the loader.
class Loader {
 public:
  /// Throws: ValueError for an empty data set, a batch below 1, a prefetch or num_workers below 0, a `drop_last` that
  /// leaves no batch, and for `lengths` that are below 0 or not as many as the examples.
  Loader(const Dataset& data, LoaderOptions options, Where where = {});
  Loader(const Dataset&& data, LoaderOptions options, Where where = {}) = delete;  // it would not outlive the loader
  template <class Nothing = void>
  Loader(const Dataset& data, const detail::RefusedLoaderOptions&) : Loader(data, LoaderOptions{}) {
    static_assert(detail::refused<Nothing>, "batch_size is batch here: write nn::Loader loader(data, {.batch = 64})");
  }
  template <std::integral Batch>
  Loader(const Dataset& data, Batch) : Loader(data, LoaderOptions{}) {
    static_assert(detail::refused<Batch>, "options go in braces: write nn::Loader loader(data, {.batch = 64})");
  }
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The number of batches of the current epoch, or of the next one between epochs. It includes a smaller last batch,
  /// unless that is dropped.
  int64_t batches_per_epoch() const;

  const LoaderOptions& options() const { return options_; }  ///< the options given to the constructor

  /// The loader's position in the stream of batches, for a checkpoint.
  struct Position {
    int64_t epoch = 0;     ///< the current epoch, or the next one between epochs
    int64_t batch = 0;     ///< how many of its batches were taken
    int64_t examples = 0;  ///< how many examples the epoch has; 0 if that is not known
  };
  Position position() const { return {position_.epoch, position_.batch, examples()}; }
  /// Continues from a position. If it is inside an epoch and has a number of examples, the data set must have as
  /// many, because other numbers have another order.
  ///
  /// Throws: ValueError for a data set of another size, and for a batch or an epoch that cannot be.
  void seek(Position position, Where where = {});

  /// The iterator of a range-for.
  class Iterator {
   public:
    /// Takes the next batch of the epoch.
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    Iterator() = default;
    Batch& operator*() { return *batch_; }  ///< the batch
    /// Takes the next batch.
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !batch_; }  ///< whether the epoch has ended

   private:
    Loader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };

  /// Takes the next batch.
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }  ///< ends a range-for

  /// The next batch of the current epoch; empty at its end. The call after that starts the next epoch.
  ///
  /// Throws: the data set's error, when its batch is taken. The next call tries that batch again, and nothing is
  /// prefetched for the rest of the epoch. ValueError at the start of an epoch if a data set with `lengths` has
  /// grown; DeviceError inside a Recording, because its replays would not take a new batch.
  std::optional<Batch> next();

 private:
  friend class Checkpoint;  // which undoes a load that fails

  /// A batch, or the error that prevented it. Both are empty while a worker prepares the batch.
  struct Made {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  int64_t examples() const;  // of the current epoch, or of the next one between epochs
  void check_lengths() const;
  void start_epoch();
  void stop_workers();
  Batch make(int64_t batch) const;
  void work();
  Made& made(int64_t batch) { return made_[static_cast<size_t>(batch) % made_.size()]; }

  const Dataset& data_;
  LoaderOptions options_;
  Position position_;           // without the number of examples
  std::vector<int64_t> order_;  // of the current epoch; empty between epochs

  std::vector<std::thread> workers_;
  std::mutex mutex_;  // protects the members below, and position_ while there are workers
  std::condition_variable changed_;
  std::vector<Made> made_;  // a ring buffer of the batches from position_ on
  int64_t next_ = 0;        // the first batch that no worker has begun
  bool stopping_ = false;
};

}  // namespace linnet::nn
