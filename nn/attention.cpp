#include <linnet/nn/attention.h>

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/tape.h>
#include <linnet/nn/fastformer.h>
#include <linnet/nn/fastmax.h>
#include <linnet/nn/softmax_attention.h>

namespace linnet::nn {

namespace {

using Maker = std::unique_ptr<Attention> (*)(Module& parent, std::string name, const AttentionConfig& config);

template <class Mechanism>
std::unique_ptr<Attention> make(Module& parent, std::string name, const AttentionConfig& config) {
  return std::make_unique<Mechanism>(parent, std::move(name), config);
}

struct Entry {
  std::string_view mechanism;
  Maker make;
};
constexpr std::array<Entry, 4> kMechanisms = {{{"softmax", make<SoftmaxAttention>},
                                               {"fastmax1", make<FastmaxAttention>},
                                               {"fastmax2", make<FastmaxAttention>},
                                               {"fastformer", make<FastformerAttention>}}};

thread_local AttentionMaps* collection = nullptr;

}  // namespace

std::vector<std::string> attention_mechanisms() {
  std::vector<std::string> names;
  names.reserve(kMechanisms.size());
  for (const Entry& entry : kMechanisms) names.emplace_back(entry.mechanism);
  return names;
}

std::unique_ptr<Attention> make_attention(Module& parent, std::string name, const AttentionConfig& config) {
  if (config.make) return config.make(parent, std::move(name), config);
  for (const Entry& entry : kMechanisms) {
    if (entry.mechanism == config.mechanism) return entry.make(parent, std::move(name), config);
  }
  throw ValueError(fmt::format("{}{}{}: no attention is called '{}'; choose one of {}", parent.path(),
                               parent.path().empty() ? "" : ".", name, config.mechanism,
                               fmt::join(attention_mechanisms(), ", ")));
}

Attention::Attention(Module& parent, std::string name, const AttentionConfig& config)
    : Module(parent, std::move(name),
             fmt::format("{} attention, width {}, heads {}", config.mechanism, config.width, config.heads)),
      config_(config) {
  if (config.width < 1 || config.heads < 1 || config.width % config.heads != 0) {
    throw ValueError(fmt::format("{}: the number of heads must divide the width", label()));
  }
  if (config.short_conv < 0) {
    throw ValueError(fmt::format("{}: a short convolution of {} taps; 0 is none", label(), config.short_conv));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw ValueError(fmt::format("{}: dropout is {}; it must be in [0, 1)", label(), config.dropout));
  }
  if (config.rotary && head_dim() % 2 != 0) {
    throw ValueError(fmt::format("{}: rotary positions turn pairs of numbers, but a head has {}; choose other heads",
                                 label(), head_dim()));
  }
}

void Attention::check_input(const Tensor& x, const Tensor& keep) const {
  if (x.rank() != 3 || x.size(2) != config_.width) {
    throw ShapeError(fmt::format("x should be [batch, tokens, {}], not {}", config_.width, to_string(x.shape())));
  }
  if (keep.defined() && (keep.dtype() != DType::boolean || keep.shape() != Shape{x.size(0), x.size(1)})) {
    throw ShapeError(fmt::format("keep should be bool [{}, {}], not {} {}", x.size(0), x.size(1),
                                 name_of(keep.dtype()), to_string(keep.shape())));
  }
}

Tensor Attention::operator()(const Tensor& x, const Tensor& keep, Where where) const {
  const Call call(label(), where);
  check_input(x, keep);
  if (collection != nullptr) {
    const NoGrad no_grad;
    for (AttentionMap& map : maps(x, keep, where)) collection->maps_.push_back(std::move(map));
  }
  return forward(x, keep);
}

std::vector<AttentionMap> Attention::maps(const Tensor& x, const Tensor& keep, Where where) const {
  const Call call(label(), where);
  check_input(x, keep);
  std::vector<AttentionMap> maps = forward_maps(x, keep);
  for (AttentionMap& map : maps) map.name = map.name.empty() ? path() : path() + " " + map.name;
  return maps;
}

std::unique_ptr<AttentionState> Attention::start() const {
  if (!config_.causal) {
    throw ValueError(fmt::format("{}: only causal attention has a step form; build it with causal = true", label()));
  }
  std::unique_ptr<AttentionState> state = start_state();
  state->owner_ = this;
  return state;
}

Tensor Attention::step(AttentionState& state, const Tensor& x, Where where) const {
  const Call call(label(), where);
  if (state.owner_ != this) throw ValueError("the state belongs to another attention; start() one here");
  if (x.rank() != 2 || x.size(1) != config_.width) {
    throw ShapeError(fmt::format("x should be [batch, {}], not {}", config_.width, to_string(x.shape())));
  }
  if (state.tokens_ > 0 && state.batch_ != x.size(0)) {
    throw ShapeError(
        fmt::format("x has a batch of {}, the state one of {}; start() a new state", x.size(0), state.batch_));
  }
  const Tensor y = forward_step(state, x.unsqueeze(1)).squeeze(1);
  state.batch_ = x.size(0);
  ++state.tokens_;
  return y;
}

void Attention::refuse(const char* option) const {
  throw ValueError(fmt::format("{}: {} has no {}; leave it out", label(), config_.mechanism, option));
}

void Attention::refuse_fastmax_options() const {
  if (config_.fastmax_scale != AttentionConfig{}.fastmax_scale) refuse("scale of fastmax");
  if (config_.fastmax_form != FastmaxForm::automatic) refuse("form of fastmax");
  if (config_.dropout_kind) refuse("kind of dropout");
  if (config_.dropout_normaliser != FastmaxNormaliser::clean) refuse("normaliser of dropout");
}

void Attention::refuse_fastformer_options() const {
  if (config_.interaction != Interaction::product) refuse("interaction");
  if (!config_.share_query_value || config_.share_heads) refuse("shared maps");
  if (config_.full_logits) refuse("full logits");
  if (config_.columns != 3) refuse("other number of columns");
}

AttentionMaps::AttentionMaps() : outer_(std::exchange(collection, this)) {}
AttentionMaps::~AttentionMaps() { collection = outer_; }

std::vector<Setting> Attention::settings() const {
  return {{"mechanism", config_.mechanism},
          {"width", config_.width},
          {"heads", config_.heads},
          {"causal", config_.causal},
          {"bias", config_.bias},
          {"rotary", config_.rotary},
          {"dropout", config_.dropout, /*may_differ=*/true},
          {"short_conv", config_.short_conv}};
}

}  // namespace linnet::nn
