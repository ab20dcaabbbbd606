#include <linnet/ops/matmul/matmul.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/sum.h>

namespace linnet {
namespace {

using detail::rows_of;

/// [..., C] as [rows, C]
Tensor as_rows(const Tensor& x) { return x.reshape({rows_of(x), x.size(-1)}); }

/// x [..., M, N] as [batch, M, N] for the kernel, without history, with its leading dims broadcast to `leading`.
Tensor as_batch(const Tensor& x, const Shape& leading) {
  const int64_t m = x.size(-2), n = x.size(-1);
  if (x.rank() == 2) return detail::as_strided(x, {leading.numel(), m, n}, {0, x.strides()[0], x.strides()[1]}, 0);
  Shape expanded = leading;
  expanded.push_back(m);
  expanded.push_back(n);
  return x.detach().expand(expanded).reshape({leading.numel(), m, n});
}

/// x [..., R, N] as [R, batch · N].
Tensor side_by_side(const Tensor& x) {
  const int64_t rows = x.size(-2), columns = x.size(-1),
                batch = Shape(x.shape().begin(), x.shape().end() - 2).numel();
  return x.reshape({batch, rows, columns}).transpose(0, 1).reshape({rows, batch * columns});
}

/// The sum of g·bᵀ over the batch, the gradient of a matrix a in a·b. It is one product over (batch, n), except where
/// the copies of g and b for that would take more memory than the products of the batch.
Tensor gradient_of_one(const Tensor& g, const Tensor& b) {
  const int64_t m = g.size(-2), k = b.size(-2), n = b.size(-1);
  if ((m + k) * n > m * k) return matmul(g, transpose(b));  // the tape sums it
  return matmul(side_by_side(g), transpose(side_by_side(b)));
}

void check_shapes(const Tensor& a, const Tensor& b) {
  const auto product = [&] { return fmt::format("a{} · b{}", to_string(a.shape()), to_string(b.shape())); };
  if (a.rank() == 0 || b.rank() == 0) {
    throw ShapeError(fmt::format("{}: rank 0 has no inner dimension; use a * b", product()));
  }
  const int64_t in_a = a.size(-1), in_b = b.size(b.rank() == 1 ? -1 : -2);
  if (in_a != in_b) {
    const char* hint = b.rank() > 1 && b.size(-1) == in_a   ? "; did you mean transpose(b)?"
                       : a.rank() > 1 && a.size(-2) == in_b ? "; did you mean transpose(a)?"
                                                            : "";
    throw ShapeError(fmt::format("inner dimensions differ: {} ({} ≠ {}){}", product(), in_a, in_b, hint));
  }
  for (int d = 3; d <= std::min(a.rank(), b.rank()); ++d) {
    if (a.size(-d) == b.size(-d) || a.size(-d) == 1 || b.size(-d) == 1) continue;
    throw ShapeError(fmt::format("leading dimensions do not broadcast: {} ({} ≠ {}); they must be equal or 1",
                                 product(), a.size(-d), b.size(-d)));
  }
}

/// matmul of operands with at least two dims. The result has `dtype`: that of the operands, or float32 for bfloat16.
Tensor matrix_product(DType dtype, const Tensor& a, const Tensor& b, Where where = {}) {
  Op op("matmul", where, {a, b});
  const DType factors = op.floating_dtype();
  const int64_t n = b.size(-1);

  Tensor out, a_batch, b_batch, out_batch;
  if (b.rank() == 2 && a.is_contiguous()) {
    // [..., M, K] · [K, N] is one product of all rows.
    Shape shape = a.shape();
    shape[shape.rank() - 1] = n;
    out = Tensor::empty(shape, dtype, a.device());
    a_batch = detail::as_strided(a, {1, rows_of(a), a.size(-1)}, {0, a.size(-1), 1}, 0);
    b_batch = as_batch(b, {});
    out_batch = detail::as_strided(out, {1, rows_of(out), n}, {0, n, 1}, 0);
  } else {
    const Shape leading = broadcast_shapes(Shape(a.shape().begin(), a.shape().end() - 2),
                                           Shape(b.shape().begin(), b.shape().end() - 2));
    Shape shape = leading;
    shape.push_back(a.size(-2));
    shape.push_back(n);
    out = Tensor::empty(shape, dtype, a.device());
    a_batch = as_batch(a, leading);
    b_batch = as_batch(b, leading);
    out_batch = detail::as_strided(out, {leading.numel(), a.size(-2), n}, {a.size(-2) * n, n, 1}, 0);
  }
  backend(out).gemm(detail::view(out_batch), detail::view(a_batch), detail::view(b_batch), nullptr);

  const bool needs_a = op.needs_grad(0), needs_b = op.needs_grad(1);
  return op.record(out,
                   [a = needs_b ? op.save(a) : Saved(), b = needs_a ? op.save(b) : Saved(), needs_a, needs_b,
                    fold = b.rank() == 2, one_a = a.rank() == 2 && b.rank() > 2, factors](const Tensor& cotangent) {
                     // da = g·bᵀ and db = aᵀ·g. For one b with many a, the product also sums over the a; for one a
                     // with many b, over the b.
                     const Tensor g = cotangent.to(factors);
                     Tensor da, db;
                     if (needs_a) da = one_a ? gradient_of_one(g, b()) : matmul(g, transpose(b()));
                     if (needs_b) db = fold ? matmul(transpose(as_rows(a())), as_rows(g)) : matmul(transpose(a()), g);
                     return Grads{da, db};
                   });
}

/// A suggestion for an x of the wrong shape.
std::string linear_remedy(const Tensor& x, const Tensor& weight) {
  if (x.rank() > 0 && x.size(-1) == weight.size(0)) return "; did you mean transpose(weight)?";
  if (x.rank() > 2 && x.numel() > 0 && x.numel() == x.size(0) * weight.size(1)) {
    return fmt::format("; did you mean x.reshape({{{}, -1}})?", x.size(0));
  }
  return "";
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Where where) {
  const Call call("matmul", where);
  check_shapes(a, b);
  if (a.rank() == 1) return matmul(a.unsqueeze(0), b).squeeze(b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  return matrix_product(a.dtype(), a, b, where);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where) {
  Op op("linear", where, {x, weight, bias});
  const DType dtype = op.activation_dtype();
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("weight must be [out, in], not {}", to_string(weight.shape())));
  }
  const int64_t out_features = weight.size(0), in_features = weight.size(1);
  if (x.rank() == 0 || x.size(-1) != in_features) {
    throw ShapeError(fmt::format("x{} does not fit weight{}: the last dim of x must be {}{}", to_string(x.shape()),
                                 to_string(weight.shape()), in_features, linear_remedy(x, weight)));
  }
  if (bias.defined() && bias.shape() != Shape{out_features}) {
    throw ShapeError(fmt::format("bias{} does not fit weight{}: it must be [{}]", to_string(bias.shape()),
                                 to_string(weight.shape()), out_features));
  }

  Shape shape = x.shape();
  shape[shape.rank() - 1] = out_features;
  const Tensor y = Tensor::empty(shape, dtype, x.device());
  const int64_t rows = rows_of(x);
  const Tensor x_batch = detail::as_strided(detail::dense(x), {1, rows, in_features}, {0, in_features, 1}, 0);
  const Tensor y_batch = detail::as_strided(y, {1, rows, out_features}, {0, out_features, 1}, 0);
  const Tensor factors = weight.detach().to(dtype);
  const Tensor transposed =
      detail::as_strided(factors, {1, in_features, out_features}, {0, factors.strides()[1], factors.strides()[0]}, 0);
  backend(y).gemm(detail::view(y_batch), detail::view(x_batch), detail::view(transposed),
                  detail::OptionalView(bias).get());

  const bool needs_x = op.needs_grad(0), needs_weight = op.needs_grad(1), needs_bias = op.needs_grad(2);
  return op.record(y, [x = needs_weight ? op.save(x) : Saved(), weight = needs_x ? op.save(weight) : Saved(), needs_x,
                       needs_weight, needs_bias](const Tensor& g) {
    const DType parameters = computed_in(g.dtype());
    Tensor dx, dweight, dbias;
    if (needs_x) dx = matmul(g, weight().to(g.dtype()));
    if (needs_weight) dweight = matrix_product(parameters, transpose(as_rows(g)), as_rows(x()));
    if (needs_bias) dbias = detail::sum_in(parameters, as_rows(g), {0});
    return Grads{dx, dweight, dbias};
  });
}

Tensor outer(const Tensor& a, const Tensor& b, Where where) {
  const Call call("outer", where);
  if (a.rank() != 1 || b.rank() != 1) {
    throw ShapeError(fmt::format("takes two vectors, but a has shape {} and b {}; flatten() them",
                                 to_string(a.shape()), to_string(b.shape())));
  }
  return mul(a.unsqueeze(1), b);
}

Tensor transpose(const Tensor& x, Where where) {
  const Call call("transpose", where);
  if (x.rank() < 2) {
    throw ShapeError(
        fmt::format("takes at least two dims, but x has shape {}; unsqueeze(1) makes a column of a vector",
                    to_string(x.shape())));
  }
  return x.transpose(-2, -1);
}

}  // namespace linnet
