#include <linnet/nn/init.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn::init {

namespace {

struct Fans {
  double in, out;
};

Fans fans_of(const Tensor& tensor) {
  if (tensor.rank() < 2) {
    throw ShapeError(fmt::format("a tensor of shape {} has no fan in and fan out; use uniform_ or normal_",
                                 to_string(tensor.shape())));
  }
  int64_t receptive_field = 1;  // the size of a convolution's window
  for (int dim = 2; dim < tensor.rank(); ++dim) receptive_field *= tensor.size(dim);
  return {static_cast<double>(tensor.size(1) * receptive_field),
          static_cast<double>(tensor.size(0) * receptive_field)};
}

double fan_of(const Tensor& tensor, FanMode mode) {
  const Fans fans = fans_of(tensor);
  return mode == FanMode::fan_in ? fans.in : fans.out;
}

/// Φ(x), the share of the standard normal distribution below x.
double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

/// The number y with erf(y) = x, for x in (−1, 1): an approximation (Winitzki 2008), which three steps of Halley's
/// method make exact but for rounding. ±∞ for ±1.
double inverse_erf(double x) {
  if (std::abs(x) >= 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  constexpr double kA = 0.147;
  const double logarithm = std::log1p(-x * x), b = 2 / (std::numbers::pi * kA) + logarithm / 2;
  double y = std::copysign(std::sqrt(std::sqrt(b * b - logarithm / kA) - b), x);
  for (int step = 0; step < 3; ++step) {
    const double error = std::erf(y) - x, slope = 2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    y -= error / (slope + y * error);
  }
  return y;
}

/// A matrix of float64 with orthonormal rows, rows ≤ columns: random rows, orthogonalised by Gram and Schmidt's
/// method. It subtracts the parts along earlier rows twice, because rounding leaves some after the first time.
Tensor orthonormal_rows(int64_t rows, int64_t columns, Generator& rng) {
  const Tensor q = randn({rows, columns}, rng, DType::float64);
  for (int64_t i = 0; i < rows; ++i) {
    Tensor row = q.select(0, i);
    const Tensor earlier = q.narrow(0, 0, i);
    for (int time = 0; time < 2; ++time) row -= matmul(matmul(earlier, row), earlier);
    row /= norm(row);
  }
  return q;
}

}  // namespace

void zeros_(Tensor tensor, Where where) {
  const Call call("zeros_", where);
  constant_(std::move(tensor), 0);
}

void ones_(Tensor tensor, Where where) {
  const Call call("ones_", where);
  constant_(std::move(tensor), 1);
}

void constant_(Tensor tensor, Scalar value, Where where) {
  const Call call("constant_", where);
  const NoGrad guard;
  tensor.fill_(value);
}

void uniform_(Tensor tensor, Generator& rng, double low, double high, Where where) {
  const Call call("uniform_", where);
  const NoGrad guard;
  tensor.copy_(rand(tensor.shape(), rng, tensor.dtype(), tensor.device()) * (high - low) + low);
}

void normal_(Tensor tensor, Generator& rng, double mean, double deviation, Where where) {
  const Call call("normal_", where);
  const NoGrad guard;
  tensor.copy_(randn(tensor.shape(), rng, tensor.dtype(), tensor.device()) * deviation + mean);
}

void trunc_normal_(Tensor tensor, Generator& rng, double mean, double deviation, double a, double b, Where where) {
  const Call call("trunc_normal_", where);
  if (!(a < b) || !(deviation > 0)) {
    throw ValueError(
        fmt::format("the range [{}, {}] must not be empty, and the deviation, {}, must be above 0", a, b, deviation));
  }
  const NoGrad guard;
  const double low = normal_cdf((a - mean) / deviation), high = normal_cdf((b - mean) / deviation);
  std::vector<double> numbers = (rand(tensor.shape(), rng, DType::float64) * (high - low) + low).to_vector<double>();
  for (double& number : numbers) {  // Φ⁻¹ of a uniform number has the normal distribution
    number = std::clamp(mean + deviation * std::numbers::sqrt2 * inverse_erf(2 * number - 1), a, b);
  }
  tensor.copy_(linnet::tensor(numbers).reshape(tensor.shape()));
}

void orthogonal_(Tensor tensor, Generator& rng, double gain, Where where) {
  const Call call("orthogonal_", where);
  fans_of(tensor);  // refuses vectors
  if (tensor.numel() == 0) return;
  const NoGrad guard;
  const int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  const Tensor q =
      rows <= columns ? orthonormal_rows(rows, columns, rng) : transpose(orthonormal_rows(columns, rows, rng));
  tensor.copy_((q * gain).reshape(tensor.shape()));
}

void xavier_uniform_(Tensor tensor, Generator& rng, double gain, Where where) {
  const Call call("xavier_uniform_", where);
  const Fans fans = fans_of(tensor);
  const double bound = gain * std::sqrt(6 / (fans.in + fans.out));
  uniform_(std::move(tensor), rng, -bound, bound);
}

void xavier_normal_(Tensor tensor, Generator& rng, double gain, Where where) {
  const Call call("xavier_normal_", where);
  const Fans fans = fans_of(tensor);
  normal_(std::move(tensor), rng, 0, gain * std::sqrt(2 / (fans.in + fans.out)));
}

void kaiming_uniform_(Tensor tensor, Generator& rng, double a, FanMode mode, Where where) {
  const Call call("kaiming_uniform_", where);
  const double bound = std::sqrt(6 / ((1 + a * a) * fan_of(tensor, mode)));
  uniform_(std::move(tensor), rng, -bound, bound);
}

void kaiming_normal_(Tensor tensor, Generator& rng, double a, FanMode mode, Where where) {
  const Call call("kaiming_normal_", where);
  const double deviation = std::sqrt(2 / ((1 + a * a) * fan_of(tensor, mode)));
  normal_(std::move(tensor), rng, 0, deviation);
}

void fan_in_uniform_(Tensor weight, Tensor bias, Generator& rng, Where where) {
  const Call call("fan_in_uniform_", where);
  const double bound = 1 / std::sqrt(fans_of(weight).in);
  kaiming_uniform_(std::move(weight), rng, std::sqrt(5.0));  // = U(−bound, bound)
  if (bias.defined()) uniform_(std::move(bias), rng, -bound, bound);
}

}  // namespace linnet::nn::init
