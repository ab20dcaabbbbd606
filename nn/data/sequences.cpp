#include <linnet/nn/data/sequences.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/views.h>
#include <linnet/nn/data/check_index.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>

namespace linnet::nn {

PaddedSequences pad_sequence(const std::vector<Tensor>& sequences, const PadSequenceOptions& options, Where where) {
  const Call call("pad_sequence", where);
  if (sequences.empty()) throw ValueError("no sequences were given; at least one is needed");
  const Tensor& first = sequences[0];
  int64_t longest = 0;
  for (const Tensor& x : sequences) {
    if (x.rank() == 0 || x.rank() != first.rank() ||
        !std::equal(x.shape().begin() + 1, x.shape().end(), first.shape().begin() + 1)) {
      throw ShapeError(
          fmt::format("sequences of shape {} and {}; they must be alike in all dims except the first, "
                      "which is their length",
                      to_string(first.shape()), to_string(x.shape())));
    }
    longest = std::max(longest, x.size(0));
  }
  const int64_t count = std::ssize(sequences);
  Tensor mask = zeros({count, longest}, DType::boolean);
  std::vector<Tensor> padded;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor& x = sequences[static_cast<size_t>(i)];
    Shape widths = Shape::filled(2 * x.rank(), 0);  // the last two are the padding of dim 0
    widths[2 * x.rank() - 1] = longest - x.size(0);
    padded.push_back(pad(x, widths, options.padding_value));
    mask.select(0, i).narrow(0, 0, x.size(0)).fill_(true);
  }
  return {stack(padded, options.batch_first ? 0 : 1), mask.to(first.device())};
}

SequenceDataset::SequenceDataset(std::vector<Tensor> sequences, Tensor targets, Scalar padding_value, Where where)
    : sequences_(std::move(sequences)), targets_(std::move(targets)), padding_value_(padding_value) {
  const Call call("SequenceDataset", where);
  if (!targets_.defined() || (targets_.rank() > 0 && targets_.size(0) == size())) return;
  throw ShapeError(
      fmt::format("targets{} for {} sequences; each has one, in dim 0", to_string(targets_.shape()), size()));
}

Batch SequenceDataset::collate(std::span<const int64_t> indices, RandomKey) const {
  std::vector<Tensor> chosen;
  for (const int64_t index : indices) {
    detail::check_index(index, size());
    chosen.push_back(sequences_[static_cast<size_t>(index)]);
  }
  PaddedSequences padded = pad_sequence(chosen, {.batch_first = true, .padding_value = padding_value_});
  Batch batch{padded.sequences, {}, {padded.padding_mask}};
  if (targets_.defined()) batch.targets = index_select(targets_, 0, from_span(indices).to(targets_.device()));
  return batch;
}

}  // namespace linnet::nn
