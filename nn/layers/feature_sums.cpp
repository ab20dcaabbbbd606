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

void FeatureSums::add(const Tensor& key_features, const Tensor& v) {
  const Tensor v_wide = v.to(key_features.dtype());
  const Tensor values = concat({v_wide, ones_like(v_wide.narrow(-1, 0, 1))}, -1);
  recent_ = add_to(recent_, matmul(transpose(key_features), values));  // [FAST eq.34] [FAST eq.35]
  recent_tokens_ += v.size(2);
  if (recent_tokens_ < kRecent) return;
  past_ = add_to(past_, std::exchange(recent_, {}));
  recent_tokens_ = 0;
}

Tensor FeatureSums::read(const Tensor& query_features) const {
  // [F, g] = Sᵀ φ(q)                                                            [FAST eq.32] [FAST eq.33]
  Tensor result;
  for (const Tensor& sums : {past_, recent_}) {
    if (sums.defined()) result = add_to(result, matmul(query_features, sums));
  }
  const int64_t width = result.size(-1) - 1;
  return result.narrow(-1, 0, width) / result.narrow(-1, width, 1);  // [FAST eq.19]
}

void FeatureSums::rescale(const Tensor& factor) {
  for (Tensor* sums : {&past_, &recent_}) {
    if (sums->defined()) *sums = *sums * factor;
  }
}

}  // namespace linnet::nn
