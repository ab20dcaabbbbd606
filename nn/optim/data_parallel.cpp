#include <linnet/nn/optim/data_parallel.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>

namespace linnet::nn {
namespace {

constexpr int64_t kMostShards = int64_t{1} << 16;
/// Shard i starts at draw i·2^40 of the random stream, so the draws of two shards never overlap: a run makes fewer.
constexpr int kDrawBits = 40;

/// a + b, computed in place in one of them. An undefined tensor counts as zeros; adding 0 then turns -0 into 0, as
/// the sum with zeros would.
Tensor sum_of(Tensor a, Tensor b) {
  if (a.defined() && b.defined()) return a += b;
  if (a.defined()) return a += 0;
  return b.defined() ? b += 0 : b;
}

constexpr size_t kChecksumDigits = 8;

std::string checksum(const Tensor& x) {
  const Tensor all = x.detach().to(Device::cpu).contiguous();
  const auto* const bytes = static_cast<const Bytef*>(detail::view(all).data);
  const auto sum = crc32_z(0, bytes, static_cast<size_t>(all.numel() * size_of(all.dtype())));
  return fmt::format("{:0{}x}", sum, kChecksumDigits);
}

void check_shards(const DataParallelOptions& options, int ranks) {
  const int64_t shards = options.shards;
  if (shards < 1 || shards > kMostShards || options.accumulate < 1) {
    throw ValueError(
        fmt::format("{} shards and {} micro-batches: there must be at least 1 of each, and at most {} "
                    "shards",
                    shards, options.accumulate, kMostShards));
  }
  if (!options.any_order && !std::has_single_bit(static_cast<uint64_t>(shards))) {
    throw ValueError(fmt::format("{} shards: their number must be a power of two: 1, 2, 4, 8, …", shards));
  }
  if (shards % ranks != 0) {
    throw ValueError(fmt::format("{} ranks do not divide {} shards; {}", ranks, shards,
                                 ranks > shards ? "take more shards, or fewer ranks" : "take 1, 2, 4, 8, … ranks"));
  }
}

}  // namespace

Tensor Shard::of(const Tensor& batch, Where where) const {
  const Call call("Shard::of", where);
  if (batch.rank() == 0 || batch.size(0) % count != 0) {
    throw ShapeError(
        fmt::format("{} shards do not divide the rows of a batch of shape {}; leave out a smaller last batch "
                    "(.drop_last = true of the Loader), or take a batch size that they divide",
                    count, to_string(batch.shape())));
  }
  const int64_t rows = batch.size(0) / count;
  return batch.narrow(0, index * rows, rows);
}

Tensor DataParallel::Tree::add(int64_t shard, bool is_last, Tensor value) {
  for (size_t height = 0;; ++height) {
    const bool has_neighbour = (shard >> height & 1) != 0;
    if (has_neighbour) value = sum_of(std::exchange(waiting[height], {}), std::move(value));
    if (has_neighbour || (is_last && height + 1 < waiting.size())) continue;
    if (is_last) return value;
    waiting[height] = std::move(value);
    return {};
  }
}

DataParallel::DataParallel(ProcessGroup& group, Module& model, const DataParallelOptions& options, Where where)
    : group_(group), model_(model), options_(options), local_shards_(options.shards / group.world_size()) {
  const Call call("DataParallel", where);
  check_shards(options, group.world_size());
  const auto heights = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(local_shards_)));
  for (const NamedTensor& parameter : model.named_parameters()) {
    if (!parameter.tensor.requires_grad()) {
      frozen_.push_back(parameter);
      continue;
    }
    Slot& slot = slots_.emplace_back();
    slot.parameter = parameter.tensor;
    slot.tree.waiting.resize(heights);
  }
  if (options.shards > 1) {
    for (const NamedTensor& of_model : model.named_buffers()) {
      Buffer& buffer = buffers_.emplace_back();
      buffer.tensor = of_model.tensor;
      buffer.tree.waiting.resize(heights);
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    hooks_.push_back(register_post_accumulate_grad_hook(slots_[i].parameter, [this, i] {
      if (is_last_) take(slots_[i], local_shards_ - 1, true);
    }));
  }
  if (group.world_size() == 1) return;
  make_buckets(options.bucket_bytes);
  std::vector<Tensor> state;
  for (const auto& [name, tensor] : model.state()) state.push_back(tensor);
  const auto [seed, draws] = model.generator().state();
  const Tensor generator = tensor(std::vector{static_cast<int64_t>(seed), static_cast<int64_t>(draws)});
  state.push_back(generator);
  group.broadcast(state);
  model.generator().set_state(
      {static_cast<uint64_t>(generator[0].item<int64_t>()), static_cast<uint64_t>(generator[1].item<int64_t>())});
}

void DataParallel::make_buckets(int64_t bytes) {
  const NoGrad no_grad;
  std::vector<int64_t> sizes;  // elements of each bucket
  const auto is_full = [&](const Slot& slot) {
    const int64_t size = size_of(slot.parameter.dtype());
    return sizes.empty() || (sizes.back() + slot.parameter.numel()) * size > bytes;
  };
  DType dtype = DType::float32;
  std::vector<DType> dtypes;
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot) {  // about the order of backward
    if (is_full(*slot) || slot->parameter.dtype() != dtype) {
      dtype = slot->parameter.dtype();
      sizes.push_back(0);
      dtypes.push_back(dtype);
      buckets_.emplace_back();
    }
    slot->bucket = buckets_.size() - 1;
    slot->offset = std::exchange(sizes.back(), sizes.back() + slot->parameter.numel());
    ++buckets_.back().slots;
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].slots > 1) buckets_[i].sum = Tensor::empty({sizes[i]}, dtypes[i], model_.device());
  }
}

void DataParallel::begin() {
  for (Bucket& bucket : buckets_) bucket.work.wait();  // an error may have left sums under way, which write to them
  for (Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) {
      throw AutogradError("a parameter has a gradient already; call zero_grad() first, as the mean takes its place");
    }
    slot.is_complete = slot.has_grad = false;
  }
  for (const auto& [name, parameter] : frozen_) {
    if (!parameter.requires_grad()) continue;
    throw AutogradError(
        fmt::format("parameter {} was unfrozen after DataParallel was made, so its gradient would not be summed "
                    "over the ranks; make DataParallel after unfreezing",
                    name));
  }
  for (Buffer& buffer : buffers_) {
    buffer.changes = 0;
    if (buffer.start.defined() && detail::version(buffer.tensor) == buffer.version) continue;
    buffer.start = buffer.tensor.clone();
    buffer.version = detail::version(buffer.tensor);
  }
  for (Bucket& bucket : buckets_) bucket.missing = bucket.slots;
  next_bucket_ = 0;
}

double DataParallel::backward(const std::function<Tensor(const Shard&)>& loss, Where where) {
  {
    const Call call("DataParallel::backward", where);
    begin();
  }
  Generator& generator = model_.generator();
  const Generator::State before = generator.state();
  /// Stops the hooks from taking gradients and makes the generators of all ranks equal, even after an error.
  struct Ending {
    bool& is_last;
    Generator& generator;
    Generator::State state;
    ~Ending() {
      is_last = false;
      generator.set_state(state);
    }
  } ending{is_last_, generator, before};
  std::vector<uint64_t> draws;
  const int64_t all = options_.shards * options_.accumulate;
  Tree losses{std::vector<Tensor>(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(local_shards_))))};
  Tensor total;
  for (int64_t i = 0; i < local_shards_; ++i) {
    Shard shard{.index = group_.rank() * local_shards_ + i, .count = options_.shards};
    const Generator::State begin{before.seed, before.draws + (static_cast<uint64_t>(shard.index) << kDrawBits)};
    generator.set_state(begin);
    const bool is_last = i + 1 == local_shards_;
    double sum = 0;
    try {
      for (; shard.micro_batch < options_.accumulate; ++shard.micro_batch) {
        const Tensor of_shard = loss(shard);
        is_last_ = is_last && shard.micro_batch + 1 == options_.accumulate;
        linnet::backward(all == 1 ? of_shard : of_shard / static_cast<double>(all), {}, where);
        sum += of_shard.item<double>();
      }
    } catch (...) {  // a shard that fails changes no buffer
      for (Buffer& buffer : buffers_) restore(buffer);
      throw;
    }
    draws.push_back(generator.state().draws - begin.draws);
    is_last_ = false;
    const NoGrad no_grad;
    total = losses.add(i, is_last, full({1}, sum, DType::float64));
    for (Slot& slot : slots_) {
      if (!slot.is_complete) take(slot, i, is_last);  // in the last shard, only those without a gradient are left
    }
    for (Buffer& buffer : buffers_) take(buffer, i, is_last);
  }
  const double sum = finish(total, draws);
  ending.state.draws += draws[0];
  return sum / static_cast<double>(all);
}

void DataParallel::take(Slot& slot, int64_t shard, bool is_last) {
  const NoGrad no_grad;
  const Tensor gradient = slot.parameter.grad();
  slot.parameter.set_grad({});
  slot.has_grad = slot.has_grad || gradient.defined();
  Tensor sum = slot.tree.add(shard, is_last, gradient);
  if (!is_last) return;
  slot.is_complete = true;
  slot.sum = std::move(sum);
  if (!buckets_.empty()) send(slot);
}

void DataParallel::send(Slot& slot) {
  Bucket& bucket = buckets_[slot.bucket];
  const Tensor& parameter = slot.parameter;
  if (bucket.slots == 1) {  // the gradient stays where it is
    bucket.sum = slot.sum.defined() ? slot.sum : zeros(parameter.shape(), parameter.dtype(), parameter.device());
  } else {
    Tensor place = bucket.sum.narrow(0, slot.offset, parameter.numel());
    if (slot.sum.defined()) {
      place.copy_(slot.sum.reshape(place.shape()));
    } else {
      place.fill_(0);
    }
  }
  slot.sum = {};
  --bucket.missing;
  for (size_t i = 0; i < next_bucket_; ++i) buckets_[i].work.is_completed();  // lets their messages make progress
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0; ++next_bucket_) {
    Bucket& full = buckets_[next_bucket_];  // all ranks start them in this order
    full.work = group_.start_all_reduce(full.sum, {.any_order = options_.any_order});
  }
}

void DataParallel::restore(Buffer& buffer) {
  if (detail::version(buffer.tensor) == buffer.version) return;
  const NoGrad no_grad;
  buffer.tensor.copy_(buffer.start);
  buffer.version = detail::version(buffer.tensor);
}

void DataParallel::take(Buffer& buffer, int64_t shard, bool is_last) {
  Tensor value;
  if (detail::version(buffer.tensor) != buffer.version) {
    ++buffer.changes;
    value = Tensor::empty({buffer.tensor.numel()}, DType::float64, buffer.tensor.device());
    value.copy_(buffer.tensor.reshape(value.shape()));
    restore(buffer);
  }
  buffer.sum = buffer.tree.add(shard, is_last, std::move(value));
}

double DataParallel::finish(const Tensor& loss, const std::vector<uint64_t>& draws) {
  const NoGrad no_grad;
  const auto begin = std::chrono::steady_clock::now();
  for (Bucket& bucket : buckets_) bucket.work.wait();
  // A parameter without a gradient in any shard of any rank keeps grad() undefined, as after an ordinary backward.
  std::vector<double> values{loss.item<double>(), 0, 0};
  for (const uint64_t of_shard : draws) {
    const auto count = static_cast<double>(of_shard);
    values[1] += count;
    values[2] += count * count;
  }
  for (const Slot& slot : slots_) values.push_back(slot.has_grad ? 1 : 0);
  for (const Buffer& buffer : buffers_) values.push_back(static_cast<double>(buffer.changes));
  Tensor all = tensor(values);
  group_.all_reduce(all, {.any_order = options_.any_order});
  values = all.to_vector<double>();
  // S Σd² − (Σd)² is the sum of (d − d')² over all pairs of the S shards.
  if (static_cast<double>(options_.shards) * values[2] != values[1] * values[1]) check_draws(draws);
  const std::span flags = std::span(values).subspan(3);
  set_buffers(flags.subspan(slots_.size()));
  waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (flags[i] == 0) continue;
    if (buckets_.empty()) {
      slot.parameter.set_grad(std::exchange(slot.sum, {}));
    } else {
      Bucket& bucket = buckets_[slot.bucket];
      const int64_t count = slot.parameter.numel();
      const Tensor sum = bucket.slots == 1 ? std::exchange(bucket.sum, {}) : bucket.sum.narrow(0, slot.offset, count);
      slot.parameter.set_grad(sum.view(slot.parameter.shape()));
    }
  }
  return values[0];
}

void DataParallel::check_draws(const std::vector<uint64_t>& draws) {
  std::string own, all;
  constexpr size_t kDigits = 16;
  for (const uint64_t of_shard : draws) own += fmt::format("{:0{}x}", of_shard, kDigits);
  for (const std::string& of_rank : group_.all_gather(own)) all += of_rank;
  const auto draws_of = [&](size_t shard) { return std::stoull(all.substr(shard * kDigits, kDigits), nullptr, 16); };
  for (size_t shard = 1; shard * kDigits < all.size(); ++shard) {
    if (draws_of(shard) == draws_of(shard - 1)) continue;
    throw ValueError(
        fmt::format("shard {} drew {} times from the model's generator, and shard {} {} times; draw as often for "
                    "every shard",
                    shard - 1, draws_of(shard - 1), shard, draws_of(shard)));
  }
}

void DataParallel::set_buffers(std::span<const double> changes) {
  std::vector<Tensor> sums;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (changes[i] == 0) continue;
    Buffer& buffer = buffers_[i];
    sums.push_back(buffer.sum.defined() ? std::exchange(buffer.sum, {}).to(model_.device())
                                        : zeros({buffer.tensor.numel()}, DType::float64, model_.device()));
  }
  if (sums.empty()) return;
  const Tensor all = concat(sums);  // one message
  group_.all_reduce(all, {.any_order = options_.any_order});
  int64_t begin = 0;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (changes[i] == 0) continue;
    Tensor& buffer = buffers_[i].tensor;
    const Tensor sum = all.narrow(0, std::exchange(begin, begin + buffer.numel()), buffer.numel());
    buffer.copy_((sum / changes[i]).view(buffer.shape()));
  }
}

void DataParallel::check_same(Where where) {
  const Call call("check_same", where);
  std::vector<std::string> names;
  std::string checksums;  // of the same length for each tensor, and then the generator's state
  const auto add = [&](const char* kind, const std::vector<NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors) {
      names.push_back(fmt::format("{} {}", kind, name));
      checksums += checksum(tensor);
    }
  };
  const std::vector<NamedTensor> parameters = model_.named_parameters();
  add("parameter", parameters);
  add("buffer", model_.named_buffers());
  names.emplace_back("the generator");
  const auto [seed, draws] = model_.generator().state();
  const std::vector<std::string> all = group_.all_gather(checksums + fmt::format("{:016x}{:016x}", seed, draws));
  const auto other = std::ranges::find_if(all, [&](const std::string& of_rank) { return of_rank != all[0]; });
  if (other == all.end()) return;
  const auto at = static_cast<size_t>(std::ranges::mismatch(*other, all[0]).in1 - other->begin());
  const size_t i = std::min(at / kChecksumDigits, names.size() - 1);
  throw ValueError(
      fmt::format("{} of rank {} differs from that of rank 0; {}", names[i], other - all.begin(),
                  i < parameters.size() ? "ranks need processors with the same instruction set, or LINNET_ISA set to "
                                          "the best that all have"
                  : i + 1 < names.size()
                      ? "outside of DataParallel::backward, all ranks must change it alike; a model that ranks call "
                        "with different batches there must be in eval()"
                      : "outside of DataParallel::backward, all ranks must draw from it equally often"));
}

}  // namespace linnet::nn
