#include <linnet/ops/fastmax.h>

#include <algorithm>

namespace linnet {
namespace {

/// From how many tokens on the factorised form is the faster one, forward and backward, for heads of a width.
/// The CPU's, measured with 4 heads in float32 (`bench crossover`; AMD Zen 5, AVX-512, OpenBLAS 0.3.21). In theory,
/// second order: 163, 579, 2,179 and 8,451 in full, twice that when causal; the quadratic form is the nearer to the
/// machine's limit.
struct Crossover {
  int64_t width;
  int64_t full, causal;
};

constexpr Crossover kFirstOrder[] = {{16, 304, 1792}, {32, 288, 1296}, {64, 208, 768}, {128, 288, 1104}};
constexpr Crossover kSecondOrder[] = {{16, 384, 1792}, {32, 688, 2304}, {64, 2560, 5824}, {128, 7744, 15040}};

/// The row of the next width; beyond the last one, lengths grow as the features do: with the width, or its square.
Crossover crossover(int64_t width, bool quadratic_term) {
  for (const Crossover& row : quadratic_term ? kSecondOrder : kFirstOrder) {
    if (width <= row.width) return row;
  }
  const Crossover& last = quadratic_term ? kSecondOrder[3] : kFirstOrder[3];
  const double ratio = static_cast<double>(width) / static_cast<double>(last.width);
  const double growth = quadratic_term ? ratio * ratio : ratio;
  return {width, static_cast<int64_t>(static_cast<double>(last.full) * growth),
          static_cast<int64_t>(static_cast<double>(last.causal) * growth)};
}

/// The GPU's, from counts of operations, which is theory until a GPU has measured it: forward takes 4·N²·D, half of
/// that when causal, or 4·N·M·(D + 1) with M features.
Crossover crossover_in_theory(int64_t width, bool quadratic_term) {
  const int64_t features = quadratic_term ? (width + 1) * (width + 2) / 2 : width + 1;
  const int64_t full = features * (width + 1) / std::max(width, int64_t{1});
  return {width, full, 2 * full};
}

}  // namespace

FastmaxForm fastmax_form(const Tensor& q, const Tensor& k, bool quadratic_term, bool causal) {
  const int64_t queries = q.size(2), keys = k.size(2);
  const Crossover row = q.device() == Device::cuda ? crossover_in_theory(q.size(3), quadratic_term)
                                                   : crossover(q.size(3), quadratic_term);
  // The quadratic form's work is queries · keys, the factorised one's is their sum: with n of each, n² and 2n.
  const int64_t from = causal ? row.causal : row.full;
  return 2 * queries * keys >= from * (queries + keys) ? FastmaxForm::factorised : FastmaxForm::quadratic;
}

}  // namespace linnet
