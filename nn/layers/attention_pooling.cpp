#include <linnet/nn/layers/attention_pooling.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/layers/activation.h>

namespace linnet::nn {

namespace {

/// x [B, N, …] with one more token, all of whose elements are `value`.
Tensor with_token(const Tensor& x, Scalar value) {
  Shape shape = x.shape();
  shape[1] = 1;
  return concat({x, full(shape, value, x.dtype(), x.device())}, 1);
}

}  // namespace

AttentionPooling::AttentionPooling(Module& parent, std::string name, int64_t width, bool released, int64_t hidden)
    : Module(parent, std::move(name), fmt::format("additive pooling, width {}", width)),
      fc1_(*this, "fc1", width, hidden > 0 ? hidden : width),
      fc2_(*this, "fc2", hidden > 0 ? hidden : width, 1),
      released_(released) {}

Tensor AttentionPooling::operator()(const Tensor& x, const Tensor& padding_mask, Where where) const {
  const Call call(label(), where);
  if (x.rank() != 3)
    throw ShapeError(fmt::format("x should be [batch, tokens, width], not {}", to_string(x.shape())));
  Tensor tokens = x.to(computed_in(x.dtype())), kept = padding_mask;  // [B, N, width]
  Tensor scores = fc2_(tanh(fc1_(tokens)));                           // [B, N, 1]
  if (released_) {
    scores = with_token(scores, std::log(1e-8));
    tokens = with_token(tokens, 0);
    if (kept.defined()) kept = with_token(kept, true);
  }
  const Tensor pooled =
      attention_pool(scores.transpose(1, 2), tokens.unsqueeze(1), {.padding_mask = kept});  // one head
  return pooled.squeeze(2).squeeze(1);
}

std::vector<Setting> AttentionPooling::settings() const { return {{"released", released_}}; }

}  // namespace linnet::nn
