#include <linnet/nn/data/subset.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/random/philox.h>
#include <linnet/nn/data/check_index.h>
#include <linnet/nn/data/random_choices.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>

namespace linnet::nn {
namespace {

/// The random stream of splits. Loaders and generators with the same seed use other streams, counted from 0.
constexpr uint64_t kSplitStream = uint64_t{1} << 63;

/// How many of `size` examples each part gets.
std::vector<int64_t> split_sizes(const std::vector<Scalar>& lengths, int64_t size) {
  std::vector<int64_t> sizes;
  sizes.reserve(lengths.size());
  double sum = 0;
  bool all_positive = true;
  for (const Scalar& length : lengths) {
    sum += length.real;
    all_positive = all_positive && length.real >= 0;
  }
  const bool is_whole = std::ranges::all_of(lengths, [](const Scalar& length) { return length.is_integer; });
  if (!all_positive || (is_whole ? sum != static_cast<double>(size) : std::abs(sum - 1) > 1e-9)) {
    throw ValueError(
        fmt::format("the lengths sum to {}; they must be at least 0, and sum to {}, the size of the data "
                    "set, or as fractions to 1",
                    sum, size));
  }
  for (const Scalar& length : lengths) {
    sizes.push_back(is_whole ? length.integer
                             : static_cast<int64_t>(std::floor(length.real * static_cast<double>(size))));
  }
  int64_t left = size - std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) ++sizes[i];
  return sizes;
}

}  // namespace

TensorDataset::TensorDataset(std::vector<Tensor> tensors, Where where) : tensors_(std::move(tensors)) {
  const Call call("TensorDataset", where);
  if (tensors_.empty()) throw ValueError("no tensors were given; at least one is needed");
  for (const Tensor& x : tensors_) {
    if (x.rank() > 0 && tensors_[0].rank() > 0 && x.size(0) == tensors_[0].size(0)) continue;
    throw ShapeError(fmt::format("tensors of shape {} and {}; all must have the same number of rows, dim 0",
                                 to_string(tensors_[0].shape()), to_string(x.shape())));
  }
}

Batch TensorDataset::collate(std::span<const int64_t> indices, RandomKey) const {
  const Tensor rows = from_span(indices);
  const auto rows_of = [&](const Tensor& x) { return index_select(x, 0, rows.to(x.device())); };
  Batch batch{rows_of(tensors_[0]), {}};
  for (size_t i = 1; i < tensors_.size(); ++i) {
    const Tensor x = rows_of(tensors_[i]);
    if (i == 1)
      batch.targets = x;
    else
      batch.others.push_back(x);
  }
  return batch;
}

Subset::Subset(const Dataset& data, std::vector<int64_t> indices, Where where)
    : data_(data), indices_(std::move(indices)) {
  const Call call("Subset", where);
  for (const int64_t index : indices_) {
    detail::check_index(index, data.size());
  }
}

Batch Subset::collate(std::span<const int64_t> indices, RandomKey key) const {
  std::vector<int64_t> of_all;
  of_all.reserve(indices.size());
  for (const int64_t index : indices) {
    detail::check_index(index, size());
    of_all.push_back(indices_[static_cast<size_t>(index)]);
  }
  return data_.collate(of_all, key);
}

std::vector<Subset> random_split(const Dataset& data, const std::vector<Scalar>& lengths, uint64_t seed,
                                 Where where) {
  const Call call("random_split", where);
  const std::vector<int64_t> sizes = split_sizes(lengths, data.size());
  std::vector<int64_t> order(static_cast<size_t>(data.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  detail::shuffle(order, {seed, kSplitStream});
  std::vector<Subset> parts;
  auto begin = order.begin();
  for (const int64_t size : sizes) {
    parts.emplace_back(data, std::vector<int64_t>(begin, begin + size));
    begin += size;
  }
  return parts;
}

}  // namespace linnet::nn
