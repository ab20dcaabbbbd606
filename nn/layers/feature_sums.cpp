#include <linnet/nn/layers/feature_sums.h>

#include <utility>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

Tensor add_to(const Tensor& sum, const Tensor& x) { return sum.defined() ? sum + x : x; }

}  // namespace

Tensor FeatureSums::attend(const Tensor& query_features, const Tensor& key_features, const Tensor& v) {
  const Tensor v_wide = v.to(key_features.dtype());
  const Tensor values = concat({v_wide, ones_like(v_wide.narrow(-1, 0, 1))}, -1);
  recent_ = add_to(recent_, matmul(transpose(key_features), values));  // [FAST eq.34] [FAST eq.35]
  // [F, g] = Sᵀ φ(q)                                                            [FAST eq.32] [FAST eq.33]
  const Tensor recent = matmul(query_features, recent_);
  const Tensor result = past_.defined() ? matmul(query_features, past_) + recent : recent;
  if (++tokens_ % kRecent == 0) past_ = add_to(past_, std::exchange(recent_, {}));
  const int64_t width = v.size(-1);
  return result.narrow(-1, 0, width) / result.narrow(-1, width, 1);  // [FAST eq.19]
}

void FeatureSums::rescale(const Tensor& factor) {
  for (Tensor* sums : {&past_, &recent_}) {
    if (sums->defined()) *sums = *sums * factor;
  }
}

}  // namespace linnet::nn
