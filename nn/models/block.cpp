#include <linnet/nn/models/block.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>

namespace linnet {

int64_t detail::hidden_width(const char* label, const nn::BlockConfig& config) {
  if (config.hidden < 0) {
    throw ValueError(fmt::format("{}: hidden is {}; it must be at least 1, or 0 for 4·width", label, config.hidden));
  }
  return config.hidden > 0 ? config.hidden : 4 * config.attention.width;
}

void detail::check_width(const char* model, const nn::BlockConfig& config) {
  if (config.attention.width >= 1) return;
  throw ValueError(
      fmt::format("{}: block.attention.width is {}; it must be at least 1", model, config.attention.width));
}

namespace nn {

Block::Block(Module& parent, std::string name, const BlockConfig& config)
    : Module(parent, std::move(name)),
      pre_norm_(config.pre_norm),
      norm1_(*this, "norm1", config.attention.width, {.bias = config.attention.bias}),
      attention_(make_attention(*this, "attention", config.attention)),
      norm2_(*this, "norm2", config.attention.width, {.bias = config.attention.bias}),
      mlp_(*this, "mlp", config.attention.width, detail::hidden_width(label(), config), config.attention.bias,
           config.gelu, config.activation_dropout),
      dropout_(*this, "dropout", config.dropout) {}

template <class Attend>
Tensor Block::apply(const Tensor& x, const Attend& attend, Where where) const {
  if (pre_norm_) {
    const Tensor h = x + dropout_(attend(norm1_(x, where)), where);
    return h + dropout_(mlp_(norm2_(h, where), where), where);
  }
  const Tensor h = norm1_(x + dropout_(attend(x), where), where);
  return norm2_(h + dropout_(mlp_(h, where), where), where);
}

Tensor Block::operator()(const Tensor& x, const Tensor& padding_mask, Where where) const {
  return apply(x, [&](const Tensor& y) { return (*attention_)(y, padding_mask, where); }, where);
}

Tensor Block::step(AttentionState& state, const Tensor& x, Where where) const {
  return apply(x, [&](const Tensor& y) { return attention_->step(state, y, where); }, where);
}

std::vector<Setting> Block::settings() const { return {{"pre_norm", pre_norm_}}; }

}  // namespace nn

}  // namespace linnet
