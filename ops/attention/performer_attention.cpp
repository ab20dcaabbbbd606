#include <linnet/ops/attention/performer_attention.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/performer.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

/// Makes rows orthonormal, at most `width` of them. Subtracting the earlier rows a second time removes what rounding
/// left of them.
void orthonormalise(double* rows, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i) {
    double* const row = rows + i * width;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double* const earlier = rows + j * width;
        const double along = dot(row, earlier, width);
        for (int64_t d = 0; d < width; ++d) row[d] -= along * earlier[d];
      }
    }
    const double inverse = 1 / std::sqrt(dot(row, row, width));
    for (int64_t d = 0; d < width; ++d) row[d] *= inverse;
  }
}

/// x/D^¼
Tensor scaled(const Tensor& x) {
  const int64_t width = x.size(-1);
  return width > 0 ? x * std::pow(static_cast<double>(width), -0.25) : x;
}

void check_omega(const Tensor& omega, const Tensor& q) {
  if (!is_floating(q.dtype())) throw DTypeError(fmt::format("q is {}; it must be floating", name_of(q.dtype())));
  if (omega.rank() != 2 || omega.size(0) < 1 || omega.size(1) != q.size(3)) {
    throw ShapeError(fmt::format("omega{} does not fit q{}: it must be [features, {}] with a feature or more",
                                 to_string(omega.shape()), to_string(q.shape()), q.size(3)));
  }
  const DType dtype = computed_in(q.dtype());
  if (omega.dtype() != dtype) {
    throw DTypeError(fmt::format("omega is {}; beside q of {} it must be {}", name_of(omega.dtype()),
                                 name_of(q.dtype()), name_of(dtype)));
  }
  if (omega.device() != q.device()) {
    throw DeviceError(fmt::format("omega is on {}, q on {}; move one with to(Device)", name_of(omega.device()),
                                  name_of(q.device())));
  }
}

/// x [B, H, N, D] with each token times a factor, 0 or the inverse of the keep rate. Backward draws the factors
/// again.
Tensor drop_tokens(const Tensor& x, double rate, RandomKey key) {
  Op op("performer_token_dropout", Where{}, {x});
  const Tensor one = ones({x.size(0), x.size(1), x.size(2), 1}, x.dtype(), x.device());
  const Tensor factors = Tensor::empty(one.shape(), x.dtype(), x.device());
  backend(x).dropout(detail::view(factors), detail::view(one), rate, key);
  return op.record(x.detach() * factors, [rate, key](const Tensor& g) { return Grads{drop_tokens(g, rate, key)}; });
}

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
              const PerformerAttentionOptions& options) {
  const bool empty = q.numel() == 0 || k.numel() == 0;
  if (options.form == PerformerForm::reference || empty) {
    const Tensor weights = detail::reference_performer_weights(q, k, omega, options.padding_mask, options.causal);
    return matmul(weights, detail::without_padding(v, options.padding_mask));
  }
  const bool fused = options.form == PerformerForm::automatic && q.device() == Device::cpu;
  return (fused ? detail::fused_performer : detail::composed_performer)(q, k, v, omega, options.padding_mask,
                                                                        options.causal);
}

}  // namespace

Tensor detail::performer_query_exponents(const Tensor& q, const Tensor& omega) {
  return matmul(scaled(q), transpose(omega));
}

Tensor performer_log_features(const Tensor& x, const Tensor& omega, Where where) {
  const Call call("performer_log_features", where);
  const Tensor scaled_x = scaled(x);
  return matmul(scaled_x, transpose(omega)) - sum(square(scaled_x), {-1}, true) * 0.5;
}

int64_t performer_features(int64_t width) {
  const auto d = static_cast<double>(width);
  return width > 1 ? std::max(int64_t{1}, static_cast<int64_t>(d * std::log(d))) : 1;
}

Tensor performer_projection(int64_t features, int64_t width, Generator& generator, DType dtype, Device device,
                            Where where) {
  const Call call("performer_projection", where);
  if (features < 1 || width < 1) {
    throw ValueError(fmt::format("{} features of width {}; both must be at least 1", features, width));
  }
  if (!is_floating(dtype)) throw DTypeError(fmt::format("dtype must be a floating one, not {}", name_of(dtype)));
  Tensor drawn = randn({2, features, width}, generator, DType::float64);
  double* const rows = drawn.mutable_data<double>().data();
  const double* const others = rows + features * width;
  for (int64_t block = 0; block < features; block += width) {
    orthonormalise(rows + block * width, std::min(width, features - block), width);
  }
  for (int64_t r = 0; r < features; ++r) {
    const double length = std::sqrt(dot(others + r * width, others + r * width, width));
    for (int64_t d = 0; d < width; ++d) rows[r * width + d] *= length;
  }
  return drawn.select(0, 0).to(dtype).to(device);
}

Tensor performer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                           const PerformerAttentionOptions& options, Where where) {
  const Call call("performer_attention", where);
  detail::check_qkv(q, k, v, options.padding_mask);
  check_omega(omega, q);
  detail::check_dropout(options.dropout, options.generator);
  if (options.dropout == 1) throw ValueError("dropout is 1; it must be below 1");
  if (detail::are_bfloat16({q, k, v})) {
    return detail::attend_in_float32(
        {q, k, v}, [&](const auto& x) { return performer_attention(x[0], x[1], x[2], omega, options); });
  }
  const Tensor constant = omega.detach();
  if (options.dropout == 0) return attend(q, k, v, constant, options);
  const Tensor values = drop_tokens(v, options.dropout, options.generator->next());
  return drop_tokens(attend(q, k, values, constant, options), options.dropout, options.generator->next());
}

Tensor performer_attention_weights(const Tensor& q, const Tensor& k, const Tensor& omega,
                                   const PerformerAttentionOptions& options, Where where) {
  const Call call("performer_attention_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  check_omega(omega, q);
  return detail::reference_performer_weights(detail::in_computed(q), detail::in_computed(k), omega.detach(),
                                             options.padding_mask, options.causal);
}

}  // namespace linnet
