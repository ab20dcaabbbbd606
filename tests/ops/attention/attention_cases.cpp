#include "tests/ops/attention/attention_cases.h"

namespace linnet::test {
namespace {

/// In the first sequence the first and last token are hidden, in the second all.
Tensor padding(int64_t tokens) {
  Tensor padding_mask = ones({2, tokens}, DType::boolean);
  const auto kept = padding_mask.mutable_data<bool>();
  kept[0] = kept[tokens - 1] = false;
  for (int64_t i = 0; i < tokens; ++i) kept[tokens + i] = false;
  return padding_mask.to(case_device());
}

void add_softmax_cases(AttentionCases& cases) {
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
  cases.add("softmax_attention", "dropout, causal padding", cases.heads({2, 2, 5, 5, 3}),
            [](const AttentionCases::Inputs& in) {
              Generator generator(3);
              return softmax_attention(
                  in[0], in[1], in[2],
                  {.causal = true, .padding_mask = padding(5), .dropout = 0.4, .generator = &generator});
            });
}

void add_mask_cases(AttentionCases& cases) {
  const auto biased = [](const AttentionCases::Inputs& in) {
    Generator generator(3);
    return softmax_attention(
        in[0], in[1], in[2],
        {.causal = true, .padding_mask = padding(5), .attn_mask = in[3], .dropout = 0.4, .generator = &generator});
  };
  AttentionCases::Inputs inputs = cases.heads({2, 2, 3, 5, 3});
  inputs.push_back(cases.draw({2, 1, 5}));
  cases.add("softmax_attention", "bias, dropout, causal padding", inputs, biased, true);
  const auto masked = [](const AttentionCases::Inputs& in) {
    const Tensor seen = gt(tensor({1.0, 1.0, 0.0}), 0).to(case_device());
    return softmax_attention(in[0], in[1], in[2], {.attn_mask = seen});
  };
  cases.add("softmax_attention", "mask of pairs", cases.heads({1, 2, 3, 3, 2}), masked, true);
}

void add_factorised_cases(AttentionCases& cases) {
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
        // So few that no denominator is nearly 0; with such a denominator only rounding errors would be compared.
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

void add_fastmax_cases(AttentionCases& cases) {
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
      [](const AttentionCases::Inputs& in) {
        return fastmax(in[0], in[1], in[2], {.causal = true, .form = FastmaxForm::reference});
      },
      true);
}

void add_linear_cases(AttentionCases& cases) {
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

void add_linformer_cases(AttentionCases& cases) {
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

void add_informer_cases(AttentionCases& cases) {
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

void add_performer_cases(AttentionCases& cases) {
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

void add_fastformer_cases(AttentionCases& cases) {
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

void add_weights_cases(AttentionCases& cases) {
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
  AttentionCases cases(registry);
  add_softmax_cases(cases);
  add_fastmax_cases(cases);
  add_linear_cases(cases);
  add_performer_cases(cases);
  add_fastformer_cases(cases);
  add_weights_cases(cases);
  add_linformer_cases(cases);
  add_informer_cases(cases);
  add_mask_cases(cases);
  registry.exempt.emplace_back("fastmax_scale", "returns a number");
  registry.exempt.emplace_back("fastmax_form", "returns a choice");
  registry.exempt.emplace_back("informer_queries", "returns a number");
  registry.exempt.emplace_back("performer_features", "returns a number");
  registry.exempt.emplace_back("performer_projection", "its result depends on the generator alone");
}

}  // namespace linnet::test
