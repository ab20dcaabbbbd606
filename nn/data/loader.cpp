#include <linnet/nn/data/loader.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel/thread.h>
#include <linnet/nn/data/random_choices.h>

namespace linnet::nn {
namespace {

/// The random streams of the loader's seed: in each epoch one for the order and one for augmentation.
RandomKey order_key(uint64_t seed, int64_t epoch) { return {seed, 2 * static_cast<uint64_t>(epoch)}; }

/// A stream for the order of batches by length. Its key is a block of the order's stream that no shuffle uses.
RandomKey batch_order_key(uint64_t seed, int64_t epoch) {
  return detail::key_of_block(order_key(seed, epoch), UINT64_MAX);
}

RandomKey batch_key(uint64_t seed, int64_t epoch, int64_t batch) {
  const RandomKey augmentation{seed, 2 * static_cast<uint64_t>(epoch) + 1};
  return detail::key_of_block(augmentation, static_cast<uint64_t>(batch));
}

/// The number of batches of a window, in which examples are sorted by length: up to 50, but so few that an epoch has
/// at least four windows. Otherwise the same examples would always share a batch.
int64_t window_batches(int64_t batches) { return std::clamp<int64_t>(batches / 4, 1, 50); }

int64_t batches_of(int64_t examples, const LoaderOptions& options) {
  const int64_t whole = examples / options.batch, rest = examples % options.batch;
  return whole + (rest > 0 && !options.drop_last ? 1 : 0);
}

/// Sorts from the longest to the shortest. Examples of the same length keep their order.
void sort_by_length(std::span<int64_t> examples, const std::vector<int64_t>& lengths) {
  std::ranges::stable_sort(examples, std::ranges::greater{},
                           [&](int64_t example) { return lengths[static_cast<size_t>(example)]; });
}

/// Rearranges a shuffled order into batches by length. A smaller last batch stays as it is.
void group_by_length(std::vector<int64_t>& order, const std::vector<int64_t>& lengths, int64_t batch, RandomKey key) {
  const int64_t batches = std::ssize(order) / batch, window = window_batches(batches);
  std::vector<int64_t> grouped = order;
  for (int64_t begin = 0; begin < batches; begin += window) {
    const int64_t end = std::min(begin + window, batches);
    sort_by_length({grouped.data() + begin * batch, grouped.data() + end * batch}, lengths);
  }
  std::vector<int64_t> places(static_cast<size_t>(batches));
  std::iota(places.begin(), places.end(), int64_t{0});
  detail::shuffle(places, key);
  for (int64_t i = 0; i < batches; ++i) {
    std::copy_n(grouped.data() + places[static_cast<size_t>(i)] * batch, batch, order.data() + i * batch);
  }
}

}  // namespace

Loader::Loader(const Dataset& data, LoaderOptions options, Where where) : data_(data), options_(std::move(options)) {
  const Call call("Loader", where);
  if (data.size() == 0) throw ValueError("the data set is empty");
  if (options_.batch < 1) throw ValueError(fmt::format("batch must be at least 1, not {}", options_.batch));
  if (options_.prefetch < 0) throw ValueError(fmt::format("prefetch must be at least 0, not {}", options_.prefetch));
  if (options_.num_workers < 0) {
    throw ValueError(fmt::format("num_workers must be at least 0, not {}", options_.num_workers));
  }
  if (batches_per_epoch() == 0) {
    throw ValueError(fmt::format("drop_last leaves no batch: {} examples, batch {}", data.size(), options_.batch));
  }
  check_lengths();
}

void Loader::check_lengths() const {
  const std::vector<int64_t>& lengths = options_.lengths;
  if (lengths.empty()) return;
  if (std::ssize(lengths) != data_.size()) {
    throw ValueError(fmt::format("there are {} lengths and {} examples; give one for each, or leave them out",
                                 lengths.size(), data_.size()));
  }
  const auto least = std::ranges::min_element(lengths);
  if (*least >= 0) return;
  throw ValueError(fmt::format("lengths must be at least 0, but example {} has {}", least - lengths.begin(), *least));
}

Loader::~Loader() { stop_workers(); }

int64_t Loader::examples() const { return order_.empty() ? data_.size() : std::ssize(order_); }

int64_t Loader::batches_per_epoch() const { return batches_of(examples(), options_); }

void Loader::seek(Position position, Where where) {
  const Call call("Loader::seek", where);
  const int64_t size = data_.size();
  if (position.batch > 0 && position.examples != 0 && position.examples != size) {
    throw ValueError(
        fmt::format("the position is inside an epoch of {} examples, but the data set has {}; finish the epoch with "
                    "the {}, and change the data set between epochs",
                    position.examples, size, position.examples));
  }
  const int64_t batches = batches_of(size, options_);  // the epoch that is under way may have fewer examples
  constexpr int64_t kMostEpochs = INT64_MAX / 2;       // those after it can be counted too
  if (position.epoch < 0 || position.epoch > kMostEpochs || position.batch < 0 || position.batch > batches) {
    throw ValueError(
        fmt::format("there is no batch {} of epoch {}: an epoch has {}", position.batch, position.epoch, batches));
  }
  stop_workers();
  order_.clear();
  position_ = {position.epoch, position.batch};
}

Batch Loader::make(int64_t batch) const {
  const int64_t begin = batch * options_.batch;
  const int64_t end = begin + std::min(options_.batch, std::ssize(order_) - begin);
  const std::span<const int64_t> indices(order_.data() + begin, static_cast<size_t>(end - begin));
  Batch examples = data_.collate(indices, batch_key(options_.seed, position_.epoch, batch));
  const auto move = [&](Tensor& x) {
    if (x.defined()) x = x.to(options_.device);
  };
  move(examples.inputs);
  move(examples.targets);
  for (Tensor& other : examples.others) move(other);
  return examples;
}

void Loader::start_epoch() {
  check_lengths();  // a data set may have grown
  const bool by_length = !options_.lengths.empty();
  std::vector<int64_t> order(static_cast<size_t>(data_.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (options_.shuffle) {
    detail::shuffle(order, order_key(options_.seed, position_.epoch));
    if (by_length) {
      group_by_length(order, options_.lengths, options_.batch, batch_order_key(options_.seed, position_.epoch));
    }
  } else if (by_length) {
    sort_by_length(order, options_.lengths);
  }
  order_ = std::move(order);  // whole or not at all, as memory may run out
  if (options_.prefetch == 0) return;
  const int64_t most = batches_per_epoch();
  const int64_t workers = std::min(options_.num_workers, most);
  made_.resize(static_cast<size_t>(std::min(options_.prefetch, most) + workers));
  workers_.reserve(static_cast<size_t>(workers));
  next_ = position_.batch;
  for (int64_t i = 0; i < workers; ++i) {
    std::thread worker = detail::start_thread([this] { work(); });
    if (!worker.joinable()) break;  // the system refuses more threads; without workers, next() makes the batches
    workers_.push_back(std::move(worker));
  }
}

std::optional<Batch> Loader::next() {
  if (Recording::is_under_way()) {
    throw DeviceError("a recorded function cannot take a batch, since replays would not take a new one; pass it in");
  }
  if (order_.empty()) start_epoch();
  if (position_.batch == batches_per_epoch()) {
    seek({position_.epoch + 1, 0});
    return std::nullopt;
  }
  if (workers_.empty()) {
    Batch batch = make(position_.batch);
    ++position_.batch;
    return batch;
  }
  std::unique_lock lock(mutex_);
  Made& place = made(position_.batch);
  changed_.wait(lock, [&] { return place.batch || place.error; });
  Made taken = std::exchange(place, {});
  if (taken.error) {
    lock.unlock();
    stop_workers();
    std::rethrow_exception(taken.error);
  }
  ++position_.batch;
  changed_.notify_all();
  return std::move(taken.batch);
}

void Loader::work() {
  const int64_t end = batches_per_epoch();
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || next_ >= end || next_ < position_.batch + std::ssize(made_); });
    if (stopping_ || next_ >= end) return;
    const int64_t batch = next_++;
    lock.unlock();
    Made result;
    try {
      result.batch = make(batch);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    if (result.error) next_ = end;  // next() throws at this batch, so the later ones would not be taken
    made(batch) = std::move(result);
    changed_.notify_all();
  }
}

void Loader::stop_workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  made_.clear();
  stopping_ = false;
}

}  // namespace linnet::nn
