#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <linnet/nn/layers/heads.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/nn/layers/short_convolution.h>
#include <linnet/nn/module.h>

namespace linnet::nn {

class Attention;
struct AttentionConfig;

/// Makes an attention as submodule `name` of `parent`.
using AttentionMaker =
    std::function<std::unique_ptr<Attention>(Module& parent, std::string name, const AttentionConfig& config)>;

/// Options of an attention, which `make_attention` checks.
struct AttentionConfig {
  std::string mechanism = "softmax";  ///< one of attention_mechanisms(), or a name for the attention of `make`
  int64_t width = 0;                  ///< C, the size of a token
  int64_t heads = 1;                  ///< H, which divides C
  bool causal = false;                ///< a token sees only itself and earlier tokens; needs Mechanism::causal
  bool bias = true;                   ///< whether the linear maps have a bias
  bool rotary = false;                ///< whether positions are rotary; needs Mechanism::rotary
  double dropout = 0;                 ///< of the attention weights, or of what `dropout_kind` says
  int64_t short_conv = 0;             ///< taps of a short convolution on queries, keys and values; 0 for none
  int64_t max_tokens = 0;             ///< length of the longest sequence, for mechanisms that need it; models set it
  /// Options that only this mechanism has, in its own struct, such as
  /// `FastmaxConfig{.form = FastmaxForm::factorised}`; empty for the defaults.
  std::any options = {};
  AttentionMaker make = {};  ///< makes an attention of your own that is not registered with register_mechanism
  /// The parameter that make_shared_parameter returned, the same for all layers of a model; models set it.
  Tensor shared = {};
};

/// The state of an attention's step form: what it keeps of the earlier tokens. In cross-attention there is one
/// sequence for each memory or, after select(), a group of sequences for each memory, such as the beams of a beam
/// search. Sequence r of R then attends to memory ⌊r·M/R⌋ of M.
class AttentionState {
 public:
  AttentionState() = default;
  AttentionState(const AttentionState&) = delete;
  AttentionState& operator=(const AttentionState&) = delete;
  virtual ~AttentionState() = default;

  int64_t tokens() const { return tokens_; }  ///< the number of tokens seen so far
  int64_t batch() const { return batch_; }    ///< the number of sequences

  /// Reorders, repeats or drops sequences: the new sequence i continues the old sequence rows[i]. `memory_rows` does
  /// the same for the memories of cross-attention; without it they stay as they are and are not copied.
  ///
  /// In cross-attention, the rows of group m must be sequences of memory m, or of memory_rows[m]. This is not
  /// checked.
  ///
  /// Shapes: rows [R], memory_rows [M], where M divides R; only a state of cross-attention uses memory_rows.
  /// Dtypes: int64 or int32.
  /// Throws: ShapeError, IndexError; ValueError for a state of an attention of your own without `visit`.
  void select(const Tensor& rows, const Tensor& memory_rows = {}, Where where = {});

 protected:
  using Visitor = std::function<void(Tensor& tensor, bool of_memory)>;  ///< what `visit` calls
  /// Calls `visitor` for each tensor of the state, even if it is not defined yet. `of_memory` says whether its first
  /// dim counts memories instead of sequences.
  virtual void visit(const Visitor& visitor);
  bool of_memory() const { return of_memory_; }  ///< whether this is a state of cross-attention

 private:
  friend class Attention;
  const Attention* owner_ = nullptr;  ///< the attention that started it
  bool of_memory_ = false;
  int64_t tokens_ = 0;
  int64_t batch_ = 0;     ///< the number of sequences
  int64_t memories_ = 0;  ///< the number of memories, in cross-attention
};

/// The weights with which an attention summed the tokens, one matrix for each head. Row i holds the weights for token
/// i, which sum to 1, or to 0 where all tokens are padding. If an attention projects the tokens first, as linformer
/// does, weights may be negative and a row may have any sum.
struct AttentionMap {
  /// The path of the attention in its model, such as `blocks.0.attention`, with the map's own name if there are
  /// several.
  std::string name;
  /// [B, H, N, N]; or [B, H, 1, N], where all tokens have the same weights.
  Tensor weights;
};

/// The interface of all attention mechanisms. An attention contains its linear maps. Any model takes any mechanism by
/// its name. It also takes a class of your own that derives from this one, after register_mechanism.
///
/// Shapes: batch B, N tokens, width C, and H heads of D = C/H numbers.
/// Cost: memory of the sequence form is linear in the tokens. Time is N·C² for the linear maps, and in addition:
///
/// | | sequence form | step form: time and memory for each token |
/// |---|---|---|
/// | softmax | N²·C | grow with the number of earlier tokens |
/// | fastmax1, fastmax2 | the faster of N²·C and N·C·D, N·C·D² | C·D, C·D² |
/// | fastformer | N·C | C |
/// | longformer | w·N·C | grow with w |
/// | poolingformer | N·(w + w₂/stride)·C | none |
/// | bigbird | N·b·(5 + r)·C, with blocks of b tokens | none |
/// | reformer | R·N·m·C, for R rounds and chunks of m | none |
/// | linear | the faster of N²·C and N·C·D | C·D |
/// | performer | N·C·m, with m features | C·m |
/// | linformer | N·K·C for K slots | none |
/// | informer | N·C·ln N | none |
class Attention : public Module {
 public:
  /// The sequence form. `padding_mask` is false where a token is padding, so that no other token sees it; leave it
  /// undefined if there is no padding. PyTorch's key_padding_mask means the opposite: pass
  /// logical_not(key_padding_mask).
  ///
  /// Shapes: x [B, N, C], `padding_mask` [B, N] → [B, N, C].
  /// Dtypes: x has the parameters' dtype, or is bfloat16 with float32 parameters; the result has x's. `padding_mask`
  /// is bool.
  /// Throws: ShapeError, for a mask of another dtype too; DTypeError.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  /// The weights of the sequence form, without dropout, for inspection. Each mechanism's class describes its maps.
  ///
  /// Dtypes: the parameters' dtype.
  /// Cost: memory for N² numbers for each head. The attention itself needs no such memory.
  std::vector<AttentionMap> maps(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  /// Starts the step form.
  ///
  /// Throws: ValueError unless the attention is causal and has a step form (Mechanism::step).
  std::unique_ptr<AttentionState> start() const;
  /// Cross-attention: the tokens of x attend to those of `memory`, such as a decoder's to an encoder's. Queries come
  /// from x, keys and values from memory. Each token sees all of memory, even if the config is causal, except
  /// padding, where `memory_mask` is false. `padding_mask` marks padding in x, for mechanisms that also sum over x.
  ///
  /// Shapes: x [B, N, C], memory [B, M, C], `padding_mask` [B, N], `memory_mask` [B, M] → [B, N, C].
  /// Dtypes: as of the sequence form.
  /// Cost: as of the sequence form, with N·M for N², and N + M for N.
  /// Throws: ShapeError; DTypeError; ValueError for a mechanism without cross-attention (Mechanism::cross), and with
  /// rotary positions or a short convolution, which mix tokens of one sequence.
  Tensor cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask = {}, const Tensor& memory_mask = {},
               Where where = {}) const;
  /// Starts the step form of cross-attention. `step` then takes the tokens of x, one by one. Mechanisms that
  /// factorise the weights sum over memory once, here, so that the cost of a step does not depend on memory's length.
  ///
  /// Throws: as cross.
  std::unique_ptr<AttentionState> start(const Tensor& memory, const Tensor& memory_mask = {}, Where where = {}) const;

  /// The step form: the next token of each sequence. Without dropout the result agrees with the sequence form at its
  /// position, up to rounding.
  ///
  /// Shapes: x [B, C] → [B, C].
  /// Throws: ShapeError for another shape, or another batch than before; ValueError for the state of another
  /// attention.
  Tensor step(AttentionState& state, const Tensor& x, Where where = {}) const;

  /// Copies weights into those that start as copies of others. Models call it after they set initial weights of their
  /// own.
  virtual void start_as_copies() const {}

  /// The settings that all mechanisms have. A mechanism with more options adds its own.
  std::vector<Setting> settings() const override;
  const AttentionConfig& config() const { return config_; }  ///< the options given to the constructor

 protected:
  /// Throws: ValueError unless the heads divide the width, and for a dropout outside [0, 1), rotary positions with an
  /// odd D, or fewer than 0 taps.
  Attention(Module& parent, std::string name, const AttentionConfig& config);

  /// The sequence form, with checked arguments.
  virtual Tensor forward(const Tensor& x, const Tensor& padding_mask) const = 0;
  /// The maps of the sequence form. A single map has the name "".
  virtual std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const = 0;
  /// The state before the first token. A class without a step form overrides neither this nor forward_step.
  virtual std::unique_ptr<AttentionState> start_state() const { refuse_step(); }
  /// One token, x [B, 1, C] → [B, 1, C]. The state comes from start_state.
  virtual Tensor forward_step(AttentionState&, const Tensor&) const { refuse_step(); }

  /// Cross-attention, with checked arguments. A class without it overrides none of these three functions.
  virtual Tensor forward_cross(const Tensor& /*x*/, const Tensor& /*memory*/, const Tensor& /*padding_mask*/,
                               const Tensor& /*memory_mask*/) const {
    refuse_cross();
  }
  /// The state before the first token of x. Rows of memory that are padding are 0.
  virtual std::unique_ptr<AttentionState> start_cross(const Tensor& /*memory*/, const Tensor& /*memory_mask*/) const {
    refuse_cross();
  }
  /// One token of each sequence, grouped by memory: x [M, R/M, C] → [M, R/M, C]. The state comes from start_cross.
  virtual Tensor forward_cross_step(AttentionState&, const Tensor& /*x*/) const { refuse_cross(); }

  int64_t head_dim() const { return config_.width / config_.heads; }  ///< D, the width of a head
  /// Throws: ValueError, always: the mechanism does not have this option.
  [[noreturn]] void refuse(const char* option) const;

 private:
  void check_input(const Tensor& x, const Tensor& padding_mask) const;
  /// Throws: ValueError, always: the mechanism has no step form.
  [[noreturn]] void refuse_step() const;
  /// Throws: ValueError, always: the mechanism has no cross-attention.
  [[noreturn]] void refuse_cross() const;
  void check_memory(const Tensor& memory, const Tensor& memory_mask) const;

  AttentionConfig config_;
};

/// The base of attentions with one projection for queries, keys and values. The submodules are `qkv`, which is that
/// projection, `out`, the projection of the result, and `conv`, a short convolution of the projected tokens, if the
/// config has one. It has no rotary positions: a mechanism that takes them calls `rotate` on its queries and keys
/// (nn/layers/positions.h).
class QkvAttention : public Attention {
 protected:
  QkvAttention(Module& parent, std::string name, const AttentionConfig& config);

  /// Queries, keys and values of tokens, by `qkv_` and then `conv_`, which takes padding as 0.
  ///
  /// Shapes: x [B, N, C], `padding_mask` [B, N] → [B, H, N, D] each.
  Qkv project(const Tensor& x, const Tensor& padding_mask) const;
  /// The step form of `project`: one token by `qkv_` and then `conv_`, which keeps earlier tokens in `state`.
  /// split_qkv divides the result into query, key and value.
  ///
  /// Shapes: x [B, 1, C] → [B, 1, 3·C].
  Tensor project_step(ShortConvolution::State& state, const Tensor& x) const;

  // For cross-attention, with tokens x [B, N, C] and memory [B, M, C].
  Tensor project_queries(const Tensor& x) const;                         ///< queries, [B, H, N, D]
  std::pair<Tensor, Tensor> project_memory(const Tensor& memory) const;  ///< keys and values, [B, H, M, D]
  Qkv project_cross(const Tensor& x, const Tensor& memory) const;        ///< queries of x, keys and values of memory

  Linear qkv_, out_;                      ///< the projections of the tokens and of the result
  std::optional<ShortConvolution> conv_;  ///< of the projected tokens, if AttentionConfig::short_conv is not 0
};

/// A guard: while it lives, it collects the maps of every sequence form that this thread evaluates, such as those of
/// a whole model, layer by layer. If several live at the same time, only the newest collects.
///
///     nn::AttentionMaps maps;
///     model(x);
///     for (const auto& [name, weights] : maps.all()) std::cout << name << " " << weights.shape() << "\n";
///
/// Gradient: none.
class AttentionMaps {
 public:
  [[nodiscard("give it a name, as in 'AttentionMaps maps;': an unnamed object ends at once")]] AttentionMaps();
  ~AttentionMaps();
  AttentionMaps(const AttentionMaps&) = delete;
  AttentionMaps& operator=(const AttentionMaps&) = delete;

  /// The maps so far, in the order of evaluation.
  const std::vector<AttentionMap>& all() const { return maps_; }

 private:
  friend class Attention;
  std::vector<AttentionMap> maps_;
  AttentionMaps* outer_;
};

/// The names of mechanisms(), which `make_attention` takes.
std::vector<std::string> attention_mechanisms();

/// The attention that `config.mechanism` names or `config.make` makes, as submodule `name` of `parent`.
///
/// Throws: ValueError for an unknown name (with the known ones), for heads that do not divide the width, for an
/// option out of range, for the options of another mechanism, and for `causal` with a mechanism that has no causal
/// form (with the reason and those that have one).
std::unique_ptr<Attention> make_attention(Module& parent, std::string name, const AttentionConfig& config);

/// The parameter that the attentions of all layers of a model share, such as Linformer's layerwise projection, with
/// its initial values; undefined if they share none. The model registers it and passes it to its layers as
/// AttentionConfig::shared.
///
/// Throws: ValueError for the options of another mechanism, and as the mechanism does for options out of range.
Tensor make_shared_parameter(const Module& model, const AttentionConfig& config);

/// The `options` of an AttentionConfig or AttentionSize as the mechanism's struct, or the struct's defaults if there
/// are none.
///
/// Throws: std::bad_any_cast for options of another type; make_attention has refused these before.
template <class Options, class HasOptions>
Options options_of(const HasOptions& of) {
  return of.options.has_value() ? std::any_cast<Options>(of.options) : Options{};
}

}  // namespace linnet::nn
