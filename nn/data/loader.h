#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <linnet/core/where.h>
#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// How a Loader goes through a data set.
struct LoaderOptions {
  int64_t batch = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;  ///< leave out a last batch that is smaller than `batch`
  int64_t prefetch = 2;    ///< batches prepared ahead, by a thread of the loader's; 0 for none
  /// Where batches go, ahead too: whoever takes one waits for no copy, and up to 16 MiB at a time cross beside the
  /// kernels that are under way.
  Device device = Device::cpu;
};

/// Batches of a data set, in an order that depends on the seed and the epoch alone. A range-for runs to the end of
/// the epoch, from its begin or from where a `break` left it; the next one runs over the next epoch:
///
///     nn::Loader loader(data.train, {.batch = 64, .seed = 1337});
///     for (int epoch = 0; epoch < 10; ++epoch)
///       for (auto [x, y] : loader) ...
///
/// The data set must outlive the loader.
class Loader {
 public:
  /// Throws ValueError for an empty data set, a batch below 1, a prefetch below 0, or a `drop_last` that leaves none.
  Loader(const Dataset& data, LoaderOptions options, Where where = {});
  Loader(const Dataset&& data, LoaderOptions options, Where where = {}) = delete;  // it would not outlive the loader
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Of the epoch that is under way, or comes next; a smaller last one included, unless it is dropped.
  int64_t batches_per_epoch() const;

  /// Where in the stream of batches the loader stands: enough to go on from there.
  struct Position {
    int64_t epoch = 0;  ///< of the pass that is under way, or comes next
    int64_t batch = 0;  ///< batches of it that were taken
  };
  Position position() const { return position_; }
  /// Goes on from there. Throws ValueError for a batch past the end of the epoch.
  void seek(Position position, Where where = {});

  class Iterator {
   public:
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    Iterator() = default;
    Batch& operator*() { return *batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    Loader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };

  /// Takes the next batch.
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

  /// The next batch of the epoch that is under way; empty at its end, and then the first of the next. What the data
  /// set throws comes out here, at the batch it belongs to, which the next call tries again; from there to the end of
  /// the epoch nothing is prefetched.
  std::optional<Batch> next();

 private:
  void start_epoch();
  void stop_worker();
  Batch make(int64_t batch) const;
  void work(int64_t first);

  const Dataset& data_;
  LoaderOptions options_;
  Position position_;
  std::vector<int64_t> order_;  // of the epoch that is under way; empty between epochs

  std::thread worker_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stopping_ = false;
};

}  // namespace linnet::nn
