#include <linnet/ops/detail/key_ranges.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>

namespace linnet::detail {

Tensor key_ranges(const Tensor& begin, const Tensor& end) { return stack({begin, maximum(begin, end)}, -1); }

Tensor window_ranges(int64_t tokens, int64_t before, int64_t after, int64_t first, Device device) {
  const Tensor i = arange(tokens).reshape({1, 1, tokens});
  const Tensor begin = minimum(maximum(i - before, first), tokens), end = minimum(i + (after + 1), tokens);
  return Recording::constant(key_ranges(begin, end), device);
}

}  // namespace linnet::detail
