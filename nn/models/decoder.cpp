#include <linnet/nn/models/decoder.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/init.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

DecoderConfig completed(DecoderConfig config) {
  if (config.layers < 1) throw ValueError(fmt::format("DecoderLM: {} layers; it takes at least 1", config.layers));
  detail::check_width("DecoderLM", config.block);
  config.block.attention.causal = true;
  config.block.attention.rotary = config.positions == Positions::rotary;
  config.block.attention.max_tokens = config.context;
  return config;
}

}  // namespace

DecoderLM::DecoderLM(Generator& rng, const DecoderConfig& config, DType dtype, Device device)
    : Module(rng, dtype, device, "DecoderLM"),
      config_(completed(config)),
      tok_(*this, "tok", config.vocabulary, config.block.attention.width),
      pos_(*this, "pos", config.positions, config.context, config.block.attention.width),
      dropout_(*this, "dropout", config.block.dropout),
      blocks_(*this, "blocks"),
      norm_(*this, "norm", config.block.attention.width, {.bias = config.block.attention.bias}) {
  for (int64_t i = 0; i < (config.share_layers ? 1 : config.layers); ++i) blocks_.add(config_.block);
  init_weights();
}

void DecoderLM::init_weights() {
  constexpr double kStd = 0.02;
  const double residual = kStd / std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (auto& [name, tensor] : named_parameters()) {
    const bool ends_branch = name.ends_with("attention.out.weight") || name.ends_with("mlp.fc2.weight");
    if (name.ends_with("conv.weight")) continue;  // keeps its larger values: with kStd it has hardly any effect
    if (tensor.rank() >= 2) init::normal_(tensor, generator(), 0, ends_branch ? residual : kStd);
    if (name.ends_with("bias")) init::zeros_(tensor);
  }
  const double query_key_std = mechanism_of(config_.block.attention).query_key_std;
  const int64_t queries_and_keys = 2 * config_.block.attention.width;
  for (auto& [name, tensor] : named_parameters()) {
    if (query_key_std == kStd || !name.ends_with("attention.qkv.weight")) continue;
    Tensor rows = tensor.detach().narrow(0, 0, queries_and_keys);
    init::normal_(rows, generator(), 0, query_key_std);
  }
  for (int64_t i = 0; i < config_.layers; ++i) layer(i).attention().start_as_copies();
}

Tensor DecoderLM::embed(const Tensor& ids, int64_t start, Where where) const {
  const Tensor tokens = pos_(tok_(ids, where), start, where);
  return dropout_(tokens.to(activation_dtype(), where), where);
}

Tensor DecoderLM::head(const Tensor& x, Where where) const {
  return linear(norm_(x, where), tok_.weight(), {}, where).to(dtype(), where);
}

Tensor DecoderLM::operator()(const Tensor& ids, Where where) const {
  if (ids.rank() != 2) {
    const Call call(label(), where);
    throw ShapeError(fmt::format("token ids are [batch, tokens], not {}", to_string(ids.shape())));
  }
  Tensor x = embed(ids, 0, where);
  for (int64_t i = 0; i < config_.layers; ++i) x = layer(i)(x, {}, where);
  return head(x, where);
}

DecoderState DecoderLM::start() const {
  DecoderState state;
  for (int64_t i = 0; i < config_.layers; ++i) state.layers.push_back(layer(i).attention().start());
  return state;
}

Tensor DecoderLM::step(DecoderState& state, const Tensor& ids, Where where) const {
  if (ids.rank() != 1 || static_cast<int64_t>(state.layers.size()) != config_.layers) {
    const Call call(label(), where);
    throw ShapeError(fmt::format("a step takes ids [batch] and a state of start(), not {} and one of {} layers",
                                 to_string(ids.shape()), state.layers.size()));
  }
  Tensor x = embed(ids.unsqueeze(1), state.tokens, where).squeeze(1);
  for (int64_t i = 0; i < config_.layers; ++i) x = layer(i).step(*state.layers[static_cast<size_t>(i)], x, where);
  ++state.tokens;
  return head(x, where);
}

std::vector<Setting> DecoderLM::settings() const {
  return {{"vocabulary", config_.vocabulary},
          {"context", config_.context, /*may_differ=*/config_.positions != Positions::learned},
          {"layers", config_.layers},
          {"share_layers", config_.share_layers}};
}

}  // namespace linnet::nn
