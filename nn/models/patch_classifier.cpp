#include <linnet/nn/models/patch_classifier.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::nn {

namespace {

int64_t tokens_of(const PatchClassifierConfig& config) {
  const int64_t per_side = config.side / config.patch;
  return per_side * per_side;
}

PatchClassifierConfig completed(PatchClassifierConfig config) {
  if (config.patch < 1 || config.side < 1 || config.side % config.patch != 0) {
    throw ValueError(
        fmt::format("PatchClassifier: patches of side {} do not tile an image of side {}; choose a divisor",
                    config.patch, config.side));
  }
  if (config.layers < 1) {
    throw ValueError(fmt::format("PatchClassifier: {} layers; it takes at least 1", config.layers));
  }
  detail::check_width("PatchClassifier", config.block);
  AttentionConfig& attention = config.block.attention;
  attention.causal = false;
  attention.rotary = config.positions == Positions::rotary;
  attention.max_tokens = tokens_of(config);
  return config;
}

}  // namespace

PatchClassifier::PatchClassifier(Generator& rng, const PatchClassifierConfig& config, DType dtype, Device device)
    : Module(rng, dtype, device, "PatchClassifier"),
      config_(completed(config)),
      patch_(*this, "patch", config.patch * config.patch, config.block.attention.width),
      pos_(*this, "pos", config.positions, tokens_of(config_), config.block.attention.width,
           mechanism_of(config.block.attention).position_std),
      dropout_(*this, "dropout", config.block.dropout),
      blocks_(*this, "blocks"),
      norm_(*this, "norm", config.block.attention.width, {.bias = config.block.attention.bias}),
      head_(*this, "head", config.block.attention.width, config.classes) {
  BlockConfig block = config_.block;
  if (const Tensor shared = make_shared_parameter(*this, block.attention); shared.defined()) {
    block.attention.shared = parameter("shared_attention", shared);
  }
  for (int64_t i = 0; i < (config.share_layers ? 1 : config.layers); ++i) blocks_.add(block);
}

/// [B, side·side] → [B, tokens, patch·patch]. Tokens are ordered row by row, and so are the pixels of a token.
Tensor PatchClassifier::patches(const Tensor& images, Where where) const {
  const Call call(label(), where);
  const int64_t side = config_.side, patch = config_.patch, per_side = side / patch;
  if (images.rank() != 2 || images.size(1) != side * side) {
    throw ShapeError(fmt::format("images are [batch, {}], {} pixels a side, not {}", side * side, side,
                                 to_string(images.shape())));
  }
  const int64_t batch = images.size(0);
  return images.reshape({batch, per_side, patch, per_side, patch})
      .transpose(2, 3)
      .reshape({batch, per_side * per_side, patch * patch});
}

Tensor PatchClassifier::operator()(const Tensor& images, Where where) const {
  const Tensor tokens = pos_(patch_(patches(images, where), where), 0, where);
  Tensor x = dropout_(tokens.to(activation_dtype(), where), where);
  for (int64_t i = 0; i < config_.layers; ++i) x = layer(i)(x, {}, where);
  return head_(mean(norm_(x, where).to(dtype(), where), {1}, false, where), where);
}

std::vector<Setting> PatchClassifier::settings() const {
  return {{"side", config_.side},
          {"patch", config_.patch},
          {"classes", config_.classes},
          {"layers", config_.layers},
          {"share_layers", config_.share_layers}};
}

}  // namespace linnet::nn
