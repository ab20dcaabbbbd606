#include <linnet/ops/layers/normalisation.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/arguments.h>

namespace linnet {
namespace {

using detail::dense;
using detail::dense_rows;
using detail::OptionalView;

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  if (x.rank() == 0) throw ShapeError("takes rows [..., C], but x has rank 0");
  const auto check = [&](const char* name, const Tensor& row) {
    if (!row.defined() || row.shape() == Shape{x.size(-1)}) return;
    throw ShapeError(fmt::format("{}{} does not fit x{}: it must be [{}], the last dim of x", name,
                                 to_string(row.shape()), to_string(x.shape()), x.size(-1)));
  };
  check("weight", weight);
  check("bias", bias);
  if (!(eps >= 0)) throw ValueError(fmt::format("eps must be at least 0, not {}", eps));
}

Tensor empty_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

constexpr const char* kParts = "mean, rsqrt and mul";

Grads layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                          const Tensor& rstd, bool needs_weight, bool needs_bias) {
  Op op("layer_norm_backward", Where{}, {g, x, weight});
  op.first_derivative_only(kParts);
  const Tensor dx = empty_like(x);
  const Shape width{x.size(-1)};
  const Tensor dweight = needs_weight ? Tensor::empty(width, computed_in(x.dtype()), x.device()) : Tensor();
  const Tensor dbias = needs_bias ? Tensor::empty(width, computed_in(x.dtype()), x.device()) : Tensor();
  const Tensor dx_rows = dense_rows(dx), g_rows = dense_rows(g), x_rows = dense_rows(x);
  const OptionalView factors(dense(weight)), dfactors(dweight), doffsets(dbias);
  backend(x).layer_norm_backward(detail::view(dx_rows), dfactors.get(), doffsets.get(), detail::view(g_rows),
                                 detail::view(x_rows), detail::view(mean), detail::view(rstd), factors.get());
  return {dx, dweight, dbias};
}

Grads rms_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                        bool needs_weight) {
  Op op("rms_norm_backward", Where{}, {g, x, weight});
  op.first_derivative_only(kParts);
  const Tensor dx = empty_like(x);
  const Tensor dweight = needs_weight ? Tensor::empty({x.size(-1)}, computed_in(x.dtype()), x.device()) : Tensor();
  const Tensor dx_rows = dense_rows(dx), g_rows = dense_rows(g), x_rows = dense_rows(x);
  const OptionalView factors(dense(weight)), dfactors(dweight);
  backend(x).rms_norm_backward(detail::view(dx_rows), dfactors.get(), detail::view(g_rows), detail::view(x_rows),
                               detail::view(rstd), factors.get());
  return {dx, dweight};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Where where) {
  Op op("layer_norm", where, {x, weight, bias});
  const DType statistics = computed_in(op.activation_dtype());
  check_arguments(x, weight, bias, eps);
  const Tensor y = empty_like(x);
  const Tensor x_rows = dense_rows(x), y_rows = dense_rows(y);
  const Tensor mean = Tensor::empty({x_rows.size(0)}, statistics, x.device());
  const Tensor rstd = Tensor::empty({x_rows.size(0)}, statistics, x.device());
  const OptionalView factors(dense(weight)), offsets(dense(bias));
  backend(y).layer_norm(detail::view(y_rows), detail::view(mean), detail::view(rstd), detail::view(x_rows),
                        factors.get(), offsets.get(), eps);
  return op.record(y, [x = op.save(x), weight = op.save(weight), mean = op.save(mean), rstd = op.save(rstd),
                       needs_weight = op.needs_grad(1), needs_bias = op.needs_grad(2)](const Tensor& g) {
    return layer_norm_backward(g, x(), weight(), mean(), rstd(), needs_weight, needs_bias);
  });
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  Op op("rms_norm", where, {x, weight});
  const DType statistics = computed_in(op.activation_dtype());
  check_arguments(x, weight, {}, eps);
  const Tensor y = empty_like(x);
  const Tensor x_rows = dense_rows(x), y_rows = dense_rows(y);
  const Tensor rstd = Tensor::empty({x_rows.size(0)}, statistics, x.device());
  const OptionalView factors(dense(weight));
  backend(y).rms_norm(detail::view(y_rows), detail::view(rstd), detail::view(x_rows), factors.get(), eps);
  return op.record(y,
                   [x = op.save(x), weight = op.save(weight), rstd = op.save(rstd), needs_weight = op.needs_grad(1)](
                       const Tensor& g) { return rms_norm_backward(g, x(), weight(), rstd(), needs_weight); });
}

}  // namespace linnet
