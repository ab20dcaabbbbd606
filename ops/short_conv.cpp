#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/arithmetic.h>
#include <linnet/ops/compare.h>
#include <linnet/ops/fastformer.h>
#include <linnet/ops/join.h>

namespace linnet {
namespace {

void check_short_conv(const Tensor& x, const Tensor& weight, const Tensor& keep) {
  if (x.rank() != 3) {
    throw ShapeError(
        fmt::format("x{} has rank {}; [batch, tokens, width] is needed", to_string(x.shape()), x.rank()));
  }
  if (weight.rank() != 2 || weight.shape()[0] != x.shape()[2] || weight.shape()[1] < 1) {
    throw ShapeError(fmt::format("weight{} does not fit x{}: it must be [{}, taps], with at least one tap",
                                 to_string(weight.shape()), to_string(x.shape()), x.shape()[2]));
  }
  if (!keep.defined()) return;
  if (keep.dtype() != DType::boolean) {
    throw DTypeError(
        fmt::format("keep is {}; it must be bool, false where a token is padding: ne(mask, 0) gives that",
                    name_of(keep.dtype())));
  }
  const Shape wanted{x.shape()[0], x.shape()[1]};
  if (!(keep.shape() == wanted)) {
    throw ShapeError(fmt::format("keep{} does not fit x{}: it must be [batch, tokens], {}", to_string(keep.shape()),
                                 to_string(x.shape()), to_string(wanted)));
  }
}

}  // namespace

Tensor short_conv(const Tensor& x, const Tensor& weight, const ShortConvOptions& options, Where where) {
  Call call("short_conv", where);
  check_short_conv(x, weight, options.keep);
  const int64_t tokens = x.shape()[1], taps = weight.shape()[1];
  const int64_t before = options.causal ? taps - 1 : (taps - 1) / 2;
  const Tensor kept = options.keep.defined() ? masked_fill(x, logical_not(options.keep).unsqueeze(-1), 0) : x;
  const Tensor padded = pad(kept, {0, 0, before, taps - 1 - before});
  Tensor y = x;
  for (int64_t t = 0; t < taps; ++t) y = add(y, mul(padded.narrow(1, t, tokens), weight.select(1, t)));
  return y;
}

}  // namespace linnet
