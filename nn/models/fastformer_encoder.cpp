#include <linnet/nn/models/fastformer_encoder.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>

namespace linnet::nn {

namespace {

AttentionConfig attention_config(const FastformerEncoderConfig& config) {
  return {.mechanism = "fastformer",
          .width = config.width,
          .heads = config.heads,
          .options = FastformerConfig{.full_logits = config.released}};
}

}  // namespace

FastformerLayer::FastformerLayer(Module& parent, std::string name, const FastformerEncoderConfig& config)
    : Module(parent, std::move(name)),
      attention_(*this, "attention", attention_config(config)),
      out_(*this, "out", config.width, config.width),
      norm1_(*this, "norm1", config.width, {.eps = config.eps}),
      mlp_(*this, "mlp", config.width, config.hidden),
      norm2_(*this, "norm2", config.width, {.eps = config.eps}),
      dropout_(*this, "dropout", config.dropout) {}

Tensor FastformerLayer::operator()(const Tensor& x, const Tensor& padding_mask, Where where) const {
  const Tensor h = norm1_(x + dropout_(out_(attention_(x, padding_mask, where), where), where), where);
  return norm2_(h + dropout_(mlp_(h, where), where), where);
}

FastformerEncoder::FastformerEncoder(Generator& rng, const FastformerEncoderConfig& config, DType dtype,
                                     Device device)
    : Module(rng, dtype, device, "FastformerEncoder"), config_(config) {
  add_layers();
}

FastformerEncoder::FastformerEncoder(Module& parent, std::string name, const FastformerEncoderConfig& config)
    : Module(parent, std::move(name), "FastformerEncoder"), config_(config) {
  add_layers();
}

void FastformerEncoder::add_layers() {
  if (config_.layers < 1)
    throw ValueError(fmt::format("{}: {} layers; it takes at least 1", label(), config_.layers));
  for (int64_t i = 0; i < (config_.share_layers ? 1 : config_.layers); ++i) layers_.add(config_);
}

Tensor FastformerEncoder::tokens(const Tensor& x, const Tensor& padding_mask, Where where) const {
  Tensor h = dropout_(norm_(pos_(x, 0, where), where).to(activation_dtype(), where), where);
  for (int64_t i = 0; i < config_.layers; ++i) h = layers_[config_.share_layers ? 0 : i](h, padding_mask, where);
  return h.to(dtype(), where);
}

Tensor FastformerEncoder::operator()(const Tensor& x, const Tensor& padding_mask, Where where) const {
  return pool_(tokens(x, padding_mask, where), padding_mask, where);
}

std::vector<Setting> FastformerEncoder::settings() const {
  return {{"layers", config_.layers}, {"share_layers", config_.share_layers}};
}

}  // namespace linnet::nn
