#include "support/lra/sequences.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <linnet/nn/data/check_index.h>

namespace linnet::examples {
namespace {

/// The ids of some sequences, and the mask of their padding.
struct PaddedIds {
  Tensor ids, mask;
};

PaddedIds padded(const ByteSequences& sequences, std::span<const int64_t> indices, Ids kind) {
  int64_t longest = 0;
  for (const int64_t index : indices) longest = std::max(longest, std::ssize(sequences[index]));
  const Shape shape{std::ssize(indices), longest};
  PaddedIds result{Tensor::empty(shape, DType::int64), Tensor::empty(shape, DType::boolean)};
  int64_t* id = result.ids.mutable_data<int64_t>().data();
  bool* kept = result.mask.mutable_data<bool>().data();
  for (const int64_t index : indices) {
    const std::span<const uint8_t> bytes = sequences[index];
    for (const uint8_t byte : bytes) {
      *id = byte + (kind == Ids::byte_plus_one ? 1 : 0);
      *kept++ = *id++ != 0;
    }
    const int64_t rest = longest - std::ssize(bytes);
    id = std::fill_n(id, rest, 0);
    kept = std::fill_n(kept, rest, false);
  }
  return result;
}

}  // namespace

void ByteSequences::append(std::span<const uint8_t> sequence) {
  bytes_.insert(bytes_.end(), sequence.begin(), sequence.end());
  ends_.push_back(std::ssize(bytes_));
}

std::span<const uint8_t> ByteSequences::operator[](int64_t i) const {
  const int64_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i - 1)];
  const int64_t end = ends_[static_cast<size_t>(i)];
  return std::span(bytes_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

LabelledSequences::LabelledSequences(ByteSequences first, std::vector<uint8_t> labels, ByteSequences second, Ids ids)
    : first_(std::move(first)), second_(std::move(second)), labels_(std::move(labels)), ids_(ids) {
  const bool pairs_match = second_.size() == 0 || second_.size() == size();
  if (first_.size() == size() && pairs_match) return;
  throw ValueError(
      fmt::format("{} sequences and {} second ones for {} labels", first_.size(), second_.size(), size()));
}

nn::Batch LabelledSequences::collate(std::span<const int64_t> indices, RandomKey /*key*/) const {
  Tensor labels = Tensor::empty({std::ssize(indices)}, DType::int64);
  int64_t* label = labels.mutable_data<int64_t>().data();
  for (const int64_t index : indices) {
    detail::check_index(index, size());
    *label++ = labels_[static_cast<size_t>(index)];
  }
  auto [ids, mask] = padded(first_, indices, ids_);
  if (second_.size() == 0) return {ids, labels, {mask}};
  auto [second_ids, second_mask] = padded(second_, indices, ids_);
  return {ids, labels, {mask, second_ids, second_mask}};
}

std::vector<int64_t> LabelledSequences::lengths() const {
  std::vector<int64_t> lengths;
  lengths.reserve(labels_.size());
  for (int64_t i = 0; i < size(); ++i) {
    const int64_t second = second_.size() == 0 ? 0 : std::ssize(second_[i]);
    lengths.push_back(std::max(std::ssize(first_[i]), second));
  }
  return lengths;
}

}  // namespace linnet::examples
