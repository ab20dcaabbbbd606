#include "support/tasks/pooled_encoder.h"

#include <utility>

namespace linnet::examples {
namespace {

constexpr double kPositionStd = 0.02;
constexpr int64_t kNrmsHidden = 200;  // of the pooling's scores (Wu et al. 2019, section 3.1)

}  // namespace

PooledEncoder::PooledEncoder(nn::Module& parent, std::string name, const Settings& s, int64_t max_tokens)
    : Module(parent, std::move(name)),
      layers_(s.layers),
      dropout_(*this, "dropout", s.dropout),
      blocks_(*this, "blocks") {
  const UserEncoder encoder = user_encoder_of(s);
  nn::BlockConfig block = block_config(s);
  block.pre_norm = false;
  block.attention.max_tokens = max_tokens;
  block.attention.rotary = positions_of(s) == nn::Positions::rotary;
  if (encoder == UserEncoder::mean) return;
  if (encoder == UserEncoder::nrms) {
    block.attention.rotary = false;
    attention_ = nn::make_attention(*this, "attention", block.attention);
  } else {
    pos_.emplace(*this, "pos", positions_of(s), max_tokens, s.width, kPositionStd);
    norm_.emplace(*this, "norm", s.width, nn::LayerNormConfig{.bias = s.bias});
    if (const Tensor shared = nn::make_shared_parameter(*this, block.attention); shared.defined()) {
      block.attention.shared = parameter("shared_attention", shared);
    }
    for (int64_t i = 0; i < (shares(s, "layers") ? 1 : layers_); ++i) blocks_.add(block);
  }
  pool_.emplace(*this, "pool", s.width, false, encoder == UserEncoder::nrms ? kNrmsHidden : 0);
}

Tensor PooledEncoder::operator()(const Tensor& x, const Tensor& mask) const {
  if (!pool_) {
    const Tensor weights = mask.to(x.dtype()).unsqueeze(-1);
    return sum(x * weights, {1}) / maximum(sum(weights, {1}), 1);
  }
  if (attention_) return (*pool_)(dropout_((*attention_)(dropout_(x.to(activation_dtype())), mask)), mask);
  Tensor h = dropout_((*norm_)((*pos_)(x)).to(activation_dtype()));
  for (int64_t i = 0; i < layers_; ++i) h = blocks_[blocks_.size() == 1 ? 0 : i](h, mask);
  return (*pool_)(h.to(dtype()), mask);
}

}  // namespace linnet::examples
