#include <linnet/nn/models/sequence_classifier.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/activation.h>

namespace linnet::nn {

namespace {

constexpr double kEmbeddingStd = 0.02;

SequenceClassifierConfig completed(SequenceClassifierConfig config) {
  const auto check_size = [](const char* name, int64_t size) {
    if (size < 1) throw ValueError(fmt::format("SequenceClassifier: {} is {}; it must be at least 1", name, size));
  };
  check_size("vocabulary", config.vocabulary);
  check_size("classes", config.classes);
  check_size("layers", config.layers);
  check_size("max_tokens", config.max_tokens);
  detail::check_width("SequenceClassifier", config.block);
  AttentionConfig& attention = config.block.attention;
  if (config.head_hidden < 0) {
    throw ValueError(fmt::format("SequenceClassifier: head_hidden is {}; it must be at least 1, or 0 for 2·width",
                                 config.head_hidden));
  }
  if (config.embedding_width < 0) {
    throw ValueError(
        fmt::format("SequenceClassifier: embedding_width is {}; it must be at least 1, or 0 for the width",
                    config.embedding_width));
  }
  if (config.linear_head && config.head_hidden > 0) {
    throw ValueError(
        fmt::format("SequenceClassifier: a linear head has no hidden layer, so head_hidden must be 0, not {}",
                    config.head_hidden));
  }
  if (config.head_hidden == 0 && !config.linear_head) config.head_hidden = 2 * attention.width;
  if (config.embedding_width == 0) config.embedding_width = attention.width;
  attention.causal = false;
  attention.rotary = config.positions == Positions::rotary;
  attention.max_tokens = config.max_tokens;
  return config;
}

/// The width of the head's input.
int64_t pooled_width(const SequenceClassifierConfig& config) {
  return (config.pairs ? 4 : 1) * config.block.attention.width;
}

const char* name_of(Pooling pooling) {
  switch (pooling) {
    case Pooling::mean: return "mean";
    case Pooling::padded_mean: return "padded_mean";
    case Pooling::attention: return "attention";
    case Pooling::first: return "first";
  }
  return "?";
}

}  // namespace

SequenceClassifier::SequenceClassifier(Generator& rng, const SequenceClassifierConfig& config, DType dtype,
                                       Device device)
    : Module(rng, dtype, device, "SequenceClassifier"),
      config_(completed(config)),
      tok_(*this, "tok", config_.vocabulary, config_.embedding_width),
      map_(config_.embedding_width != config_.block.attention.width
               ? std::make_unique<Linear>(*this, "map", config_.embedding_width, config_.block.attention.width)
               : nullptr),
      pos_(*this, "pos", config_.positions, config_.max_tokens, config_.block.attention.width, kEmbeddingStd),
      dropout_(*this, "dropout", config_.block.dropout),
      blocks_(*this, "blocks"),
      norm_(*this, "norm", config_.block.attention.width, {.bias = config_.block.attention.bias}),
      pool_(config_.pooling == Pooling::attention
                ? std::make_unique<AttentionPooling>(*this, "pool", config_.block.attention.width)
                : nullptr),
      fc1_(config_.linear_head ? nullptr
                               : std::make_unique<Linear>(*this, "fc1", pooled_width(config_), config_.head_hidden)),
      fc2_(*this, "fc2", config_.linear_head ? pooled_width(config_) : config_.head_hidden, config_.classes) {
  BlockConfig block = config_.block;
  if (const Tensor shared = make_shared_parameter(*this, block.attention); shared.defined()) {
    block.attention.shared = parameter("shared_attention", shared);
  }
  for (int64_t i = 0; i < (config_.share_layers ? 1 : config_.layers); ++i) blocks_.add(block);
  Tensor embeddings = tok_.weight();
  init::normal_(embeddings, generator(), 0, kEmbeddingStd);
}

void SequenceClassifier::check(const Tensor& ids, const Tensor& padding_mask, Where where) const {
  const Call call(label(), where);
  if (ids.rank() != 2 || ids.size(1) == 0) {
    throw ShapeError(
        fmt::format("token ids are [batch, tokens] with 1 token or more, not {}", to_string(ids.shape())));
  }
  if (ids.size(1) > config_.max_tokens) {
    throw ValueError(
        fmt::format("{} tokens, but max_tokens is {}; cut the sequences, or build the model for longer "
                    "ones",
                    ids.size(1), config_.max_tokens));
  }
  if (padding_mask.defined() && (padding_mask.dtype() != DType::boolean || padding_mask.shape() != ids.shape())) {
    throw ShapeError(fmt::format("padding_mask should be bool {}, as the ids, not {} {}", to_string(ids.shape()),
                                 name_of(padding_mask.dtype()), to_string(padding_mask.shape())));
  }
}

/// Tokens x [B, N, C] → [B, C].
Tensor SequenceClassifier::pool(const Tensor& x, const Tensor& padding_mask) const {
  if (pool_) return (*pool_)(x, padding_mask);
  Tensor kept = x;
  if (padding_mask.defined()) kept = masked_fill(x, logical_not(padding_mask).unsqueeze(-1), 0);
  if (config_.pooling == Pooling::first) return kept.select(1, 0);
  const Tensor total = sum(kept, {1});
  if (config_.pooling == Pooling::padded_mean) return total / config_.max_tokens;
  if (!padding_mask.defined()) return total / x.size(1);
  return total / maximum(sum(padding_mask.to(total.dtype()), {1}, true), 1);  // a sequence of only padding gives 0
}

Tensor SequenceClassifier::encode(const Tensor& ids, const Tensor& padding_mask, Where where) const {
  check(ids, padding_mask, where);
  const Tensor vectors = map_ ? (*map_)(tok_(ids, where), where) : tok_(ids, where);
  const Tensor tokens = pos_(vectors, 0, where);
  Tensor x = dropout_(tokens.to(activation_dtype(), where), where);
  for (int64_t i = 0; i < config_.layers; ++i) x = layer(i)(x, padding_mask, where);
  return pool(norm_(x, where).to(dtype(), where), padding_mask);
}

Tensor SequenceClassifier::head(const Tensor& x, Where where) const {
  return fc2_(fc1_ ? relu((*fc1_)(x, where)) : x, where);
}

Tensor SequenceClassifier::operator()(const Tensor& ids, const Tensor& padding_mask, Where where) const {
  if (config_.pairs) {
    const Call call(label(), where);
    throw ValueError("the model takes pairs of sequences; pass ids and padding masks of both sequences");
  }
  return head(encode(ids, padding_mask, where), where);
}

Tensor SequenceClassifier::operator()(const Tensor& ids1, const Tensor& padding_mask1, const Tensor& ids2,
                                      const Tensor& padding_mask2, Where where) const {
  if (!config_.pairs) {
    const Call call(label(), where);
    throw ValueError("the model takes single sequences; build it with pairs = true, or pass one sequence");
  }
  check(ids1, padding_mask1, where);
  check(ids2, padding_mask2, where);
  if (ids1.size(0) != ids2.size(0)) {
    const Call call(label(), where);
    throw ShapeError(fmt::format("the first sequences are {}, the second {}; a pair takes one of each",
                                 to_string(ids1.shape()), to_string(ids2.shape())));
  }
  const Tensor a = encode(ids1, padding_mask1, where), b = encode(ids2, padding_mask2, where);
  return head(concat({a, b, a * b, a - b}, 1), where);
}

std::vector<Setting> SequenceClassifier::settings() const {
  const bool any_length = config_.positions != Positions::learned && config_.pooling != Pooling::padded_mean;
  return {{"vocabulary", config_.vocabulary},
          {"classes", config_.classes},
          {"layers", config_.layers},
          {"share_layers", config_.share_layers},
          {"max_tokens", config_.max_tokens, /*may_differ=*/any_length},
          {"pooling", name_of(config_.pooling)},
          {"head_hidden", config_.head_hidden},
          {"pairs", config_.pairs},
          {"linear_head", config_.linear_head},
          {"embedding_width", config_.embedding_width}};
}

}  // namespace linnet::nn
