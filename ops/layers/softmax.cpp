#include <linnet/ops/layers/softmax.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

namespace linnet {
namespace {

Tensor softmax_rows(const Tensor& x) {
  Op op("softmax", {}, {x});
  Tensor y = Tensor::empty(x.shape(), op.floating_dtype(), x.device());
  backend(y).softmax(detail::view(y), detail::view(x), false);
  // dy_i/dx_j = y_i (δ_ij − y_j)
  return op.record(y, [y = op.save_output(y)](const Tensor& g) {
    const Tensor p = y();
    return Grads{mul(p, sub(g, sum(mul(g, p), {-1}, true)))};
  });
}

Tensor log_softmax_rows(const Tensor& x) {
  Op op("log_softmax", {}, {x});
  Tensor y = Tensor::empty(x.shape(), op.floating_dtype(), x.device());
  backend(y).softmax(detail::view(y), detail::view(x), true);
  // dy_i/dx_j = δ_ij − exp(y_j)
  return op.record(
      y, [y = op.save_output(y)](const Tensor& g) { return Grads{sub(g, mul(exp(y()), sum(g, {-1}, true)))}; });
}

/// Applies a function of rows along the last dim to the lines along `dim`.
template <class F>
Tensor along(int64_t dim, const Tensor& x, F rows) {
  if (x.rank() == 0) return along(dim, x.reshape({1}), rows).reshape({});
  const int axis = normalise_dim(dim, x.rank());
  if (axis == x.rank() - 1) return rows(x);
  return rows(x.transpose(axis, -1)).transpose(axis, -1);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim, Where where) {
  Call call("softmax", where);
  return along(dim, x, softmax_rows);
}

Tensor log_softmax(const Tensor& x, int64_t dim, Where where) {
  Call call("log_softmax", where);
  return along(dim, x, log_softmax_rows);
}

}  // namespace linnet
