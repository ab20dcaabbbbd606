#include <linnet/nn/init.h>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/random.h>

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

void kaiming_uniform_(Tensor tensor, Generator& rng, double a, Where where) {
  const Call call("kaiming_uniform_", where);
  const double bound = std::sqrt(6 / ((1 + a * a) * fans_of(tensor).in));
  uniform_(std::move(tensor), rng, -bound, bound);
}

void kaiming_normal_(Tensor tensor, Generator& rng, double a, Where where) {
  const Call call("kaiming_normal_", where);
  const double deviation = std::sqrt(2 / ((1 + a * a) * fans_of(tensor).in));
  normal_(std::move(tensor), rng, 0, deviation);
}

void fan_in_uniform_(Tensor weight, Tensor bias, Generator& rng, Where where) {
  const Call call("fan_in_uniform_", where);
  const double bound = 1 / std::sqrt(fans_of(weight).in);
  kaiming_uniform_(std::move(weight), rng, std::sqrt(5.0));  // = U(−bound, bound)
  if (bias.defined()) uniform_(std::move(bias), rng, -bound, bound);
}

}  // namespace linnet::nn::init
