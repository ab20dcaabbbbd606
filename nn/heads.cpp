#include <linnet/nn/heads.h>

namespace linnet::nn {

Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor merge_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Qkv split_qkv(const Tensor& projected, int64_t heads) {
  const int64_t width = projected.size(2) / 3;
  const auto part = [&](int64_t i) { return split_heads(projected.narrow(2, i * width, width), heads); };
  return {part(0), part(1), part(2)};
}

}  // namespace linnet::nn
