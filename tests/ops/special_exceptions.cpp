#include "tests/ops/special_exceptions.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>
#include <sstream>

#include <fmt/format.h>

namespace linnet::test {
namespace {

using At = const Place&;

struct Exception {
  const char* ops;     ///< their names, separated by spaces
  const char* result;  ///< the beginning of its name
  bool (*holds)(At at);
  const char* why;
  bool needed = false;  ///< true from the start if another machine's rounding may not need it
};

double a(At at) { return at.inputs[0][0]; }
double b(At at) { return at.inputs[1][0]; }
const Doubles& row(At at) { return at.inputs[0]; }

/// A number, rounded to the dtype of the case.
double rounded(At at, double x) { return at.is_float32 ? static_cast<double>(static_cast<float>(x)) : x; }
double least_normal(At at) { return at.is_float32 ? 0x1p-126 : 0x1p-1022; }
double largest(At at) {
  return at.is_float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

/// Whether linnet's result is `exact` except for rounding.
bool ours_is(At at, double exact) {
  exact = rounded(at, exact);
  const double allowed = (at.is_float32 ? 1e-5 : 1e-12) * std::abs(exact) + least_normal(at) * 1e-6;
  return same(at.ours, exact) || std::abs(at.ours - exact) <= allowed;
}

template <class F>
bool any_of(const Doubles& x, F f) {
  return std::ranges::any_of(x, f);
}
double sum(const Doubles& x) { return std::accumulate(x.begin(), x.end(), 0.0); }
bool all_minus_infinity(const Doubles& x) {
  return !any_of(x, [](double v) { return v != -kInfinity; });
}
/// Whether squares of the row overflow, or are denormal.
bool squares_leave_range(At at, const Doubles& x) {
  return any_of(
      x, [&](double v) { return std::isinf(rounded(at, v * v)) || (v != 0 && std::abs(v * v) < least_normal(at)); });
}

double weight(size_t column) { return 1 + 0.5 * static_cast<double>(column % 3); }

/// h_{k−1}·(w_k + x_{k+1}·(w_{k+1} + x_{k+2}·…)), where h are the running products
double cumprod_gradient(At at) {
  const Doubles& x = row(at);
  double before = 1, after = 0;
  for (size_t i = 0; i < at.column; ++i) before = rounded(at, before * x[i]);
  for (size_t i = x.size(); i-- > at.column;) {
    after = rounded(at, weight(i) + (i + 1 < x.size() ? rounded(at, x[i + 1] * after) : 0));
  }
  return before * after;
}

double product(const Doubles& x, size_t but) {
  double all = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i != but) all *= x[i];
  }
  return all;
}

/// The p-norm. The norm of a case has p = 2 or 3; an exception does not know which.
double norm(const Doubles& x, int p) {
  double largest = 0, sum = 0;
  for (const double v : x) largest = std::max(largest, std::abs(v));
  if (largest == 0 || std::isinf(largest)) return largest;
  for (const double v : x) sum += std::pow(std::abs(v) / largest, p);
  return largest * std::pow(sum, 1.0 / p);
}

/// ±(the other one)/(a² + b²), and 0 at the origin
double atan2_gradient(At at) {
  const double distance = std::max(std::abs(a(at)), std::abs(b(at))), p = a(at) / distance, q = b(at) / distance;
  if (distance == 0) return 0;
  return (at.result == "grad0" ? q : -p) / (p * p + q * q) / distance;
}

double cosine(At at) {
  double dot = 0, lengths = 1;
  for (const Doubles& x : at.inputs) lengths *= std::max(norm(x, 2), 1e-8);
  for (size_t i = 0; i < row(at).size(); ++i) dot += row(at)[i] * at.inputs[1][i];
  return dot / lengths;
}

/// Whether the gradient is b/(|a|·|b|) − cos(a, b)·a/|a|², whose second term is left out where 1e-8 replaces |a|, or
/// that of the loss by it; but for the rounding of both terms.
bool ours_is_cosine_gradient(At at) {
  const size_t of = at.result == "grad0" ? 0 : 1;
  const Doubles &x = at.inputs[of], &other = at.inputs[1 - of];
  const double length = std::max(norm(x, 2), 1e-8),
               across = other[at.column] / std::max(norm(other, 2), 1e-8) / length;
  const double along = norm(x, 2) > 1e-8 ? cosine(at) * (x[at.column] / length) / length : 0;
  double factor = 1;
  if (at.op == "cosine_embedding_loss") factor = at.inputs[2][0] == 1 ? -1 : cosine(at) > 0 ? 1 : 0;
  const double exact = rounded(at, factor * (across - along));
  const double allowed = 1e-5 * (std::abs(across) + std::abs(along)) + least_normal(at) * 1e-6;
  return same(at.ours, exact) || (std::isfinite(exact) && std::abs(at.ours - exact) <= allowed);
}

/// (x − mean)/√(var + 1e-5)
double standardised(At at) {
  const double count = static_cast<double>(row(at).size()), mean = sum(row(at)) / count;
  double squares = 0;
  for (const double x : row(at)) squares += (x - mean) * (x - mean) / count;
  return (row(at)[at.column] - mean) / std::sqrt(squares + 1e-5);
}

double norm_gradient(At at, int p) {
  const double x = row(at)[at.column], share = std::abs(x) / norm(row(at), p);
  return std::copysign(p == 2 ? share : share * share, x);
}

Exception exceptions[] = {
    // ---- What linnet does otherwise, as its documentation says ----
    {"abs norm l1_loss smooth_l1_loss", "grad", [](At at) { return std::isnan(at.ours) && at.theirs == 0; },
     "the gradient of |x| is NaN at NaN"},
    {"sign", "output", [](At at) { return std::isnan(at.ours) && std::isnan(a(at)); }, "the sign of NaN is NaN"},
    {"max min", "grad",
     [](At at) {
       const auto count = std::ranges::count_if(row(at), [](double v) { return std::isnan(v); });
       return count > 0 && ours_is(at, std::isnan(row(at)[at.column]) ? 1.0 / static_cast<double>(count) : 0.0);
     },
     "NaN share the gradient as equal elements do"},
    {"softmax logsumexp log_softmax", "", [](At at) { return all_minus_infinity(row(at)) && std::isnan(at.theirs); },
     "where all is masked the softmax is 0"},
    {"var", "grad", [](At at) { return std::isnan(at.ours) && std::isinf(rounded(at, std::abs(sum(row(at))))); },
     "the mean, and so every deviation, is infinite or NaN"},
    {"kl_div", "grad1", [](At at) { return b(at) == 0 && std::isnan(at.theirs); },
     "0·log 0 is constant in the gradient by a target of 0"},
    {"hinge_embedding_loss", "grad", [](At at) { return std::isnan(a(at)); }, "a NaN counts as below the margin"},
    {"topk", "", [](At at) { return at.result != "output0" && row(at)[5] == row(at)[33]; },
     "the index may be that of any of equal elements"},

    // ---- Where PyTorch's way of computing overflows, vanishes or rounds, and linnet's does not ----
    {"expm1", "grad", [](At at) { return ours_is(at, std::exp(a(at))); }, "PyTorch takes eˣ from the rounded eˣ − 1"},
    {"sinh", "output", [](At at) { return ours_is(at, std::sinh(a(at))); }, "PyTorch halves an eˣ that overflows"},
    {"cosh", "output", [](At at) { return ours_is(at, std::cosh(a(at))); }, "PyTorch halves an eˣ that overflows"},
    {"sinh", "grad", [](At at) { return ours_is(at, std::cosh(a(at))); }, "the same"},
    {"cosh", "grad", [](At at) { return ours_is(at, std::sinh(a(at))); }, "the same"},
    {"gelu", "output", [](At at) { return ours_is(at, a(at) * 0.5 * std::erfc(-a(at) * std::numbers::sqrt2 / 2)); },
     "PyTorch multiplies x by 1 + erf first, which overflows, or is 0"},
    {"gelu", "grad",
     [](At at) {
       const double x = a(at), cdf = 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
       return ours_is(at, cdf + x * std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2);
     },
     "PyTorch's 1 + erf is rounded"},
    {"remainder", "output", [](At at) { return std::isnan(at.theirs) && std::isinf(rounded(at, a(at) / b(at))); },
     "PyTorch takes a − ⌊a/b⌋·b, where a/b overflows"},
    {"atan2", "grad", [](At at) { return ours_is(at, atan2_gradient(at)); },
     "PyTorch divides by a² + b², which overflows or vanishes"},
    {"softplus", "output", [](At at) { return std::isinf(at.theirs) && at.ours == a(at); },
     "PyTorch's β·x overflows"},
    {"lerp", "output",
     [](At at) { return std::abs(b(at)) == largest(at) && std::isinf(at.ours) && std::isfinite(at.theirs); },
     "PyTorch rounds the product and the sum once, so that the product does not overflow"},
    {"gaussian_nll_loss", "grad",
     [](At at) { return ours_is(at, (at.result == "grad0" ? 1 : -1) * (a(at) - b(at)) / at.inputs[2][0]); },
     "PyTorch divides by the squared variance, or multiplies by the square"},
    {"logsumexp", "grad", [](At at) { return ours_is(at, 0.5) && at.theirs == 1; },
     "PyTorch takes exp(x − y) from a rounded y"},
    {"prod", "output", [](At at) { return at.is_float32 && ours_is(at, product(row(at), row(at).size())); },
     "float32 is multiplied in float64"},
    {"prod", "grad", [](At at) { return ours_is(at, product(row(at), at.column)); },
     "PyTorch divides the product by x"},
    {"cumprod", "grad", [](At at) { return ours_is(at, cumprod_gradient(at)); }, "PyTorch divides by x"},
    {"norm", "output",
     [](At at) { return (at.is_float32 && ours_is(at, norm(row(at), 2))) || ours_is(at, norm(row(at), 3)); },
     "squares of float32 are float64, and other powers are of elements divided by the largest"},
    {"norm", "grad",
     [](At at) { return (at.is_float32 && ours_is(at, norm_gradient(at, 2))) || ours_is(at, norm_gradient(at, 3)); },
     "the same"},
    {"norm", "grad", [](At at) { return squares_leave_range(at, row(at)) && at.ours == 0 && std::isnan(at.theirs); },
     "an infinite norm of finite elements: PyTorch has ∞/∞"},
    {"cosine_similarity", "output", [](At at) { return at.is_float32 && ours_is(at, cosine(at)); },
     "norms of float32 are float64"},
    {"cosine_embedding_loss", "output",
     [](At at) {
       return at.is_float32 && ours_is(at, at.inputs[2][0] == 1 ? 1 - cosine(at) : std::max(cosine(at), 0.0));
     },
     "the same"},
    {"cosine_similarity cosine_embedding_loss", "grad",
     [](At at) { return at.is_float32 && ours_is_cosine_gradient(at); }, "the same"},
    {"cosine_similarity cosine_embedding_loss", "grad",
     [](At at) { return std::abs(at.ours - at.theirs) * norm(at.inputs[at.result == "grad0" ? 0 : 1], 2) <= 1e-15; },
     "the rounding of a difference that is 0", true},
    {"var", "output",
     [](At at) { return std::isinf(at.ours) && std::isnan(at.theirs) && std::isfinite(sum(row(at))); },
     "PyTorch updates the sum of squares, and has ∞ − ∞ once it overflows"},
    {"kl_div", "",
     [](At at) { return (b(at) == 0 || b(at) < -80) && at.ours == 0 && std::isnan(at.theirs); },  // b may be log 0
     "a target of 0 adds 0, beside an infinite input or as a logarithm"},
    {"kl_div", "output", [](At at) { return std::isinf(at.ours) && std::isnan(at.theirs); },
     "PyTorch subtracts products that are both infinite"},
    {"layer_norm group_norm", "",
     [](At at) { return std::isnan(at.ours) && at.theirs == 0 && squares_leave_range(at, row(at)); },
     "where the variance overflows PyTorch has NaN or 0, as the place in the row has it"},
    {"rms_norm", "grad", [](At at) { return at.ours == 0 && squares_leave_range(at, row(at)); },
     "the mean square overflows, and x/∞ is 0 in PyTorch too, but not its gradient"},
    {"group_norm", "output", [](At at) { return at.is_float32 && ours_is(at, standardised(at)); },
     "the variance of float32 is float64"},
    {"group_norm", "grad", [](At at) { return at.is_float32 && std::isfinite(at.ours) && std::isnan(at.theirs); },
     "the same"},

    // ---- Where PyTorch keeps a digit that linnet does not ----
    {"logsigmoid", "grad", [](At at) { return at.ours == 0 && std::abs(at.theirs) < least_normal(at); },
     "sigmoid(−x) is 0 where eˣ overflows"},
    {"binary_cross_entropy_with_logits", "grad0",
     [](At at) { return std::abs(at.ours - at.theirs) <= (at.is_float32 ? 0x1p-23 : 0x1p-52); },
     "the gradient is (1 − t) − σ(−x), whose terms are near 1"},
    {"binary_cross_entropy", "grad0",
     [](At at) { return !at.is_float32 && std::abs(at.ours - at.theirs) <= 1e-7 * std::abs(at.theirs); },
     "PyTorch's 1e-12 is a float32"},
    {"lerp logsigmoid huber_loss smooth_l1_loss kl_div hinge_embedding_loss cross_entropy nll_loss group_norm",
     "output", [](At at) { return at.ours == 0 && at.theirs == 0; }, "the sign of a difference that is 0"},
};

}  // namespace

bool is_explained(const Place& at) {
  for (Exception& each : exceptions) {
    std::istringstream ops(each.ops);
    std::string op;
    while (ops >> op && op != at.op) {
    }
    if (op != at.op || !at.result.starts_with(each.result) || !each.holds(at)) continue;
    each.needed = true;
    return true;
  }
  return false;
}

std::vector<std::string> unused_exceptions() {
  std::vector<std::string> unused;
  for (const Exception& each : exceptions) {
    if (!each.needed) unused.push_back(fmt::format("{} {}: {}", each.ops, each.result, each.why));
  }
  return unused;
}

}  // namespace linnet::test
