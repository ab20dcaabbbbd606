#include <linnet/nn/layers/heads.h>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::nn {
namespace {

/// Throws ShapeError unless `x` is [B, N, projections·H·D].
void check_width(const Tensor& x, int64_t heads, int64_t projections) {
  if (x.rank() == 3 && heads > 0 && x.size(2) % (projections * heads) == 0) return;
  throw ShapeError(
      fmt::format("{} cannot be split: it must be [batch, tokens, width], the width a multiple of {}{} heads",
                  to_string(x.shape()), projections == 1 ? "" : "3 · ", heads));
}

}  // namespace

Tensor split_heads(const Tensor& x, int64_t heads, Where where) {
  const Call call("split_heads", where);
  check_width(x, heads, 1);
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor merge_heads(const Tensor& x, Where where) {
  const Call call("merge_heads", where);
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Qkv split_qkv(const Tensor& projected, int64_t heads, Where where) {
  const Call call("split_qkv", where);
  check_width(projected, heads, 3);
  const int64_t width = projected.size(2) / 3;
  const auto projection = [&](int64_t i) { return split_heads(projected.narrow(2, i * width, width), heads); };
  return {projection(0), projection(1), projection(2)};
}

}  // namespace linnet::nn
