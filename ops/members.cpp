#include <linnet/core/autograd/tape.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/arrange.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/selection.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

/// The members of Tensor that are ops. They are defined here, because core does not know ops.

namespace linnet {

Tensor Tensor::add(const Tensor& other, Where where) const { return linnet::add(*this, other, where); }
Tensor Tensor::add(Scalar other, Where where) const { return linnet::add(*this, other, where); }
Tensor Tensor::sub(const Tensor& other, Where where) const { return linnet::sub(*this, other, where); }
Tensor Tensor::sub(Scalar other, Where where) const { return linnet::sub(*this, other, where); }
Tensor Tensor::mul(const Tensor& other, Where where) const { return linnet::mul(*this, other, where); }
Tensor Tensor::mul(Scalar other, Where where) const { return linnet::mul(*this, other, where); }
Tensor Tensor::div(const Tensor& other, Where where) const { return linnet::div(*this, other, where); }
Tensor Tensor::div(Scalar other, Where where) const { return linnet::div(*this, other, where); }
Tensor Tensor::remainder(const Tensor& other, Where where) const { return linnet::remainder(*this, other, where); }
Tensor Tensor::remainder(Scalar other, Where where) const { return linnet::remainder(*this, other, where); }
Tensor Tensor::pow(const Tensor& other, Where where) const { return linnet::pow(*this, other, where); }
Tensor Tensor::pow(Scalar other, Where where) const { return linnet::pow(*this, other, where); }
Tensor Tensor::atan2(const Tensor& other, Where where) const { return linnet::atan2(*this, other, where); }
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight, Where where) const {
  return linnet::lerp(*this, end, weight, where);
}
Tensor Tensor::lerp(const Tensor& end, Scalar weight, Where where) const {
  return linnet::lerp(*this, end, weight, where);
}
Tensor Tensor::maximum(const Tensor& other, Where where) const { return linnet::maximum(*this, other, where); }
Tensor Tensor::maximum(Scalar other, Where where) const { return linnet::maximum(*this, other, where); }
Tensor Tensor::minimum(const Tensor& other, Where where) const { return linnet::minimum(*this, other, where); }
Tensor Tensor::minimum(Scalar other, Where where) const { return linnet::minimum(*this, other, where); }
Tensor Tensor::eq(const Tensor& other, Where where) const { return linnet::eq(*this, other, where); }
Tensor Tensor::eq(Scalar other, Where where) const { return linnet::eq(*this, other, where); }
Tensor Tensor::ne(const Tensor& other, Where where) const { return linnet::ne(*this, other, where); }
Tensor Tensor::ne(Scalar other, Where where) const { return linnet::ne(*this, other, where); }
Tensor Tensor::lt(const Tensor& other, Where where) const { return linnet::lt(*this, other, where); }
Tensor Tensor::lt(Scalar other, Where where) const { return linnet::lt(*this, other, where); }
Tensor Tensor::le(const Tensor& other, Where where) const { return linnet::le(*this, other, where); }
Tensor Tensor::le(Scalar other, Where where) const { return linnet::le(*this, other, where); }
Tensor Tensor::gt(const Tensor& other, Where where) const { return linnet::gt(*this, other, where); }
Tensor Tensor::gt(Scalar other, Where where) const { return linnet::gt(*this, other, where); }
Tensor Tensor::ge(const Tensor& other, Where where) const { return linnet::ge(*this, other, where); }
Tensor Tensor::ge(Scalar other, Where where) const { return linnet::ge(*this, other, where); }
Tensor Tensor::exp(Where where) const { return linnet::exp(*this, where); }
Tensor Tensor::expm1(Where where) const { return linnet::expm1(*this, where); }
Tensor Tensor::log(Where where) const { return linnet::log(*this, where); }
Tensor Tensor::log1p(Where where) const { return linnet::log1p(*this, where); }
Tensor Tensor::log2(Where where) const { return linnet::log2(*this, where); }
Tensor Tensor::log10(Where where) const { return linnet::log10(*this, where); }
Tensor Tensor::sqrt(Where where) const { return linnet::sqrt(*this, where); }
Tensor Tensor::rsqrt(Where where) const { return linnet::rsqrt(*this, where); }
Tensor Tensor::abs(Where where) const { return linnet::abs(*this, where); }
Tensor Tensor::sign(Where where) const { return linnet::sign(*this, where); }
Tensor Tensor::floor(Where where) const { return linnet::floor(*this, where); }
Tensor Tensor::ceil(Where where) const { return linnet::ceil(*this, where); }
Tensor Tensor::round(Where where) const { return linnet::round(*this, where); }
Tensor Tensor::trunc(Where where) const { return linnet::trunc(*this, where); }
Tensor Tensor::sin(Where where) const { return linnet::sin(*this, where); }
Tensor Tensor::cos(Where where) const { return linnet::cos(*this, where); }
Tensor Tensor::tan(Where where) const { return linnet::tan(*this, where); }
Tensor Tensor::asin(Where where) const { return linnet::asin(*this, where); }
Tensor Tensor::acos(Where where) const { return linnet::acos(*this, where); }
Tensor Tensor::atan(Where where) const { return linnet::atan(*this, where); }
Tensor Tensor::sinh(Where where) const { return linnet::sinh(*this, where); }
Tensor Tensor::cosh(Where where) const { return linnet::cosh(*this, where); }
Tensor Tensor::square(Where where) const { return linnet::square(*this, where); }
Tensor Tensor::reciprocal(Where where) const { return linnet::reciprocal(*this, where); }
Tensor Tensor::erf(Where where) const { return linnet::erf(*this, where); }
Tensor Tensor::tanh(Where where) const { return linnet::tanh(*this, where); }
Tensor Tensor::sigmoid(Where where) const { return linnet::sigmoid(*this, where); }
Tensor Tensor::relu(Where where) const { return linnet::relu(*this, where); }
Tensor Tensor::neg(Where where) const { return linnet::neg(*this, where); }
Tensor Tensor::isnan(Where where) const { return linnet::isnan(*this, where); }
Tensor Tensor::isinf(Where where) const { return linnet::isinf(*this, where); }
Tensor Tensor::isfinite(Where where) const { return linnet::isfinite(*this, where); }
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max, Where where) const {
  return linnet::clamp(*this, min, max, where);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value, Where where) const {
  return linnet::masked_fill(*this, mask, value, where);
}
Tensor Tensor::sum(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::sum(*this, dims, keepdim, where);
}
Tensor Tensor::prod(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::prod(*this, dims, keepdim, where);
}
Tensor Tensor::mean(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::mean(*this, dims, keepdim, where);
}
Tensor Tensor::max(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::max(*this, dims, keepdim, where);
}
Tensor Tensor::min(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::min(*this, dims, keepdim, where);
}
Tensor Tensor::median(Where where) const { return linnet::median(*this, where); }
ValuesAndIndices Tensor::median(int64_t dim, KeepDim keepdim, Where where) const {
  return linnet::median(*this, dim, keepdim, where);
}
Tensor Tensor::logsumexp(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::logsumexp(*this, dims, keepdim, where);
}
Tensor Tensor::any(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::any(*this, dims, keepdim, where);
}
Tensor Tensor::all(const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::all(*this, dims, keepdim, where);
}
Tensor Tensor::var(const Shape& dims, double correction, KeepDim keepdim, Where where) const {
  return linnet::var(*this, dims, correction, keepdim, where);
}
Tensor Tensor::norm(double p, const Shape& dims, KeepDim keepdim, Where where) const {
  return linnet::norm(*this, p, dims, keepdim, where);
}
Tensor Tensor::argmax(int64_t dim, KeepDim keepdim, Where where) const {
  return linnet::argmax(*this, dim, keepdim, where);
}
Tensor Tensor::argmin(int64_t dim, KeepDim keepdim, Where where) const {
  return linnet::argmin(*this, dim, keepdim, where);
}
Tensor Tensor::cumsum(int64_t dim, Where where) const { return linnet::cumsum(*this, dim, where); }
Tensor Tensor::cumprod(int64_t dim, Where where) const { return linnet::cumprod(*this, dim, where); }
Tensor Tensor::diff(int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append, Where where) const {
  return linnet::diff(*this, n, dim, prepend, append, where);
}
Tensor Tensor::softmax(int64_t dim, Where where) const { return linnet::softmax(*this, dim, where); }
Tensor Tensor::log_softmax(int64_t dim, Where where) const { return linnet::log_softmax(*this, dim, where); }
Tensor Tensor::matmul(const Tensor& other, Where where) const { return linnet::matmul(*this, other, where); }
Tensor Tensor::outer(const Tensor& other, Where where) const { return linnet::outer(*this, other, where); }
ValuesAndIndices Tensor::sort(int64_t dim, bool descending, Where where) const {
  return linnet::sort(*this, dim, descending, where);
}
ValuesAndIndices Tensor::topk(int64_t k, int64_t dim, bool largest, Where where) const {
  return linnet::topk(*this, k, dim, largest, where);
}
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan, Where where) const {
  return linnet::isclose(*this, other, rtol, atol, equal_nan, where);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan, Where where) const {
  return linnet::allclose(*this, other, rtol, atol, equal_nan, where);
}
Tensor Tensor::index_select(int64_t dim, const Tensor& index, Where where) const {
  return linnet::index_select(*this, dim, index, where);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index, Where where) const {
  return linnet::gather(*this, dim, index, where);
}
Tensor Tensor::take_along_dim(const Tensor& indices, std::optional<int64_t> dim, Where where) const {
  return linnet::take_along_dim(*this, indices, dim, where);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& src, Where where) const {
  return linnet::scatter(*this, dim, index, src, where);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value, Where where) const {
  return linnet::scatter(*this, dim, index, value, where);
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& src, Where where) const {
  return linnet::scatter_add(*this, dim, index, src, where);
}
Tensor Tensor::index_put(const std::vector<Tensor>& indices, const Tensor& values, bool accumulate,
                         Where where) const {
  return linnet::index_put(*this, indices, values, accumulate, where);
}
Tensor Tensor::masked_select(const Tensor& mask, Where where) const {
  return linnet::masked_select(*this, mask, where);
}
Tensor Tensor::nonzero(Where where) const { return linnet::nonzero(*this, where); }
UniqueElements Tensor::unique(Where where) const { return linnet::unique(*this, where); }
Tensor Tensor::bincount(const Tensor& weights, int64_t minlength, Where where) const {
  return linnet::bincount(*this, weights, minlength, where);
}
Tensor Tensor::flip(const Shape& dims, Where where) const { return linnet::flip(*this, dims, where); }
Tensor Tensor::roll(const Shape& shifts, const Shape& dims, Where where) const {
  return linnet::roll(*this, shifts, dims, where);
}
Tensor Tensor::repeat(const Shape& sizes, Where where) const { return linnet::repeat(*this, sizes, where); }
Tensor Tensor::tile(const Shape& sizes, Where where) const { return linnet::tile(*this, sizes, where); }
Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dim, Where where) const {
  return linnet::repeat_interleave(*this, repeats, dim, where);
}
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim, Where where) const {
  return linnet::repeat_interleave(*this, repeats, dim, where);
}
Tensor Tensor::tril(int64_t diagonal, Where where) const { return linnet::tril(*this, diagonal, where); }
Tensor Tensor::triu(int64_t diagonal, Where where) const { return linnet::triu(*this, diagonal, where); }
Tensor Tensor::diag(int64_t diagonal, Where where) const { return linnet::diag(*this, diagonal, where); }
Tensor Tensor::trace(Where where) const { return linnet::trace(*this, where); }
Tensor Tensor::t(Where where) const {
  const Call call("t", where);
  return linnet::transpose(*this);
}
void Tensor::backward(Where where) const { linnet::backward(*this, {}, where); }

}  // namespace linnet
