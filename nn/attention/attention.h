#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <linnet/nn/module.h>

namespace linnet::nn {

class Attention;
struct AttentionConfig;

/// Makes an attention as part `name` of `parent`.
using AttentionMaker =
    std::function<std::unique_ptr<Attention>(Module& parent, std::string name, const AttentionConfig& config)>;

/// Which attention, and how it is built: what `make_attention` takes. Sizes are checked there.
struct AttentionConfig {
  std::string mechanism = "softmax";  ///< one of attention_mechanisms(), or the name of what `make` makes
  int64_t width = 0;                  ///< C, of the tokens
  int64_t heads = 1;                  ///< H, which divides C
  bool causal = false;                ///< a token sees itself and those before it
  bool bias = true;                   ///< of the linear maps
  bool rotary = false;                ///< rotary positions, where Mechanism::rotary
  double dropout = 0;                 ///< of the attention weights; fastmax has its own kinds
  int64_t short_conv = 0;             ///< taps of a short convolution on queries, keys and values; 0 for none
  /// What only this mechanism has, in a struct of its own: `FastmaxConfig{.form = FastmaxForm::factorised}`, or
  /// nothing for its defaults.
  std::any options = {};
  AttentionMaker make = {};  ///< of an attention of your own that no register_mechanism has named
};

/// What the step form of an attention carries from token to token, in place of the tokens before.
class AttentionState {
 public:
  AttentionState() = default;
  AttentionState(const AttentionState&) = delete;
  AttentionState& operator=(const AttentionState&) = delete;
  virtual ~AttentionState() = default;

  int64_t tokens() const { return tokens_; }  ///< seen so far

 private:
  friend class Attention;
  const Attention* owner_ = nullptr;  ///< which started it
  int64_t tokens_ = 0;
  int64_t batch_ = 0;
};

/// Which tokens an attention drew on, one map a head. Row i holds the weights of the tokens that went into token i;
/// they sum to 1, or to 0 where all of them are padding.
struct AttentionMap {
  /// Of the attention in its model, `blocks.0.attention`, and which map it is where it has several.
  std::string name;
  /// [B, H, N, N]; or [B, H, 1, N], where one row serves all tokens.
  Tensor weights;
};

/// The interface of all attention mechanisms: each mixes the tokens of a sequence, with its linear maps, and
/// any model takes any of them by name, and one of your own, derived from this, by register_mechanism. Shapes: B
/// batch, N tokens, C width, and H heads of D = C/H numbers.
///
/// | | time beside the maps' N·C² | step form: time and memory a token |
/// |---|---|---|
/// | softmax | N²·C | grow with the tokens before |
/// | fastmax1, fastmax2 | N²·C or N·C·D, N·C·D²: the faster | C·D, C·D² |
/// | fastformer | N·C | C |
///
/// Memory of the sequence form is linear in the tokens, in all of them.
class Attention : public Module {
 public:
  /// The sequence form: x [B, N, C] → [B, N, C]. `padding_mask` is bool [B, N], false where a token is padding and
  /// must not be seen; undefined when none is. The result has x's dtype. Throws ShapeError for x or `padding_mask` of
  /// another shape, DTypeError unless x has the parameters' dtype, or is bfloat16 beside parameters of float32.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  /// The weights that the sequence form gives the tokens, without dropout; see the mechanism. To look at: they take
  /// memory for N² numbers a head, which the attention itself never does. They have the parameters' dtype.
  std::vector<AttentionMap> maps(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  /// Starts the step form. Throws ValueError unless the attention is causal.
  std::unique_ptr<AttentionState> start() const;
  /// The step form: the next token of each sequence, x [B, C] → [B, C]. What the sequence form gives at its
  /// position, to rounding, without dropout. Throws ShapeError for another shape or batch than before, ValueError for
  /// the state of another attention.
  Tensor step(AttentionState& state, const Tensor& x, Where where = {}) const;

  /// Those that all mechanisms have; a mechanism with more adds its own.
  std::vector<Setting> settings() const override;
  const AttentionConfig& config() const { return config_; }  ///< as it was built

 protected:
  /// Throws ValueError unless the heads divide the width, and for a dropout outside [0, 1), rotary positions of an
  /// odd number of numbers a head, or fewer than 0 taps.
  Attention(Module& parent, std::string name, const AttentionConfig& config);

  /// The sequence form, of checked arguments.
  virtual Tensor forward(const Tensor& x, const Tensor& padding_mask) const = 0;
  /// Its maps, named for what tells them apart: "" when there is one.
  virtual std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const = 0;
  virtual std::unique_ptr<AttentionState> start_state() const = 0;
  /// One token, x [B, 1, C] → [B, 1, C]. The state is one that start_state made.
  virtual Tensor forward_step(AttentionState& state, const Tensor& x) const = 0;

  int64_t head_dim() const { return config_.width / config_.heads; }
  /// Throws ValueError: the mechanism does not have this option.
  [[noreturn]] void refuse(const char* option) const;

 private:
  void check_input(const Tensor& x, const Tensor& padding_mask) const;

  AttentionConfig config_;
};

/// While one lives, the maps of every attention that this thread evaluates, in its sequence form, are collected:
/// those of a whole model, layer by layer.
///
///     AttentionMaps maps;
///     model(x);
///     for (const auto& [name, weights] : maps.all()) …
///
/// They have no gradients. Collections do not nest: the inner one gets the maps.
class AttentionMaps {
 public:
  [[nodiscard("give it a name, AttentionMaps maps;, or it ends in its own line")]] AttentionMaps();
  ~AttentionMaps();
  AttentionMaps(const AttentionMaps&) = delete;
  AttentionMaps& operator=(const AttentionMaps&) = delete;

  /// So far, in the order of evaluation.
  const std::vector<AttentionMap>& all() const { return maps_; }

 private:
  friend class Attention;
  std::vector<AttentionMap> maps_;
  AttentionMaps* outer_;
};

/// The names that `make_attention` knows: those of mechanisms().
std::vector<std::string> attention_mechanisms();

/// The attention that `config.mechanism` names, or `config.make` makes, as part `name` of `parent`. Throws ValueError
/// for an unknown name, listing the known ones, unless the heads divide the width, for an option out of range, and
/// for the options of another mechanism.
std::unique_ptr<Attention> make_attention(Module& parent, std::string name, const AttentionConfig& config);

/// `config.options` as the mechanism has them, or its defaults.
template <class Options>
Options options_of(const AttentionConfig& config) {
  return config.options.has_value() ? std::any_cast<Options>(config.options) : Options{};
}

}  // namespace linnet::nn
