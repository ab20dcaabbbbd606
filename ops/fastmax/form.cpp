#include <linnet/ops/fastmax/fastmax.h>

#include <algorithm>
#include <cmath>
#include <span>

#include <linnet/core/error.h>
#include <linnet/ops/detail/heads.h>

namespace linnet {
namespace {

/// The number of tokens from which the factorised form is faster, forward and backward, for heads of one width.
struct Crossover {
  double width, full, causal;
};

/// The CPU's crossovers, measured by `bench crossover` with 4 heads in float32 on 2 cores each of an Intel Sapphire
/// Rapids with AVX-512 and an AMD Zen 3 with AVX2. Each is the larger number of the two machines, because the
/// quadratic form is nowhere much slower. In theory they are 18, 34, 66 and 130 for order 1 and 163, 579, 2,179 and
/// 8,451 for order 2, and twice that when causal. The quadratic form comes nearer to the machine's limit, so the
/// measured ones are different.
constexpr Crossover kFirstOrder[] = {{16, 68, 68}, {32, 68, 88}, {64, 100, 170}, {128, 160, 360}};
constexpr Crossover kSecondOrder[] = {{16, 232, 550}, {32, 752, 1856}, {64, 2700, 6150}, {128, 8330, 16900}};

/// The crossover of a width. Between two rows it is interpolated as a power of the width. Beyond the last row it
/// grows with the number of features: with the width, or with its square.
Crossover crossover(double width, bool quadratic_term) {
  const std::span<const Crossover> rows = quadratic_term ? kSecondOrder : kFirstOrder;
  const Crossover& last = rows.back();
  if (width <= rows[0].width) return rows[0];
  if (width >= last.width) {
    const double growth = std::pow(width / last.width, quadratic_term ? 2 : 1);
    return {width, last.full * growth, last.causal * growth};
  }
  const auto above = std::find_if(rows.begin(), rows.end(), [&](const Crossover& row) { return width <= row.width; });
  const auto below = above - 1;
  const double share = std::log(width / below->width) / std::log(above->width / below->width);
  const auto between = [&](double from, double to) { return from * std::pow(to / from, share); };
  return {width, between(below->full, above->full), between(below->causal, above->causal)};
}

/// The GPU's crossover, from counts of operations; it has not been measured on a GPU yet. Forward takes 4·N²·D
/// operations in the quadratic form, half of that when causal, and 4·N·F·(D + 1) in the factorised one with F
/// features.
Crossover crossover_in_theory(double width, bool quadratic_term) {
  const double features = quadratic_term ? (width + 1) * (width + 2) / 2 : width + 1;
  const double full = features * (width + 1) / std::max(width, 1.0);
  return {width, full, 2 * full};
}

}  // namespace

FastmaxForm fastmax_form(const Tensor& q, const Tensor& k, bool quadratic_term, bool causal, Where where) {
  const Call call("fastmax_form", where);
  detail::check_heads(q, "q");
  detail::check_heads(k, "k");
  const double queries = static_cast<double>(q.size(2)), keys = static_cast<double>(k.size(2));
  const double width = static_cast<double>(q.size(3));
  const Crossover row =
      q.device() == Device::cuda ? crossover_in_theory(width, quadratic_term) : crossover(width, quadratic_term);
  // The quadratic form's work is queries · keys, the factorised form's queries + keys: n² and 2n for n of each.
  const double from = causal ? row.causal : row.full;
  return 2 * queries * keys >= from * (queries + keys) ? FastmaxForm::factorised : FastmaxForm::quadratic;
}

}  // namespace linnet
