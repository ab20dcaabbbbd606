#include <linnet/nn/models/decoder_block.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/array/arithmetic.h>

namespace linnet::nn {

namespace {

DecoderBlockConfig checked_decoder(const char* label, const DecoderBlockConfig& config) {
  const AttentionConfig &attention = config.block.attention, &cross = config.cross;
  if (cross.width != attention.width) {
    throw ValueError(fmt::format("{}: cross-attention of width {}, but the layer has width {}", label, cross.width,
                                 attention.width));
  }
  if (!cross.make && !find_mechanism(cross.mechanism).cross) {
    throw ValueError(fmt::format("{}: {} has no cross-attention; use one of {}", label, cross.mechanism,
                                 fmt::join(cross_mechanisms(), ", ")));
  }
  return config;
}

LayerNormConfig norm_config(const DecoderBlockConfig& config) { return {.bias = config.block.attention.bias}; }

}  // namespace

DecoderBlock::DecoderBlock(Module& parent, std::string name, const DecoderBlockConfig& config)
    : Module(parent, std::move(name)),
      pre_norm_(checked_decoder(label(), config).block.pre_norm),
      norm1_(*this, "norm1", config.cross.width, norm_config(config)),
      attention_(make_attention(*this, "attention", config.block.attention)),
      norm2_(*this, "norm2", config.cross.width, norm_config(config)),
      cross_(make_attention(*this, "cross", config.cross)),
      norm3_(*this, "norm3", config.cross.width, norm_config(config)),
      mlp_(*this, "mlp", config.cross.width, detail::hidden_width(label(), config.block), config.block.attention.bias,
           config.block.gelu, config.block.activation_dropout),
      dropout_(*this, "dropout", config.block.dropout) {}

/// Adds a branch to x: a residual connection with its norm and dropout.
template <class Branch>
Tensor DecoderBlock::add(const Tensor& x, const LayerNorm& norm, const Branch& branch, Where where) const {
  if (pre_norm_) return x + dropout_(branch(norm(x, where)), where);
  return norm(x + dropout_(branch(x), where), where);
}

Tensor DecoderBlock::operator()(const Tensor& x, const Tensor& memory, const Tensor& memory_mask, Where where) const {
  Tensor h = add(x, norm1_, [&](const Tensor& y) { return (*attention_)(y, {}, where); }, where);
  h = add(h, norm2_, [&](const Tensor& y) { return cross_->cross(y, memory, {}, memory_mask, where); }, where);
  return add(h, norm3_, [&](const Tensor& y) { return mlp_(y, where); }, where);
}

DecoderBlockState DecoderBlock::start(const Tensor& memory, const Tensor& memory_mask, Where where) const {
  return {attention_->start(), cross_->start(memory, memory_mask, where)};
}

Tensor DecoderBlock::step(DecoderBlockState& state, const Tensor& x, Where where) const {
  Tensor h = add(x, norm1_, [&](const Tensor& y) { return attention_->step(*state.attention, y, where); }, where);
  h = add(h, norm2_, [&](const Tensor& y) { return cross_->step(*state.cross, y, where); }, where);
  return add(h, norm3_, [&](const Tensor& y) { return mlp_(y, where); }, where);
}

std::vector<Setting> DecoderBlock::settings() const { return {{"pre_norm", pre_norm_}}; }

}  // namespace linnet::nn
