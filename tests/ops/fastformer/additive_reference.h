#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include <linnet/core/random/philox.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/fastformer/fastformer.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/values.h"

/// Additive attention by explicit N×N formulas in float64.

namespace linnet::test {

/// Row i of [B, H, N, D] holds the pool over the tokens that token i sees.
inline std::vector<double> pool_reference(const Tensor& scores, const Tensor& x, const Sees& sees) {
  const std::vector<double> s = scores.to_vector<double>();
  const int64_t heads = x.shape()[1], tokens = x.shape()[2];
  const auto score = [&](int64_t b, int64_t h, int64_t j) {
    return s[static_cast<size_t>((b * heads + h) * tokens + j)];
  };
  return weighted_means(
      [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        double largest = -kInfinity;
        for (int64_t other = 0; other < tokens; ++other) {
          if (sees(b, i, other)) largest = std::max(largest, score(b, h, other));
        }
        return std::exp(score(b, h, j) - largest);
      },
      tokens, x, sees);
}

struct AdditiveInputs {
  std::vector<Tensor> projections;
  std::vector<AdditiveStage> stages;

  /// All tensors, projections first.
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all = projections;
    for (const AdditiveStage& stage : stages) {
      for (const Tensor& x : {stage.weight, stage.bias, stage.concat_weight}) {
        if (x.defined()) all.push_back(x);
      }
    }
    return all;
  }

  /// The same inputs with other tensors, in the order of the function above.
  AdditiveInputs with(const std::vector<Tensor>& all) const {
    AdditiveInputs result = *this;
    size_t next = 0;
    for (Tensor& x : result.projections) x = all[next++];
    for (AdditiveStage& stage : result.stages) {
      for (Tensor* x : {&stage.weight, &stage.bias, &stage.concat_weight}) {
        if (x->defined()) *x = all[next++];
      }
    }
    return result;
  }
};

/// Which parameters exist, and the number of projections.
struct AdditiveKind {
  int64_t projections = 3;
  bool concat = false, full = false, bias = false;
};

inline AdditiveInputs additive_inputs(int64_t b, int64_t h, int64_t n, int64_t d, AdditiveKind kind = {},
                                      DType dtype = DType::float64) {
  uint64_t seed = 0;
  AdditiveInputs in;
  for (int64_t i = 0; i < kind.projections; ++i) in.projections.push_back(normal({b, h, n, d}, ++seed, dtype));
  for (int64_t i = 1; i < kind.projections; ++i) {
    AdditiveStage stage{normal({h, kind.full ? h * d : d}, ++seed, dtype)};
    if (kind.bias) stage.bias = normal({h}, ++seed, dtype);
    if (kind.concat) stage.concat_weight = normal({h, 2 * d, d}, ++seed, dtype);
    in.stages.push_back(stage);
  }
  return in;
}

/// A row vector times a matrix in row-major order.
inline std::vector<double> row_times(const std::vector<double>& row, const double* matrix, size_t columns) {
  std::vector<double> result(columns);
  for (size_t i = 0; i < row.size(); ++i) {
    for (size_t j = 0; j < columns; ++j) result[j] += row[i] * matrix[i * columns + j];
  }
  return result;
}

/// Eqs. 3–6 and all options, element by element, with explicit sums over tokens. `keys` are the keys of dropout, one
/// for each stage.
class AdditiveReference {
 public:
  AdditiveReference(const AdditiveInputs& in, const AdditiveAttentionOptions& options,
                    const std::vector<RandomKey>& keys = {})
      : shape_(in.projections[0].shape()),
        options_(options),
        sees_(sees(shape_[2], shape_[2], options.causal, options.padding_mask)) {
    std::vector<double> token = in.projections[0].to_vector<double>();
    for (size_t s = 0; s < in.stages.size(); ++s) {
      const Tensor x = tensor(token, shape_);
      std::vector<double> weighted = token;
      for (size_t at = 0; at < weighted.size() && !keys.empty(); ++at) {
        const bool kept = random_word(keys[s], at / width()) < keep_threshold(1 - options.dropout);
        weighted[at] *= kept ? 1 / (1 - options.dropout) : 0;
      }
      const std::vector<double> global = pool_reference(logits(x, in.stages[s]), tensor(weighted, shape_), sees_);
      token = interact(global, in.projections[s + 1].to_vector<double>(), in.stages[s]);
    }
    u = std::move(token);
    for (size_t at = 0; at < u.size(); ++at) {
      if (!sees_any(static_cast<int64_t>(at))) u[at] = 0;
    }
  }

  std::vector<double> u;

 private:
  size_t width() const { return static_cast<size_t>(shape_[3]); }

  Tensor logits(const Tensor& x, const AdditiveStage& stage) const {
    const int64_t b = shape_[0], h = shape_[1], n = shape_[2], d = shape_[3];
    const std::vector<double> tokens = x.to_vector<double>(), w = stage.weight.to_vector<double>();
    const bool full = stage.weight.size(1) == h * d;
    std::vector<double> scores;
    for (int64_t row = 0; row < b * h * n; ++row) {
      const int64_t i = row % n, head = row / n % h, sequence = row / n / h;
      double score = stage.bias.defined() ? stage.bias.to_vector<double>()[static_cast<size_t>(head)] : 0;
      for (int64_t other = full ? 0 : head; other < (full ? h : head + 1); ++other) {
        for (int64_t c = 0; c < d; ++c) {
          score += w[static_cast<size_t>(full ? (head * h + other) * d + c : head * d + c)] *
                   tokens[static_cast<size_t>(((sequence * h + other) * n + i) * d + c)];
        }
      }
      scores.push_back(score / std::sqrt(static_cast<double>(d)));
    }
    return tensor(scores, {b, h, n});
  }

  std::vector<double> interact(const std::vector<double>& global, const std::vector<double>& x,
                               const AdditiveStage& stage) const {
    std::vector<double> result;
    for (size_t first = 0; first < x.size(); first += width()) {
      if (options_.interaction == Interaction::concat) {
        std::vector<double> both(global.begin() + first, global.begin() + first + width());
        both.insert(both.end(), x.begin() + first, x.begin() + first + width());
        const size_t head = first / width() / static_cast<size_t>(shape_[2]) % static_cast<size_t>(shape_[1]);
        const std::vector<double> concat_weight = stage.concat_weight.to_vector<double>();
        for (const double value : row_times(both, &concat_weight[head * 2 * width() * width()], width())) {
          result.push_back(value);
        }
        continue;
      }
      for (size_t at = first; at < first + width(); ++at) {
        result.push_back(options_.interaction == Interaction::add ? global[at] + x[at] : global[at] * x[at]);
      }
    }
    return result;
  }

  bool sees_any(int64_t at) const {
    const int64_t row = at / shape_[3], i = row % shape_[2], b = row / shape_[2] / shape_[1];
    for (int64_t j = 0; j < shape_[2]; ++j) {
      if (sees_(b, i, j)) return true;
    }
    return false;
  }

  Shape shape_;
  AdditiveAttentionOptions options_;
  Sees sees_;
};

inline std::vector<double> additive_reference(const AdditiveInputs& in, const AdditiveAttentionOptions& options,
                                              const std::vector<RandomKey>& keys = {}) {
  return AdditiveReference(in, options, keys).u;
}

}  // namespace linnet::test
