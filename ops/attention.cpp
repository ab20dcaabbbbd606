#include <linnet/ops/attention.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/quadratic_attention.h>

namespace linnet {

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxAttentionOptions& options,
                         Where where) {
  Call call("softmax_attention", where);
  detail::check_heads(q, "q");
  const auto width = static_cast<double>(q.shape()[3]);
  const double scale = options.scale.value_or(width > 0 ? 1 / std::sqrt(width) : 1);
  if (!std::isfinite(scale)) throw ValueError(fmt::format("scale is {}; it must be finite", scale));
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(fmt::format("dropout is {}; it must be in [0, 1]", options.dropout));
  }
  if (options.dropout > 0 && options.generator == nullptr) {
    throw ValueError(fmt::format("dropout {} needs a generator; set options.generator", options.dropout));
  }
  AttentionOptions kernel{};
  kernel.kind.softmax = true;
  kernel.scale = scale;
  kernel.causal = options.causal;
  kernel.dropout = options.dropout;
  if (options.dropout > 0) kernel.key = options.generator->next();
  return detail::quadratic_attention(q, k, v, options.keep, kernel);
}

}  // namespace linnet
