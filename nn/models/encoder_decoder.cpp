#include <linnet/nn/models/encoder_decoder.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

constexpr double kEmbeddingSpread = 0.02;

/// The mechanism of `chosen` with the sizes of `block`.
AttentionConfig with_mechanism_of(const AttentionConfig& chosen, AttentionConfig block) {
  block.mechanism = chosen.mechanism;
  block.options = chosen.options;
  block.make = chosen.make;
  return block;
}

EncoderDecoderConfig completed_config(EncoderDecoderConfig config) {
  const auto check_size = [](const char* name, int64_t size) {
    if (size < 1) throw ValueError(fmt::format("EncoderDecoder: {} is {}; it must be at least 1", name, size));
  };
  check_size("vocabulary", config.vocabulary);
  check_size("source_tokens", config.source_tokens);
  check_size("target_tokens", config.target_tokens);
  check_size("encoder_layers", config.encoder_layers);
  check_size("decoder_layers", config.decoder_layers);
  detail::check_width("EncoderDecoder", config.block);
  AttentionConfig& encoder = config.block.attention;
  encoder.causal = false;
  encoder.rotary = config.positions == Positions::rotary;
  encoder.max_tokens = config.source_tokens;
  config.decoder = with_mechanism_of(config.decoder, encoder);
  config.decoder.causal = true;
  config.decoder.max_tokens = config.target_tokens;
  config.cross = with_mechanism_of(config.cross, encoder);
  config.cross.rotary = false;  // there is no distance between positions of two sequences
  config.cross.short_conv = 0;
  return config;
}

/// The index of the source of each target in a state.
Tensor source_of_each(int64_t targets, int64_t sources, Device device) {
  std::vector<int64_t> ids(static_cast<size_t>(targets));
  for (int64_t i = 0; i < targets; ++i) ids[static_cast<size_t>(i)] = i * sources / targets;
  return tensor(ids).to(device);
}

/// Whether each of `sources` can have the same number of targets.
bool divides(int64_t sources, int64_t targets) { return sources == 0 ? targets == 0 : targets % sources == 0; }

}  // namespace

void EncoderDecoderState::select(const Tensor& rows, const Tensor& sources, Where where) {
  const Call call("EncoderDecoderState::select", where);
  // What can fail comes first, because an error must change nothing. The first layer's cross-attention checks for
  // all.
  const auto selected = [](const Tensor& x, const Tensor& which) {
    return x.defined() && which.defined() ? index_select(x, 0, which) : x;
  };
  const Tensor new_targets = selected(targets, rows);
  const Tensor new_memory = selected(memory, sources), new_mask = selected(source_mask, sources);
  if (layers.empty() && !divides(new_memory.size(0), rows.numel())) {
    throw ShapeError(fmt::format("{} targets cannot be divided among {} sources; select the same number for each",
                                 rows.numel(), new_memory.size(0)));
  }
  for (DecoderBlockState& layer : layers) {
    layer.cross->select(rows, sources);
    layer.attention->select(rows);
  }
  targets = new_targets;
  memory = new_memory;
  source_mask = new_mask;
}

EncoderDecoder::EncoderDecoder(Generator& rng, const EncoderDecoderConfig& config, DType dtype, Device device)
    : Module(rng, dtype, device, "EncoderDecoder"),
      config_(completed_config(config)),
      tok_(*this, "tok", config_.vocabulary, config_.block.attention.width),
      source_pos_(*this, "source_pos", config_.positions, config_.source_tokens, config_.block.attention.width,
                  kEmbeddingSpread),
      target_pos_(*this, "target_pos", config_.positions, config_.target_tokens, config_.block.attention.width,
                  kEmbeddingSpread),
      dropout_(*this, "dropout", config_.block.dropout),
      encoder_(*this, "encoder"),
      encoder_norm_(*this, "encoder_norm", config_.block.attention.width, {.bias = config_.block.attention.bias}),
      decoder_(*this, "decoder"),
      decoder_norm_(*this, "decoder_norm", config_.block.attention.width, {.bias = config_.block.attention.bias}) {
  BlockConfig encoder = config_.block;
  DecoderBlockConfig decoder{.block = config_.block, .cross = config_.cross};
  decoder.block.attention = config_.decoder;
  if (const Tensor shared = make_shared_parameter(*this, encoder.attention); shared.defined()) {
    encoder.attention.shared = parameter("shared_attention", shared);
  }
  if (const Tensor shared = make_shared_parameter(*this, decoder.cross); shared.defined()) {
    decoder.cross.shared = parameter("shared_cross", shared);
  }
  for (int64_t i = 0; i < (config_.share_layers ? 1 : config_.encoder_layers); ++i) encoder_.add(encoder);
  for (int64_t i = 0; i < (config_.share_layers ? 1 : config_.decoder_layers); ++i) decoder_.add(decoder);
  Tensor embeddings = tok_.weight();
  init::normal_(embeddings, generator(), 0, kEmbeddingSpread);
}

void EncoderDecoder::check(const char* what, const Tensor& ids, int64_t most, Where where) const {
  const Call call(label(), where);
  if (ids.rank() != 2 || ids.size(1) == 0) {
    throw ShapeError(
        fmt::format("{} ids are [batch, tokens] with 1 token or more, not {}", what, to_string(ids.shape())));
  }
  if (ids.size(1) > most) {
    throw ValueError(fmt::format("{} of {} tokens, but {}_tokens is {}; cut it, or build the model for longer ones",
                                 what, ids.size(1), what, most));
  }
}

Tensor EncoderDecoder::embed(const Tensor& ids, const PositionEmbedding& positions, int64_t start,
                             Where where) const {
  return dropout_(positions(tok_(ids, where), start, where).to(activation_dtype(), where), where);
}

Tensor EncoderDecoder::head(const Tensor& x, Where where) const {
  return linear(decoder_norm_(x, where), tok_.weight(), {}, where).to(dtype(), where);
}

Tensor EncoderDecoder::encode(const Tensor& source, const Tensor& source_mask, Where where) const {
  check("source", source, config_.source_tokens, where);
  Tensor x = embed(source, source_pos_, 0, where);
  for (int64_t i = 0; i < config_.encoder_layers; ++i) x = encoder_layer(i)(x, source_mask, where);
  return encoder_norm_(x, where);
}

Tensor EncoderDecoder::decode(const Tensor& memory, const Tensor& source_mask, const Tensor& target,
                              Where where) const {
  check("target", target, config_.target_tokens, where);
  Tensor x = embed(target, target_pos_, 0, where);
  for (int64_t i = 0; i < config_.decoder_layers; ++i) x = decoder_layer(i)(x, memory, source_mask, where);
  return head(x, where);
}

Tensor EncoderDecoder::operator()(const Tensor& source, const Tensor& source_mask, const Tensor& target,
                                  Where where) const {
  return decode(encode(source, source_mask, where), source_mask, target, where);
}

EncoderDecoderState EncoderDecoder::start(const Tensor& source, const Tensor& source_mask, Where where) const {
  EncoderDecoderState state;
  const Tensor memory = encode(source, source_mask, where);
  if (!mechanism_of(config_.decoder).step) {
    state.memory = memory;
    state.source_mask = source_mask;
    return state;
  }
  for (int64_t i = 0; i < config_.decoder_layers; ++i) {
    state.layers.push_back(decoder_layer(i).start(memory, source_mask, where));
  }
  return state;
}

Tensor EncoderDecoder::step(EncoderDecoderState& state, const Tensor& ids, Where where) const {
  const bool by_steps = mechanism_of(config_.decoder).step;
  if (ids.rank() != 1 || static_cast<int64_t>(state.layers.size()) != (by_steps ? config_.decoder_layers : 0)) {
    const Call call(label(), where);
    throw ShapeError(fmt::format("a step takes ids [targets] and a state of start(), not {} and one of {} layers",
                                 to_string(ids.shape()), state.layers.size()));
  }
  if (state.tokens >= config_.target_tokens) {
    const Call call(label(), where);
    throw ValueError(fmt::format("the targets have target_tokens, {}, already; build the model for longer ones",
                                 config_.target_tokens));
  }
  const Tensor tokens = ids.unsqueeze(1);
  const int64_t before = state.tokens;
  if (by_steps) {
    // Here, because the first self-attention would keep the tokens of a wrong batch.
    if (const int64_t batch = state.layers[0].cross->batch(); ids.size(0) != batch) {
      const Call call(label(), where);
      throw ShapeError(fmt::format("ids are a batch of {} targets, the state has one of {}", ids.size(0), batch));
    }
    Tensor x = embed(tokens, target_pos_, before, where).squeeze(1);
    for (int64_t i = 0; i < config_.decoder_layers; ++i) {
      x = decoder_layer(i).step(state.layers[static_cast<size_t>(i)], x, where);
    }
    ++state.tokens;
    return head(x, where);
  }
  const int64_t sources = state.memory.size(0);
  if (before > 0 ? ids.size(0) != state.targets.size(0) : !divides(sources, ids.size(0))) {
    const Call call(label(), where);
    throw ShapeError(fmt::format("ids of {} targets, for {} sources and {} targets before", ids.size(0), sources,
                                 before > 0 ? state.targets.size(0) : 0));
  }
  const Tensor targets = before > 0 ? concat({state.targets, tokens}, 1) : tokens;
  const Tensor source = source_of_each(ids.size(0), sources, ids.device());
  const Tensor mask = state.source_mask.defined() ? index_select(state.source_mask, 0, source) : Tensor();
  const Tensor logits = decode(index_select(state.memory, 0, source), mask, targets, where).select(1, before);
  state.targets = targets;
  ++state.tokens;
  return logits;
}

std::vector<Setting> EncoderDecoder::settings() const {
  const bool any_length = config_.positions != Positions::learned;
  return {{"vocabulary", config_.vocabulary},
          {"source_tokens", config_.source_tokens, /*may_differ=*/any_length},
          {"target_tokens", config_.target_tokens, /*may_differ=*/any_length},
          {"encoder_layers", config_.encoder_layers},
          {"decoder_layers", config_.decoder_layers},
          {"share_layers", config_.share_layers}};
}

}  // namespace linnet::nn
