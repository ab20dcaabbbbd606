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
namespace {

using Inputs = std::vector<Tensor>;

/// Batch, heads, tokens of the queries and of the keys, width.
struct Size {
  int64_t b, h, n, m, d;
};

class Cases {
 public:
  explicit Cases(Registry& registry) : registry_(registry) {}

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

  /// Without values: the weights that they would get.
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
          Generator generator(7);  // keeps the keys where a test puts a NaN: a weight of 0 has no gradient
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

  /// With projections of up to `most` tokens to `slots`.
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

  /// Ω is no input: it has no gradient. Its numbers are those of float32.
  static Tensor omega(const Size& size) {
    Generator generator(8);
    return performer_projection(size.d + 2, size.d, generator);
  }
  /// Ω for inputs of a dtype, which a test may have converted.
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

  Tensor draw(const Shape& shape) { return randn(shape, generator_, DType::float64); }

  Registry& registry_;
  Generator generator_{17};
};

/// The first sequence lacks its first and last token, the second one all.
Tensor padding(int64_t tokens) {
  Tensor padding_mask = ones({2, tokens}, DType::boolean);
  const auto kept = padding_mask.mutable_data<bool>();
  kept[0] = kept[tokens - 1] = false;
  for (int64_t i = 0; i < tokens; ++i) kept[tokens + i] = false;
  return padding_mask.to(case_device());
}

void add_softmax_cases(Cases& cases) {
  cases.softmax("full", {2, 2, 5, 5, 3});
  cases.softmax("causal", {2, 2, 5, 5, 3}, {.causal = true});
  cases.softmax("scale", {1, 2, 4, 4, 3}, {.scale = 0.3});
  cases.softmax("padding", {2, 2, 5, 5, 3}, {.padding_mask = padding(5)});
  cases.softmax("causal padding", {2, 2, 5, 5, 3}, {.causal = true, .padding_mask = padding(5)});
  cases.softmax("more keys than queries, causal", {1, 2, 3, 5, 2}, {.causal = true});
  cases.softmax("more queries than keys, causal", {1, 2, 5, 3, 2}, {.causal = true});
  cases.softmax("two blocks, causal", {1, 1, 67, 67, 2}, {.causal = true});
  cases.softmax("size 1", {1, 1, 1, 1, 1});
  cases.softmax("no queries", {2, 1, 0, 3, 2});
  cases.softmax("no keys", {2, 1, 3, 0, 2});
  cases.softmax("no batch", {0, 2, 3, 3, 2});
  cases.softmax("no width", {1, 2, 3, 3, 0});
  cases.add("softmax_attention", "dropout, causal padding", cases.heads({2, 2, 5, 5, 3}), [](const Inputs& in) {
    Generator generator(3);
    return softmax_attention(in[0], in[1], in[2],
                             {.causal = true, .padding_mask = padding(5), .dropout = 0.4, .generator = &generator});
  });
}

void add_factorised_cases(Cases& cases) {
  const auto form = FastmaxForm::factorised;
  const auto root = FastmaxScale::sqrt;
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? " factorised causal" : " factorised";
    cases.fastmax("order 2" + suffix, {2, 2, 5, 5, 3}, {.causal = causal, .form = form});
    cases.fastmax("order 1" + suffix, {2, 2, 5, 5, 3}, {.order = 1, .causal = causal, .form = form});
    cases.fastmax("padding" + suffix, {2, 2, 5, 5, 3},
                  {.scale = root, .causal = causal, .padding_mask = padding(5), .form = form});
    cases.fastmax("not normalised" + suffix, {1, 2, 4, 4, 3},
                  {.normalisation = FastmaxNormalisation::none, .scale = 0.7, .causal = causal, .form = form});
    cases.fastmax("coefficients" + suffix, {1, 2, 4, 4, 3},
                  {.coefficients = {{1.5, -0.4, 0.3}}, .scale = root, .causal = causal, .form = form});
    cases.fastmax("more keys than queries" + suffix, {1, 1, 2, 4, 3}, {.causal = causal, .form = form});
    cases.fastmax("more queries than keys" + suffix, {1, 1, 4, 2, 3}, {.causal = causal, .form = form});
    cases.fastmax("two tiles" + suffix, {1, 1, 67, 67, 4}, {.causal = causal, .form = form});
    cases.fastmax("size 1" + suffix, {1, 1, 1, 1, 1}, {.causal = causal, .form = form});
    for (const auto denominator : {FastmaxNormaliser::clean, FastmaxNormaliser::shared}) {
      const std::string shared = denominator == FastmaxNormaliser::shared ? " shared" : "";
      for (const auto& [kind, name] : {std::pair{FastmaxDropout::quadratic, "quadratic"},
                                       {FastmaxDropout::standard, "standard"},
                                       {FastmaxDropout::token, "token"}}) {
        FastmaxOptions options{
            .scale = FastmaxScale::unit, .causal = causal, .padding_mask = padding(5), .form = form};
        // Few enough that no denominator nearly vanishes: one that does leaves nothing but rounding to compare.
        options.dropout = 0.1;
        options.dropout_kind = kind;
        options.dropout_normaliser = denominator;
        cases.dropped_fastmax(name + (" dropout" + shared + suffix), {2, 2, 5, 5, 3}, options);
        options.padding_mask = {};
        cases.dropped_fastmax(name + (" dropout, two tiles" + shared + suffix), {1, 1, 67, 67, 4}, options);
      }
    }
    FastmaxOptions options{
        .scale = root, .causal = causal, .padding_mask = padding(5), .form = FastmaxForm::quadratic};
    options.dropout = 0.3;
    options.dropout_kind = FastmaxDropout::token;
    cases.dropped_fastmax("token dropout, quadratic form" + suffix, {2, 2, 5, 5, 3}, options);
    options.dropout_normaliser = FastmaxNormaliser::shared;
    cases.dropped_fastmax("token dropout, shared, quadratic form" + suffix, {2, 2, 5, 5, 3}, options);
  }
}

void add_fastmax_cases(Cases& cases) {
  cases.fastmax("order 2", {2, 2, 5, 5, 3});
  cases.fastmax("order 1", {2, 2, 5, 5, 3}, {.order = 1});
  cases.fastmax("order 1 causal", {2, 2, 5, 5, 3}, {.order = 1, .causal = true});
  cases.fastmax("sqrt causal padding", {2, 2, 5, 5, 3},
                {.scale = FastmaxScale::sqrt, .causal = true, .padding_mask = padding(5)});
  cases.fastmax("padding", {2, 2, 5, 5, 3}, {.padding_mask = padding(5)});
  cases.fastmax("not normalised", {1, 2, 4, 4, 3}, {.normalisation = FastmaxNormalisation::none, .scale = 0.7});
  cases.fastmax("coefficients", {1, 2, 4, 4, 3}, {.coefficients = {{1.5, -0.4, 0.3}}, .scale = FastmaxScale::sqrt});
  cases.fastmax("more keys than queries, causal", {1, 1, 2, 4, 3}, {.causal = true});
  cases.fastmax("size 1", {1, 1, 1, 1, 1});
  cases.fastmax("no queries", {2, 1, 0, 3, 2});
  cases.fastmax("no keys", {2, 1, 3, 0, 2});
  add_factorised_cases(cases);
  cases.add(
      "fastmax", "reference", cases.heads({1, 2, 3, 4, 2}),
      [](const Inputs& in) { return fastmax(in[0], in[1], in[2], {.causal = true, .form = FastmaxForm::reference}); },
      true);
}

void add_linear_cases(Cases& cases) {
  for (const bool causal : {false, true}) {
    for (const FastmaxForm form :
         {FastmaxForm::automatic, FastmaxForm::quadratic, FastmaxForm::factorised, FastmaxForm::reference}) {
      const std::string suffix = std::string(form == FastmaxForm::automatic    ? ""
                                             : form == FastmaxForm::quadratic  ? ", quadratic"
                                             : form == FastmaxForm::factorised ? ", factorised"
                                                                               : ", reference") +
                                 (causal ? ", causal" : "");
      LinearAttentionOptions options{.causal = causal, .form = form};
      cases.linear("all" + suffix, {2, 2, 5, 5, 3}, options);
      cases.linear("more keys than queries" + suffix, {1, 1, 2, 4, 3}, options);
      cases.linear("more queries than keys" + suffix, {1, 1, 4, 2, 3}, options);
      cases.linear("size 1" + suffix, {1, 1, 1, 1, 1}, options);
      cases.linear("no queries" + suffix, {2, 1, 0, 3, 2}, options);
      cases.linear("no keys" + suffix, {2, 1, 3, 0, 2}, options);
      if (form != FastmaxForm::reference) cases.linear("two tiles" + suffix, {1, 1, 67, 67, 4}, options);
      options.padding_mask = padding(5);
      cases.linear("padding" + suffix, {2, 2, 5, 5, 3}, options);
      if (form == FastmaxForm::reference) continue;
      options.dropout = 0.2;
      cases.linear("dropout, padding" + suffix, {2, 2, 5, 5, 3}, options);
      options.padding_mask = {};
      cases.linear("dropout, two tiles" + suffix, {1, 1, 67, 67, 4}, options);
    }
  }
}

void add_linformer_cases(Cases& cases) {
  cases.linformer("all", {2, 2, 5, 5, 3}, 4, 5);
  cases.linformer("fewer tokens than columns", {2, 2, 5, 5, 3}, 4, 7);
  cases.linformer("as many slots as tokens", {1, 2, 4, 4, 3}, 4, 4);
  cases.linformer("scale", {1, 2, 4, 4, 3}, 2, 4, {.scale = 0.3});
  cases.linformer("more keys than queries", {1, 2, 2, 4, 3}, 3, 4);
  cases.linformer("padding", {2, 2, 5, 5, 3}, 4, 7, {.padding_mask = padding(5)});
  cases.linformer("dropout, padding", {2, 2, 5, 5, 3}, 4, 7, {.padding_mask = padding(5), .dropout = 0.4});
  cases.linformer("size 1", {1, 1, 1, 1, 1}, 1, 1);
  cases.linformer("no queries", {2, 1, 0, 3, 2}, 2, 3);
  cases.linformer("no keys", {2, 1, 3, 0, 2}, 2, 3);
  cases.linformer("no batch", {0, 2, 3, 3, 2}, 2, 3);
  cases.linformer_weights("all", {2, 2, 5, 5, 3}, 4, 7);
  cases.linformer_weights("padding", {2, 2, 5, 5, 3}, 4, 7, {.padding_mask = padding(5), .scale = 0.3});
  cases.linformer_weights("size 1", {1, 1, 1, 1, 1}, 1, 1);
  cases.linformer_weights("no keys", {2, 1, 3, 0, 2}, 2, 3);
}

void add_informer_cases(Cases& cases) {
  const Tensor samples = tensor<int64_t>({0, 3, 3, 1, 4, 2, 5, 5, 0, 1, 2, 6, 6, 3, 1, 4}).reshape({8, 2});
  cases.informer("all chosen", {2, 2, 5, 5, 3});
  cases.informer("factor 1", {2, 2, 8, 8, 3}, {.factor = 1});
  cases.informer("queries", {2, 2, 8, 8, 3}, {.queries = 5});
  cases.informer("samples", {2, 2, 8, 8, 3}, {.samples = samples.to(case_device())});
  cases.informer("padding", {2, 2, 8, 8, 3}, {.queries = 3, .padding_mask = padding(8)});
  cases.informer("factor 1, padding", {2, 2, 8, 8, 3}, {.factor = 1, .padding_mask = padding(8)});
  cases.informer("samples, padding", {2, 2, 8, 8, 3},
                 {.padding_mask = padding(8), .samples = clamp(samples, 1, 6).to(case_device())});
  cases.informer("dropout", {2, 2, 8, 8, 3}, {.queries = 3, .dropout = 0.3});
  cases.informer("dropout, padding", {2, 2, 8, 8, 3}, {.queries = 3, .padding_mask = padding(8), .dropout = 0.3});
  cases.informer("more samples than one stream", {1, 1, 40, 40, 2});
  cases.informer("size 1", {1, 1, 1, 1, 1});
  cases.informer("no tokens", {2, 1, 0, 0, 2});
  cases.informer("no batch", {0, 2, 8, 8, 2}, {.queries = 3});
  cases.informer("no width", {1, 2, 8, 8, 0}, {.queries = 3});
  cases.informer_weights("all chosen", {2, 2, 5, 5, 3});
  cases.informer_weights("queries", {2, 2, 8, 8, 3}, {.queries = 3});
  cases.informer_weights("padding", {2, 2, 8, 8, 3}, {.queries = 3, .padding_mask = padding(8)});
  cases.informer_weights("size 1", {1, 1, 1, 1, 1});
  cases.informer_weights("no tokens", {2, 1, 0, 0, 2});
}

void add_performer_cases(Cases& cases) {
  cases.performer_log("features", {2, 1, 3, 0, 4});
  cases.performer_log("features, empty", {2, 1, 0, 0, 4});
  cases.performer_log("features, size 1", {1, 1, 1, 0, 1});
  for (const bool causal : {false, true}) {
    for (const PerformerForm form : {PerformerForm::automatic, PerformerForm::composed, PerformerForm::reference}) {
      const std::string suffix = std::string(form == PerformerForm::automatic  ? ""
                                             : form == PerformerForm::composed ? ", composed"
                                                                               : ", reference") +
                                 (causal ? ", causal" : "");
      PerformerAttentionOptions options{.causal = causal, .form = form};
      cases.performer("all" + suffix, {2, 2, 5, 5, 3}, options);
      cases.performer("more keys than queries" + suffix, {1, 1, 2, 4, 3}, options);
      cases.performer("more queries than keys" + suffix, {1, 1, 4, 2, 3}, options);
      cases.performer("size 1" + suffix, {1, 1, 1, 1, 1}, options);
      cases.performer("no queries" + suffix, {2, 1, 0, 3, 2}, options);
      cases.performer("no keys" + suffix, {2, 1, 3, 0, 2}, options);
      if (form == PerformerForm::automatic) cases.performer("two tiles" + suffix, {1, 1, 67, 67, 4}, options);
      options.padding_mask = padding(5);
      cases.performer("padding" + suffix, {2, 2, 5, 5, 3}, options);
      options.dropout = 0.2;
      cases.performer("dropout, padding" + suffix, {2, 2, 5, 5, 3}, options);
    }
  }
}

void add_fastformer_cases(Cases& cases) {
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? " causal" : "";
    cases.pool("all" + suffix, {2, 2, 5, 5, 3}, {.causal = causal});
    cases.pool("padding" + suffix, {2, 2, 5, 5, 3}, {.causal = causal, .padding_mask = padding(5)});
    cases.pool("size 1" + suffix, {1, 1, 1, 1, 1}, {.causal = causal});
    cases.pool("no tokens" + suffix, {2, 1, 0, 0, 2}, {.causal = causal});
    for (const Interaction interaction : {Interaction::product, Interaction::add, Interaction::concat}) {
      const std::string kind = interaction == Interaction::product ? "product"
                               : interaction == Interaction::add   ? "add"
                                                                   : "concat";
      AdditiveAttentionOptions options{.interaction = interaction, .causal = causal};
      cases.additive(kind + suffix, {2, 2, 5, 5, 3}, options);
      cases.additive(kind + " two projections" + suffix, {1, 2, 4, 4, 2}, options, 2);
      cases.additive(kind + " four projections" + suffix, {1, 2, 4, 4, 2}, options, 4);
      cases.additive(kind + " full" + suffix, {2, 2, 4, 4, 3}, options, 3, true);
      cases.additive(kind + " size 1" + suffix, {1, 1, 1, 1, 1}, options);
      cases.additive(kind + " no tokens" + suffix, {2, 1, 0, 0, 2}, options);
      cases.additive(kind + " no batch" + suffix, {0, 2, 3, 3, 2}, options);
      cases.additive(kind + " no heads" + suffix, {2, 0, 3, 3, 2}, options);
      cases.additive(kind + " no width" + suffix, {1, 2, 3, 3, 0}, options);
      options.padding_mask = padding(5);
      cases.additive(kind + " padding" + suffix, {2, 2, 5, 5, 3}, options);
      options.dropout = 0.4;
      cases.additive(kind + " dropout padding" + suffix, {2, 2, 5, 5, 3}, options);
    }
    for (const int64_t taps : {1, 3, 4, 7}) {
      cases.short_conv(std::to_string(taps) + " taps" + suffix, {2, 5, 3}, taps, {.causal = causal});
    }
    cases.short_conv("padding" + suffix, {2, 5, 3}, 3, {.causal = causal, .padding_mask = padding(5)});
    cases.short_conv("pieces of the tokens" + suffix, {2, 70, 2}, 3, {.causal = causal});
    cases.short_conv("size 1" + suffix, {1, 1, 1}, 1, {.causal = causal});
    cases.short_conv("no tokens" + suffix, {2, 0, 3}, 4, {.causal = causal});
    cases.short_conv("no width" + suffix, {2, 3, 0}, 4, {.causal = causal});
  }
}

void add_weights_cases(Cases& cases) {
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? " causal" : "";
    cases.softmax_weights("all" + suffix, {2, 2, 5, 5, 3}, {.causal = causal});
    cases.softmax_weights("padding" + suffix, {2, 2, 5, 5, 3}, {.causal = causal, .padding_mask = padding(5)});
    cases.softmax_weights("more keys than queries" + suffix, {1, 2, 3, 5, 2}, {.causal = causal, .scale = 0.3});
    cases.softmax_weights("size 1" + suffix, {1, 1, 1, 1, 1}, {.causal = causal});
    cases.softmax_weights("no keys" + suffix, {2, 1, 3, 0, 2}, {.causal = causal});
    cases.linear_weights("all" + suffix, {2, 2, 5, 5, 3}, {.causal = causal});
    cases.linear_weights("padding" + suffix, {2, 2, 5, 5, 3}, {.causal = causal, .padding_mask = padding(5)});
    cases.linear_weights("more keys than queries" + suffix, {1, 2, 3, 5, 2}, {.causal = causal});
    cases.linear_weights("size 1" + suffix, {1, 1, 1, 1, 1}, {.causal = causal});
    cases.linear_weights("no keys" + suffix, {2, 1, 3, 0, 2}, {.causal = causal});
    cases.performer_weights("all" + suffix, {2, 2, 5, 5, 3}, {.causal = causal});
    cases.performer_weights("padding" + suffix, {2, 2, 5, 5, 3}, {.causal = causal, .padding_mask = padding(5)});
    cases.performer_weights("more keys than queries" + suffix, {1, 2, 3, 5, 2}, {.causal = causal});
    cases.performer_weights("size 1" + suffix, {1, 1, 1, 1, 1}, {.causal = causal});
    cases.performer_weights("no keys" + suffix, {2, 1, 3, 0, 2}, {.causal = causal});
    cases.fastmax_weights("order 2" + suffix, {1, 2, 4, 4, 3}, {.causal = causal});
    cases.fastmax_weights("order 1" + suffix, {1, 2, 4, 4, 3}, {.order = 1, .causal = causal});
    cases.fastmax_weights("padding" + suffix, {2, 1, 5, 5, 3},
                          {.scale = FastmaxScale::sqrt, .causal = causal, .padding_mask = padding(5)});
    cases.fastmax_weights("size 1" + suffix, {1, 1, 1, 1, 1}, {.causal = causal});
    cases.fastmax_weights("no keys" + suffix, {2, 1, 3, 0, 2}, {.causal = causal});
    for (const Interaction interaction : {Interaction::product, Interaction::concat}) {
      const std::string kind = (interaction == Interaction::product ? "product" : "concat") + suffix;
      cases.additive_weights(kind, {1, 2, 4, 4, 3}, {.interaction = interaction, .causal = causal});
      cases.additive_weights(kind + " padding", {2, 1, 5, 5, 2},
                             {.interaction = interaction, .causal = causal, .padding_mask = padding(5)});
      cases.additive_weights(kind + " no tokens", {2, 1, 0, 0, 2}, {.interaction = interaction, .causal = causal});
    }
  }
}

}  // namespace

void add_attention_cases(Registry& registry) {
  Cases cases(registry);
  add_softmax_cases(cases);
  add_fastmax_cases(cases);
  add_linear_cases(cases);
  add_performer_cases(cases);
  add_fastformer_cases(cases);
  add_weights_cases(cases);
  add_linformer_cases(cases);
  add_informer_cases(cases);
  registry.exempt.emplace_back("fastmax_scale", "returns a number");
  registry.exempt.emplace_back("fastmax_form", "returns a choice");
  registry.exempt.emplace_back("informer_queries", "returns a number");
  registry.exempt.emplace_back("performer_features", "returns a number");
  registry.exempt.emplace_back("performer_projection", "its result depends on the generator alone");
}

}  // namespace linnet::test
