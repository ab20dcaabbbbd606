#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/attention/informer_attention.h>
#include <linnet/ops/attention/linear_attention.h>
#include <linnet/ops/attention/linformer_attention.h>
#include <linnet/ops/attention/performer_attention.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/fastmax/fastmax.h>

#include "tests/ops/fastformer/additive_reference.h"
#include "tests/support/op_case.h"

namespace linnet::test {

/// Adds cases of attention ops to the registry. Inputs are drawn one after another from one generator.
class AttentionCases {
 public:
  using Inputs = std::vector<Tensor>;

  /// Batch, heads, tokens of the queries and of the keys, width.
  struct Size {
    int64_t b, h, n, m, d;
  };

  explicit AttentionCases(Registry& registry) : registry_(registry) {}

  void softmax(const std::string& variant, Size size, const SoftmaxAttentionOptions& options = {}) {
    add("softmax_attention", variant, heads(size),
        [options](const Inputs& in) { return softmax_attention(in[0], in[1], in[2], options); });
  }

  void fastmax(const std::string& variant, Size size, const FastmaxOptions& options = {}) {
    add("fastmax", variant, heads(size),
        [options](const Inputs& in) { return linnet::fastmax(in[0], in[1], in[2], options); });
  }

  /// Draws the same mask at each call.
  void dropped_fastmax(const std::string& variant, Size size, const FastmaxOptions& options) {
    add("fastmax", variant, heads(size), [options](const Inputs& in) {
      Generator generator(3);
      FastmaxOptions drawn = options;
      drawn.generator = &generator;
      return linnet::fastmax(in[0], in[1], in[2], drawn);
    });
  }

  /// Cases without values, for the weights.
  void softmax_weights(const std::string& variant, Size size, const SoftmaxAttentionOptions& options = {}) {
    Inputs inputs = heads(size);
    inputs.pop_back();
    add(
        "softmax_attention_weights", variant, inputs,
        [options](const Inputs& in) { return softmax_attention_weights(in[0], in[1], options); }, true);
  }

  void fastmax_weights(const std::string& variant, Size size, const FastmaxOptions& options = {}) {
    Inputs inputs = heads(size);
    inputs.pop_back();
    add(
        "fastmax_weights", variant, inputs,
        [options](const Inputs& in) { return linnet::fastmax_weights(in[0], in[1], options); }, true);
  }

  void linear(const std::string& variant, Size size, const LinearAttentionOptions& options = {}) {
    add(
        "linear_attention", variant, heads(size),
        [options](const Inputs& in) {
          Generator generator(7);  // keeps the keys that a test replaces by NaN, since a weight of 0 has no gradient
          LinearAttentionOptions drawn = options;
          drawn.generator = &generator;
          return linear_attention(in[0], in[1], in[2], drawn);
        },
        options.form == FastmaxForm::reference);
  }

  void linear_weights(const std::string& variant, Size size, const LinearAttentionOptions& options = {}) {
    Inputs inputs = heads(size);
    inputs.pop_back();
    add(
        "linear_attention_weights", variant, inputs,
        [options](const Inputs& in) { return linear_attention_weights(in[0], in[1], options); }, true);
  }

  /// Cases with projections of up to `most` tokens to `slots`.
  void linformer(const std::string& variant, Size size, int64_t slots, int64_t most,
                 const LinformerAttentionOptions& options = {}) {
    add("linformer_attention", variant, linformer_inputs(size, slots, most), [options](const Inputs& in) {
      Generator generator(3);
      LinformerAttentionOptions drawn = options;
      drawn.generator = &generator;
      return linformer_attention(in[0], in[1], in[2], in[3], in[4], drawn);
    });
  }

  void linformer_weights(const std::string& variant, Size size, int64_t slots, int64_t most,
                         const LinformerAttentionOptions& options = {}) {
    Inputs inputs = linformer_inputs(size, slots, most);
    inputs.erase(inputs.begin() + 2);  // the values
    add(
        "linformer_attention_weights", variant, inputs,
        [options](const Inputs& in) { return linformer_attention_weights(in[0], in[1], in[2], in[3], options); },
        true);
  }

  /// Draws the same samples at each call.
  void informer(const std::string& variant, Size size, const InformerAttentionOptions& options = {}) {
    add("informer_attention", variant, heads(size), [options](const Inputs& in) {
      Generator generator(3);
      InformerAttentionOptions drawn = options;
      drawn.generator = &generator;
      return informer_attention(in[0], in[1], in[2], drawn);
    });
  }

  void informer_weights(const std::string& variant, Size size, const InformerAttentionOptions& options = {}) {
    Inputs inputs = heads(size);
    inputs.pop_back();
    add(
        "informer_attention_weights", variant, inputs,
        [options](const Inputs& in) {
          Generator generator(3);
          InformerAttentionOptions drawn = options;
          drawn.generator = &generator;
          return informer_attention_weights(in[0], in[1], drawn);
        },
        true);
  }

  /// Ω is not an input, since it has no gradient. Its values are exact in float32.
  static Tensor omega(const Size& size) {
    Generator generator(8);
    return performer_projection(size.d + 2, size.d, generator);
  }
  /// Ω in the dtype of the inputs, which a test may have converted.
  static Tensor omega_for(const Tensor& omega, const Tensor& q) {
    return omega.to(computed_in(q.dtype())).to(q.device());
  }

  void performer(const std::string& variant, Size size, const PerformerAttentionOptions& options = {}) {
    add(
        "performer_attention", variant, heads(size),
        [options, omega = omega(size)](const Inputs& in) {
          Generator generator(7);
          PerformerAttentionOptions drawn = options;
          drawn.generator = &generator;
          return performer_attention(in[0], in[1], in[2], omega_for(omega, in[0]), drawn);
        },
        options.form != PerformerForm::automatic || size.n == 0 || size.m == 0);
  }

  void performer_log(const std::string& variant, Size size) {
    add(
        "performer_log_features", variant, {draw({size.b, size.n, size.d})},
        [omega = omega(size).narrow(0, 0, size.d)](const Inputs& in) {
          return performer_log_features(in[0], omega_for(omega, in[0]));
        },
        true);
  }

  void performer_weights(const std::string& variant, Size size, const PerformerAttentionOptions& options = {}) {
    Inputs inputs = heads(size);
    inputs.pop_back();
    add(
        "performer_attention_weights", variant, inputs,
        [options, omega = omega(size)](const Inputs& in) {
          return performer_attention_weights(in[0], in[1], omega_for(omega, in[0]), options);
        },
        true);
  }

  void pool(const std::string& variant, Size size, const AttentionPoolOptions& options = {}) {
    add("attention_pool", variant, {draw({size.b, size.h, size.n}), draw({size.b, size.h, size.n, size.d})},
        [options](const Inputs& in) { return attention_pool(in[0], in[1], options); });
  }

  void additive(const std::string& variant, Size size, AdditiveAttentionOptions options = {}, int64_t projections = 3,
                bool full = false) {
    const AdditiveInputs in = additive_inputs(size, options.interaction, projections, full);
    add("additive_attention", variant, in.tensors(), [in, options](const Inputs& tensors) mutable {
      Generator generator(3);
      options.generator = &generator;
      const AdditiveInputs given = in.with(tensors);
      return additive_attention(given.projections, given.stages, options);
    });
  }

  void additive_weights(const std::string& variant, Size size, const AdditiveAttentionOptions& options) {
    const AdditiveInputs in = additive_inputs(size, options.interaction, 3, false);
    add(
        "additive_attention_weights", variant, in.tensors(),
        [in, options](const Inputs& tensors) {
          const AdditiveInputs given = in.with(tensors);
          return concat(additive_attention_weights(given.projections, given.stages, options), 2);
        },
        true);
  }

  void short_conv(const std::string& variant, const Shape& size, int64_t taps, const ShortConvOptions& options) {
    add("short_conv", variant, {draw(size), draw({size[2], taps})},
        [options](const Inputs& in) { return linnet::short_conv(in[0], in[1], options); });
  }

  void add(const std::string& op, const std::string& variant, Inputs inputs, std::function<Tensor(const Inputs&)> f,
           bool twice = false) {
    registry_.differentiable.push_back({op, variant, std::move(inputs), std::move(f), twice});
  }

  Inputs heads(Size size) {
    return {draw({size.b, size.h, size.n, size.d}), draw({size.b, size.h, size.m, size.d}),
            draw({size.b, size.h, size.m, size.d})};
  }

  Tensor draw(const Shape& shape) { return randn(shape, generator_, DType::float64); }

 private:
  Inputs linformer_inputs(Size size, int64_t slots, int64_t most) {
    Inputs inputs = heads(size);
    for (int i = 0; i < 2; ++i) inputs.push_back(draw({slots, most}));
    return inputs;
  }

  AdditiveInputs additive_inputs(Size size, Interaction interaction, int64_t projections, bool full) {
    AdditiveInputs in;
    for (int64_t i = 0; i < projections; ++i) in.projections.push_back(draw({size.b, size.h, size.n, size.d}));
    for (int64_t i = 1; i < projections; ++i) {
      AdditiveStage stage{draw({size.h, full ? size.h * size.d : size.d})};
      if (full) stage.bias = draw({size.h});
      if (interaction == Interaction::concat) stage.concat_weight = draw({size.h, 2 * size.d, size.d});
      in.stages.push_back(stage);
    }
    return in;
  }

  Registry& registry_;
  Generator generator_{17};
};

}  // namespace linnet::test
