#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/metrics.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::nn {
namespace {

void check_classes(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() == 0 || logits.numel() == 0) {
    throw ShapeError(
        fmt::format("logits must be [..., C] with at least one row, but have shape {}", to_string(logits.shape())));
  }
  const Shape rows(logits.shape().begin(), logits.shape().end() - 1);
  if (targets.shape() != rows) {
    throw ShapeError(fmt::format("logits{} ask for targets{}, one class each, but targets have shape {}",
                                 to_string(logits.shape()), to_string(rows), to_string(targets.shape())));
  }
  if (!is_integer(targets.dtype())) {
    throw DTypeError(fmt::format("targets must be int64 or int32, not {}; convert with to(DType::int64)",
                                 name_of(targets.dtype())));
  }
  const int64_t classes = logits.size(-1);
  const std::vector<int64_t> values = targets.to_vector<int64_t>();
  for (size_t row = 0; row < values.size(); ++row) {
    if (values[row] >= 0 && values[row] < classes) continue;
    throw IndexError(
        fmt::format("target {} of row {} is not a class: there are {}, from 0 on", values[row], row, classes));
  }
  const std::vector<double> all = logits.to_vector<double>();
  const auto nan = std::ranges::find_if(all, [](double logit) { return std::isnan(logit); });
  if (nan != all.end()) {
    throw ValueError(
        fmt::format("logits of row {} have a NaN, so no class is the largest; has the training diverged?",
                    (nan - all.begin()) / classes));
  }
}

}  // namespace

double macro_f1(const Tensor& logits, const Tensor& targets, Where where) {
  const Call call("macro_f1", where);
  check_classes(logits, targets);
  const std::vector<int64_t> predicted = argmax(logits.detach(), -1).to_vector<int64_t>();
  const std::vector<int64_t> actual = targets.to_vector<int64_t>();
  struct Counts {
    double right = 0, predicted = 0, actual = 0;
  };
  std::vector<Counts> classes(static_cast<size_t>(logits.size(-1)));
  for (size_t row = 0; row < actual.size(); ++row) {
    ++classes[static_cast<size_t>(predicted[row])].predicted;
    ++classes[static_cast<size_t>(actual[row])].actual;
    if (predicted[row] == actual[row]) ++classes[static_cast<size_t>(actual[row])].right;
  }
  double sum = 0;
  for (const Counts& count : classes) {
    // 2·P·R/(P + R) with P = right/predicted and R = right/actual.
    if (count.right > 0) sum += 2 * count.right / (count.predicted + count.actual);
  }
  return sum / static_cast<double>(classes.size());
}

}  // namespace linnet::nn
