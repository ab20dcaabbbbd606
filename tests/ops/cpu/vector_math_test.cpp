#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/attention/linear_attention.h>
#include <linnet/ops/layers/activation.h>

using namespace linnet;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// |y − exact| in units of the last place of float32 at `exact`.
double error_in_ulp(float y, double exact) {
  const float rounded = static_cast<float>(exact);
  if (y == rounded || (std::isnan(y) && std::isnan(exact))) return 0;
  if (!std::isfinite(y) || !std::isfinite(rounded)) return kInfinity;
  int exponent;
  std::frexp(std::max(std::abs(rounded), std::numeric_limits<float>::min()), &exponent);
  return std::abs(static_cast<double>(y) - exact) / std::ldexp(1.0, exponent - 24);
}

/// The largest error of `op` over every 4099th float from `low` to `high`.
template <class Op, class Exact>
double worst_error(Op op, Exact exact, float low = -kInfinity, float high = kInfinity) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (value >= low && value <= high) x.push_back(value);
  }
  const std::vector<float> y = op(tensor(x)).template to_vector<float>();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, error_in_ulp(y[i], exact(double{x[i]})));
  return worst;
}

/// Values of `op` at the given points, next to each other so that they share vectors.
template <class Op>
std::vector<float> at(Op op, const std::vector<float>& points) {
  return op(tensor(points)).template to_vector<float>();
}

}  // namespace

TEST_CASE("vector math: float32 functions are right to a few units in the last place") {
  CHECK(worst_error([](auto x) { return exp(x); }, [](double x) { return std::exp(x); }) < 1.5);
  CHECK(worst_error([](auto x) { return expm1(x); }, [](double x) { return std::expm1(x); }) < 2.5);
  CHECK(worst_error([](auto x) { return log(x); }, [](double x) { return std::log(x); }) < 1.5);
  CHECK(worst_error([](auto x) { return tanh(x); }, [](double x) { return std::tanh(x); }) < 1.5);
  CHECK(worst_error([](auto x) { return erf(x); }, [](double x) { return std::erf(x); }) < 1.5);
  CHECK(worst_error([](auto x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }) <= 0.5);
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  CHECK(worst_error([](auto x) { return sigmoid(x); }, logistic, -85) < 3);
  const auto softened = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  CHECK(worst_error([](auto x) { return softplus(x); }, softened, -85) < 3);
  const auto elu_plus_one = [](double x) { return x > 0 ? x + 1 : std::max(std::exp(x), 1e-30); };
  CHECK(worst_error([](auto x) { return linear_attention_features(x); }, elu_plus_one) < 1.5);
  CHECK(std::isnan(at([](auto x) { return linear_attention_features(x); }, {kNan})[0]));
}

TEST_CASE("vector math: gelu and its derivative, in the tail too") {
  const auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const auto exact = [&](double x) { return x * cdf(x); };
  CHECK(worst_error([](auto x) { return gelu(x); }, exact, -1) < 5);
  // Relative errors grow with the exponent of e^{−x²/2}; 0.5·(1 + erf) would have no correct digit below −5.5.
  CHECK(worst_error([](auto x) { return gelu(x); }, exact, -13, -1) < 200);
  const auto derivative = [](const Tensor& x) {
    const Tensor at = x.detach().set_requires_grad();
    return grad({sum(gelu(at))}, {at})[0];
  };
  const auto exact_derivative = [&](double x) { return cdf(x) + x * std::exp(-x * x / 2) * 0.3989422804014327; };
  CHECK(worst_error(derivative, exact_derivative, 0) < 5);
  CHECK(worst_error(derivative, exact_derivative, -13, -1.5) < 200);
}

TEST_CASE("vector math: sin and cos hold for large arguments") {
  CHECK(worst_error([](auto x) { return sin(x); }, [](double x) { return std::sin(x); }, -1e30f, 1e30f) < 1);
  CHECK(worst_error([](auto x) { return cos(x); }, [](double x) { return std::cos(x); }, -1e30f, 1e30f) < 1);
}

TEST_CASE("vector math: infinities, zeros, denormals") {
  const std::vector<float> points = {-kInfinity, -1e30f, -0.0f, 0.0f, 1e-40f, 1e30f, kInfinity};
  CHECK(at([](auto x) { return exp(x); }, points) == std::vector<float>{0, 0, 1, 1, 1, kInfinity, kInfinity});
  CHECK(at([](auto x) { return expm1(x); }, points) ==
        std::vector<float>{-1, -1, 0, 0, 1e-40f, kInfinity, kInfinity});
  CHECK(at([](auto x) { return elu(x); }, points) == std::vector<float>{-1, -1, 0, 0, 1e-40f, 1e30f, kInfinity});
  CHECK(at([](auto x) { return tanh(x); }, points) == std::vector<float>{-1, -1, 0, 0, 1e-40f, 1, 1});
  CHECK(at([](auto x) { return sigmoid(x); }, points) == std::vector<float>{0, 0, 0.5f, 0.5f, 0.5f, 1, 1});
  const std::vector<float> gelus = at([](auto x) { return gelu(x); }, points);
  CHECK(gelus[1] == 0);
  CHECK(gelus[4] == 0.5f * 1e-40f);
  CHECK(gelus[5] == 1e30f);
  CHECK(gelus[6] == kInfinity);
  const std::vector<float> erfs = at([](auto x) { return erf(x); }, points);
  CHECK(erfs[0] == -1);
  CHECK(erfs[6] == 1);
  const std::vector<float> logs = at([](auto x) { return log(x); }, points);
  CHECK(std::isnan(logs[0]));
  CHECK(std::isnan(logs[1]));
  CHECK(logs[2] == -kInfinity);
  CHECK(logs[3] == -kInfinity);
  CHECK(logs[6] == kInfinity);
  const std::vector<float> softened = at([](auto x) { return softplus(x); }, points);
  CHECK(softened[0] == 0);
  CHECK(softened[5] == 1e30f);
  CHECK(softened[6] == kInfinity);
  CHECK(std::signbit(at([](auto x) { return tanh(x); }, points)[2]));
  CHECK(std::signbit(at([](auto x) { return expm1(x); }, points)[2]));
}

TEST_CASE("vector math: NaN stays NaN, whatever its other bits are") {
  std::vector<float> points(40, kNan);
  for (size_t i = 0; i < points.size(); i += 2) {
    points[i] =
        std::bit_cast<float>((i % 4 == 0 ? 0x7fc00000u : 0xffc00000u) | (1u << i % 22) | static_cast<uint32_t>(i));
  }
  for (const Tensor& y :
       {exp(tensor(points)), log(tensor(points)), tanh(tensor(points)), erf(tensor(points)), sigmoid(tensor(points)),
        softplus(tensor(points)), gelu(tensor(points)), gelu(tensor(points), Gelu::tanh), silu(tensor(points)),
        relu(tensor(points)), expm1(tensor(points)), elu(tensor(points)), sin(tensor(points)), sqrt(tensor(points)),
        abs(tensor(points)), sign(tensor(points))}) {
    for (const float value : y.to_vector<float>()) REQUIRE(std::isnan(value));
  }
  for (const float point : points) {
    const Tensor q = ones({1, 1, 1, 1}), k = tensor({1, 1, 1}, {1, 1, 3, 1});
    k.narrow(2, 0, 1).fill_(point);
    const Tensor o = softmax_attention(q, k, ones({1, 1, 3, 1}));
    CHECK_MESSAGE(std::isnan(o.item<float>()), "a NaN of bits ", std::bit_cast<uint32_t>(point));
  }
}
