#include <linnet/nn/attention/attention.h>

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

/// Checks that `config.options` are of this mechanism. Throws ValueError otherwise.
void check_options(const Mechanism& mechanism, const AttentionConfig& config) {
  if (!config.options.has_value() || config.options.type() == mechanism.options.type()) return;
  for (const Mechanism& other : mechanisms()) {
    if (other.options.type() != config.options.type()) continue;
    std::vector<std::string> names;
    names.reserve(other.option_list.size());
    for (const AttentionOption& option : other.option_list) names.push_back(option.name);
    throw ValueError(fmt::format("{} has none of the options of {} ({}); leave them out", mechanism.name, other.name,
                                 fmt::join(names, ", ")));
  }
  throw ValueError(
      fmt::format("the options are of a type that no mechanism takes; leave them out, or give {}'s", mechanism.name));
}

/// Throws: ValueError for a causal attention of a mechanism that has no causal form.
void check_causal(const Mechanism& mechanism, const AttentionConfig& config) {
  if (!config.causal || mechanism.causal) return;
  const std::string& why = mechanism.why_not_causal;
  throw ValueError(fmt::format("{} has no causal form{}; choose one of {}", mechanism.name,
                               why.empty() ? "" : fmt::format(" ({})", why), fmt::join(causal_mechanisms(), ", ")));
}

thread_local AttentionMaps* collection = nullptr;

}  // namespace

std::vector<std::string> attention_mechanisms() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : mechanisms()) names.push_back(mechanism.name);
  return names;
}

std::unique_ptr<Attention> make_attention(Module& parent, std::string name, const AttentionConfig& config) {
  if (config.make) return config.make(parent, std::move(name), config);
  const Mechanism* mechanism = nullptr;
  try {
    mechanism = &find_mechanism(config.mechanism);
    check_options(*mechanism, config);
    check_causal(*mechanism, config);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}{}{}: {}", parent.path(), parent.path().empty() ? "" : ".", name, error.what()));
  }
  return mechanism->make(parent, std::move(name), config);
}

Tensor make_shared_parameter(const Module& model, const AttentionConfig& config) {
  const Mechanism& mechanism = mechanism_of(config);
  if (!mechanism.shared) return {};
  try {
    check_options(mechanism, config);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}: {}", model.label(), error.what()));
  }
  return mechanism.shared(model, config);
}

Attention::Attention(Module& parent, std::string name, const AttentionConfig& config)
    : Module(parent, std::move(name),
             fmt::format("{} attention, width {}, heads {}", config.mechanism, config.width, config.heads)),
      config_(config) {
  if (config.width < 1 || config.heads < 1 || config.width % config.heads != 0) {
    throw ValueError(fmt::format("{}: {}", label(),
                                 config.width < 1 ? "the width must be at least 1; set AttentionConfig::width"
                                                  : "the number of heads must divide the width"));
  }
  if (config.short_conv < 0) {
    throw ValueError(
        fmt::format("{}: short_conv is {}; it must be at least 1, or 0 for none", label(), config.short_conv));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw ValueError(fmt::format("{}: dropout is {}; it must be in [0, 1)", label(), config.dropout));
  }
  if (config.rotary && head_dim() % 2 != 0) {
    throw ValueError(fmt::format("{}: rotary positions turn pairs of numbers, but a head has {}; choose other heads",
                                 label(), head_dim()));
  }
}

void Attention::check_input(const Tensor& x, const Tensor& padding_mask) const {
  if (x.rank() != 3 || x.size(2) != config_.width) {
    throw ShapeError(fmt::format("x should be [batch, tokens, {}], not {}", config_.width, to_string(x.shape())));
  }
  if (padding_mask.defined() &&
      (padding_mask.dtype() != DType::boolean || padding_mask.shape() != Shape{x.size(0), x.size(1)})) {
    throw ShapeError(fmt::format("padding_mask should be bool [{}, {}], not {} {}", x.size(0), x.size(1),
                                 name_of(padding_mask.dtype()), to_string(padding_mask.shape())));
  }
}

Tensor Attention::operator()(const Tensor& x, const Tensor& padding_mask, Where where) const {
  const Call call(label(), where);
  check_input(x, padding_mask);
  if (collection != nullptr) {
    const NoGrad no_grad;
    for (AttentionMap& map : maps(x, padding_mask, where)) collection->maps_.push_back(std::move(map));
  }
  return forward(x, padding_mask);
}

std::vector<AttentionMap> Attention::maps(const Tensor& x, const Tensor& padding_mask, Where where) const {
  const Call call(label(), where);
  check_input(x, padding_mask);
  std::vector<AttentionMap> maps = forward_maps(x, padding_mask);
  for (AttentionMap& map : maps) map.name = map.name.empty() ? path() : path() + " " + map.name;
  return maps;
}

std::unique_ptr<AttentionState> Attention::start() const {
  if (!config_.causal) {
    throw ValueError(fmt::format("{}: only causal attention has a step form; build it with causal = true", label()));
  }
  if (!mechanism_of(config_).step) refuse_step();
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
  if ((state.tokens_ > 0 || state.of_memory_) && state.batch_ != x.size(0)) {
    throw ShapeError(
        fmt::format("x has a batch of {}, the state one of {}; start() a new state", x.size(0), state.batch_));
  }
  const int64_t groups = state.of_memory_ ? state.memories_ : x.size(0);
  const Tensor tokens = x.reshape({groups, groups > 0 ? x.size(0) / groups : 1, config_.width});
  const Tensor y = state.of_memory_ ? forward_cross_step(state, tokens) : forward_step(state, tokens);
  state.batch_ = x.size(0);
  ++state.tokens_;
  return y.reshape(x.shape());
}

void AttentionState::visit(const Visitor&) {
  throw ValueError("the state of this attention cannot be selected from; override AttentionState::visit");
}

void AttentionState::select(const Tensor& rows, const Tensor& memory_rows, Where where) {
  const Call call("AttentionState::select", where);
  const int64_t memories = memory_rows.defined() ? memory_rows.numel() : memories_;
  if (of_memory_ && (memories == 0 ? rows.numel() > 0 : rows.numel() % memories != 0)) {
    throw ShapeError(fmt::format("{} sequences cannot be divided among {} memories; select the same number for each",
                                 rows.numel(), memories));
  }
  // Rows that do not exist are noticed before any tensor changes.
  if (of_memory_ || tokens_ > 0) index_select(zeros({batch_}, DType::boolean, rows.device()), 0, rows);
  if (of_memory_ && memory_rows.defined()) {
    index_select(zeros({memories_}, DType::boolean, memory_rows.device()), 0, memory_rows);
  }
  visit([&](Tensor& tensor, bool of_memory) {
    const Tensor& selected = of_memory ? memory_rows : rows;
    if (tensor.defined() && selected.defined()) tensor = index_select(tensor, 0, selected);
  });
  batch_ = rows.numel();
  memories_ = memories;
}

void Attention::check_memory(const Tensor& memory, const Tensor& memory_mask) const {
  if (memory.rank() != 3 || memory.size(2) != config_.width) {
    throw ShapeError(
        fmt::format("memory should be [batch, tokens, {}], not {}", config_.width, to_string(memory.shape())));
  }
  if (memory_mask.defined() &&
      (memory_mask.dtype() != DType::boolean || memory_mask.shape() != Shape{memory.size(0), memory.size(1)})) {
    throw ShapeError(fmt::format("memory_mask should be bool [{}, {}], not {} {}", memory.size(0), memory.size(1),
                                 name_of(memory_mask.dtype()), to_string(memory_mask.shape())));
  }
  if (config_.rotary || config_.short_conv > 0) {
    throw ValueError(fmt::format("cross-attention takes no {}, since its tokens are of two sequences; leave it out",
                                 config_.rotary ? "rotary positions" : "short convolution"));
  }
}

Tensor Attention::cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask, const Tensor& memory_mask,
                        Where where) const {
  const Call call(label(), where);
  check_input(x, padding_mask);
  check_memory(memory, memory_mask);
  if (x.size(0) != memory.size(0)) {
    throw ShapeError(fmt::format("x has a batch of {}, memory one of {}", x.size(0), memory.size(0)));
  }
  return forward_cross(x, memory, padding_mask, memory_mask);
}

std::unique_ptr<AttentionState> Attention::start(const Tensor& memory, const Tensor& memory_mask, Where where) const {
  const Call call(label(), where);
  check_memory(memory, memory_mask);
  Tensor seen = memory, mask = memory_mask;
  if (memory.size(1) == 0) {  // one padding token gives the same result, so mechanisms need no special case
    seen = zeros({memory.size(0), 1, config_.width}, memory.dtype(), memory.device());
    mask = zeros({memory.size(0), 1}, DType::boolean, memory.device());
  } else if (mask.defined()) {
    seen = masked_fill(memory, logical_not(mask).unsqueeze(-1), 0);
  }
  std::unique_ptr<AttentionState> state = start_cross(seen, mask);
  state->owner_ = this;
  state->of_memory_ = true;
  state->batch_ = state->memories_ = memory.size(0);
  return state;
}

void Attention::refuse_cross() const {
  throw ValueError(
      fmt::format("{}: {} has no cross-attention, since it chooses keys within one sequence; use one of {}", label(),
                  config_.mechanism, fmt::join(cross_mechanisms(), ", ")));
}

void Attention::refuse_step() const {
  throw ValueError(fmt::format("{}: {} has no step form; call it on all tokens so far", label(), config_.mechanism));
}

void Attention::refuse(const char* option) const {
  throw ValueError(fmt::format("{}: {} has no {}; leave it out", label(), config_.mechanism, option));
}

QkvAttention::QkvAttention(Module& parent, std::string name, const AttentionConfig& config)
    : Attention(parent, std::move(name), config),
      qkv_(*this, "qkv", config.width, 3 * config.width, config.bias),
      out_(*this, "out", config.width, config.width, config.bias) {
  if (config.short_conv > 0) conv_.emplace(*this, "conv", 3 * config.width, config.short_conv, config.causal);
}

Qkv QkvAttention::project(const Tensor& x, const Tensor& padding_mask) const {
  Tensor projected = qkv_(x);
  if (conv_) projected = (*conv_)(projected, padding_mask);
  return split_qkv(projected, config().heads);
}

Tensor QkvAttention::project_step(ShortConvolution::State& state, const Tensor& x) const {
  const Tensor projected = qkv_(x);
  return conv_ ? conv_->step(state, projected) : projected;
}

namespace {

/// The outputs first … first + count − 1 of `map` for x.
Tensor part_of(const Linear& map, const Tensor& x, int64_t first, int64_t count) {
  const Tensor& bias = map.bias();
  return linear(x, map.weight().narrow(0, first, count), bias.defined() ? bias.narrow(0, first, count) : bias);
}

}  // namespace

Tensor QkvAttention::project_queries(const Tensor& x) const {
  return split_heads(part_of(qkv_, x, 0, config().width), config().heads);
}

std::pair<Tensor, Tensor> QkvAttention::project_memory(const Tensor& memory) const {
  const int64_t width = config().width;
  const Tensor projected = part_of(qkv_, memory, width, 2 * width);
  return {split_heads(projected.narrow(2, 0, width), config().heads),
          split_heads(projected.narrow(2, width, width), config().heads)};
}

Qkv QkvAttention::project_cross(const Tensor& x, const Tensor& memory) const {
  const auto [k, v] = project_memory(memory);
  return {project_queries(x), k, v};
}

AttentionMaps::AttentionMaps() : outer_(std::exchange(collection, this)) {}
AttentionMaps::~AttentionMaps() {
  AttentionMaps** link = &collection;  // to this one, which need not be the innermost
  while (*link != nullptr && *link != this) link = &(*link)->outer_;
  if (*link == this) *link = outer_;
}

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
