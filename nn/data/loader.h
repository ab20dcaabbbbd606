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
  int64_t prefetch = 2;    ///< batches prepared ahead by the loader's threads; 0 for none
  /// Threads that prepare batches, if `prefetch` is not 0; 0 for none, which is PyTorch's default. Each may prepare
  /// one batch beyond `prefetch`. With several, calls of the data set's `collate` run at the same time. The order of
  /// the batches stays the same.
  int64_t num_workers = 1;
  /// The batches' device. Copies to it are made ahead too, so that taking a batch waits for no copy. Copies of up to
  /// 16 MiB overlap with running kernels.
  Device device = Device::cpu;
  /// The length of each example, for batches of examples of about one length, which need little padding; empty for
  /// batches of any. As in Hugging Face's group_by_length, the shuffled examples are taken in windows of up to 50
  /// batches, sorted by length in each window and cut into batches. Unlike there, the order of the batches is then
  /// drawn. The examples that are left for a smaller last batch are not sorted. Without `shuffle` all examples are
  /// sorted, the longest first, so that the batch that needs most memory comes first, and batches do not come in the
  /// order of the data.
  std::vector<int64_t> lengths = {};
};

/// Batches of a data set, in an order that depends on the seed and the epoch alone. A range-for goes on to the end of
/// the epoch, from its beginning or from the batch after a `break`; in PyTorch a `break` ends the epoch. The next
/// range-for takes the next epoch:
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
  /// Throws: ValueError for an empty data set, a batch below 1, a prefetch or num_workers below 0, a `drop_last`
  /// that leaves none, and for `lengths` of another number than the examples or below 0.
  Loader(const Dataset& data, LoaderOptions options, Where where = {});
  Loader(const Dataset&& data, LoaderOptions options, Where where = {}) = delete;  // it would not outlive the loader
  template <class Nothing = void>
  Loader(const Dataset& data, const detail::RefusedLoaderOptions&) : Loader(data, LoaderOptions{}) {
    static_assert(detail::refused<Nothing>, "batch_size is batch here: write nn::Loader loader(data, {.batch = 64})");
  }
  template <std::integral Batch>
  Loader(const Dataset& data, Batch) : Loader(data, LoaderOptions{}) {
    static_assert(detail::refused<Batch>, "options stand in braces: write nn::Loader loader(data, {.batch = 64})");
  }
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The number of batches of the current epoch, or of the next one between epochs. It includes a smaller last batch,
  /// unless that is dropped.
  int64_t batches_per_epoch() const;

  const LoaderOptions& options() const { return options_; }  ///< those given to the constructor

  /// The loader's place in the stream of batches, for a checkpoint.
  struct Position {
    int64_t epoch = 0;  ///< the current epoch, or the next one between epochs
    int64_t batch = 0;  ///< the number of its batches that were taken
  };
  Position position() const { return position_; }
  /// Continues from a position.
  ///
  /// Throws: ValueError for a batch past the end of the epoch.
  void seek(Position position, Where where = {});

  /// What a range-for goes with.
  class Iterator {
   public:
    /// At the next batch of the epoch.
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
  /// Throws: what the data set throws, at the batch where it happened. The next call tries that batch again, and
  /// nothing is prefetched for the rest of the epoch. ValueError at the start of an epoch where a data set with
  /// `lengths` has grown; DeviceError inside a Recording, whose replays would take no batch.
  std::optional<Batch> next();

 private:
  /// A batch, or why there is none; both are empty while a worker prepares it.
  struct Made {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void check_lengths() const;
  void start_epoch();
  void stop_workers();
  Batch make(int64_t batch) const;
  void work();
  Made& made(int64_t batch) { return made_[static_cast<size_t>(batch) % made_.size()]; }

  const Dataset& data_;
  LoaderOptions options_;
  Position position_;
  std::vector<int64_t> order_;  // of the current epoch; empty between epochs

  std::vector<std::thread> workers_;
  std::mutex mutex_;  // of the members below, and of position_ while there are workers
  std::condition_variable changed_;
  std::vector<Made> made_;  // from the batch at position_ on, as a ring
  int64_t next_ = 0;        // the first batch that no worker has begun
  bool stopping_ = false;
};

}  // namespace linnet::nn
