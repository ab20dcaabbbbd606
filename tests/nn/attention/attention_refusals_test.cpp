#include <doctest/doctest.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"

using namespace linnet;
using test::AttentionModel;

TEST_CASE("attention: what cannot be is refused") {
  Generator rng(13);
  const auto refused = [&](const nn::AttentionConfig& config, const char* because) {
    CHECK_THROWS_WITH_AS(AttentionModel(rng, config), doctest::Contains(because), ValueError);
  };
  refused(
      {.mechanism = "nonesuch", .width = 8},
      "no attention is called 'nonesuch'; choose one of softmax, fastmax1, fastmax2, fastformer, linear, performer, "
      "linformer, longformer, bigbird, poolingformer, reformer, informer");
  refused({.mechanism = "softmax", .width = 8, .heads = 3}, "number of heads must divide the width");
  refused({.mechanism = "fastformer", .width = 8, .options = nn::FastformerConfig{.projections = 1}},
          "1 projections; it takes at least 2");
  refused({.mechanism = "fastformer",
           .width = 8,
           .options = nn::FastformerConfig{.share_heads = true, .full_logits = true}},
          "choose one");
  refused(
      {.mechanism = "softmax", .width = 8, .options = nn::FastformerConfig{.interaction = Interaction::add}},
      "softmax has none of the options of fastformer (fastformer_interaction, share, projections); leave them out");
  refused({.mechanism = "fastmax2", .width = 8, .options = nn::FastformerConfig{.share_heads = true}},
          "fastmax2 has none of the options of fastformer");
  refused({.mechanism = "fastmax1", .width = 8, .options = nn::FastformerConfig{.full_logits = true}},
          "fastmax1 has none of the options of fastformer");
  refused({.mechanism = "softmax", .width = 8, .options = nn::FastformerConfig{.projections = 4}},
          "softmax has none of the options of fastformer");
  refused({.mechanism = "softmax", .width = 8, .short_conv = -1},
          "short_conv is -1; it must be at least 1, or 0 for none");
  refused({.mechanism = "fastformer", .width = 8, .rotary = true}, "fastformer has no rotary positions");
  refused({.mechanism = "linear", .width = 8, .rotary = true}, "linear has no rotary positions");
  refused(
      {.mechanism = "linear",
       .width = 8,
       .options = nn::LinearAttentionConfig{.dropout_kind = FastmaxDropout::quadratic}},
      "quadratic dropout does not apply to linear attention, which drops whole queries and keys alone; use token");
  refused({.mechanism = "performer", .width = 8, .rotary = true}, "performer has no rotary positions");
  refused({.mechanism = "performer",
           .width = 8,
           .options = nn::PerformerConfig{.dropout_kind = FastmaxDropout::standard}},
          "standard dropout does not apply to performer, which drops whole queries and keys alone; use token");
  refused({.mechanism = "performer", .width = 8, .options = nn::PerformerConfig{.features = 0}},
          "0 features; it takes at least 1");
  refused({.mechanism = "performer", .width = 8, .options = nn::PerformerConfig{.redraw = -1}},
          "performer_redraw is -1; it must be at least 1, or 0 for never");
  refused({.mechanism = "performer", .width = 8, .options = nn::LinearAttentionConfig{}},
          "performer has none of the options of linear");
  refused({.mechanism = "linear", .width = 8, .options = nn::FastmaxConfig{.form = FastmaxForm::quadratic}},
          "linear has none of the options of fastmax1");
  refused({.mechanism = "linformer", .width = 8, .causal = true},
          "linformer has no causal form (each of its slots mixes all tokens); choose one of softmax, fastmax1, "
          "fastmax2, fastformer, linear, performer, longformer, poolingformer, reformer");
  refused({.mechanism = "informer", .width = 8, .causal = true},
          "informer has no causal form (whether it chooses a query depends on later ones); choose one of softmax");
  refused(
      {.mechanism = "bigbird", .width = 8, .causal = true},
      "bigbird has no causal form (every block sees the last one, and the first sees all); choose one of softmax");
  refused({.mechanism = "bigbird", .width = 8, .causal = true, .make = nn::maker<nn::BigBirdAttention>()},
          "bigbird has no causal form; leave it out");
  refused({.mechanism = "linformer", .width = 8, .max_tokens = -1},
          "linformer projects a number of tokens that is fixed, but max_tokens is -1; set it to the model's longest "
          "sequence");
  refused({.mechanism = "linformer", .width = 8, .max_tokens = 9, .options = nn::LinformerConfig{.rank = 10}},
          "linformer_rank is 10, above the 9 tokens that max_tokens allows");
  refused({.mechanism = "linformer", .width = 8, .options = nn::LinformerConfig{.rank = -1}},
          "linformer_rank is -1; it must be at least 1, or 0 for 64");
  refused(
      {.mechanism = "linformer", .width = 8, .options = nn::LinformerConfig{.share = nn::LinformerShare::layerwise}},
      "layers share one projection, which is not there; set `shared` to what make_shared_parameter returns");
  refused({.mechanism = "informer", .width = 8, .options = nn::InformerConfig{.factor = 0}},
          "informer_factor is 0; it must be at least 1");
  refused({.mechanism = "informer", .width = 8, .options = nn::InformerConfig{.queries = -1}},
          "informer_queries is -1; it must be at least 1, or 0 for a number that grows with the tokens");
  for (const char* mechanism : {"linformer", "informer"}) {
    refused({.mechanism = mechanism, .width = 8, .rotary = true}, "has no rotary positions");
  }
  refused({.mechanism = "informer", .width = 8, .options = nn::LinformerConfig{}},
          "informer has none of the options of linformer (linformer_rank, linformer_share); leave them out");
  refused({.mechanism = "linformer", .width = 8, .options = nn::InformerConfig{}},
          "linformer has none of the options of informer (informer_factor, informer_queries); leave them out");
  refused({.mechanism = "softmax", .width = 8, .options = nn::LinearAttentionConfig{}},
          "softmax has none of the options of linear (dropout_kind); leave them out");
  refused({.mechanism = "fastmax1", .width = 8, .options = nn::FastmaxConfig{.scale = FastmaxScale::paper}},
          "weights must be positive");
  refused(
      {.mechanism = "softmax", .width = 8, .options = nn::FastmaxConfig{.scale = FastmaxScale::paper}},
      "softmax has none of the options of fastmax1 (fastmax_scale, fastmax_form, dropout_kind, dropout_normaliser)");
  refused({.mechanism = "fastformer", .width = 8, .options = nn::FastmaxConfig{.scale = 99.0}},
          "fastformer has none of the options of fastmax1");
  refused({.mechanism = "softmax", .width = 8, .options = nn::FastmaxConfig{.form = FastmaxForm::factorised}},
          "softmax has none of the options of fastmax1");
  refused(
      {.mechanism = "softmax", .width = 8, .options = nn::FastmaxConfig{.dropout_kind = FastmaxDropout::quadratic}},
      "softmax has none of the options of fastmax1");
  refused({.mechanism = "fastformer",
           .width = 8,
           .options = nn::FastmaxConfig{.dropout_normaliser = FastmaxNormaliser::shared}},
          "fastformer has none of the options of fastmax1");
  refused({.mechanism = "softmax", .width = 8, .options = 3}, "of a type that no mechanism takes; leave them out");
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    for (const double rate : {1.0, 1.5, -3.0, std::nan("")}) {
      refused({.mechanism = mechanism, .width = 8, .dropout = rate}, "; it must be in [0, 1)");
    }
  }
  for (const char* mechanism : {"softmax", "fastmax2"}) {
    refused({.mechanism = mechanism, .width = 9, .heads = 3, .rotary = true},
            "rotary positions turn pairs of numbers, but a head has 3");
  }
  refused({.mechanism = "fastmax1",
           .width = 8,
           .dropout = 0.1,
           .options = nn::FastmaxConfig{.dropout_kind = FastmaxDropout::quadratic}},
          "dropout 0.1 of quadratic features does nothing to weights that have none");
  refused({.mechanism = "fastmax2",
           .width = 8,
           .dropout = 0.1,
           .options = nn::FastmaxConfig{.form = FastmaxForm::quadratic}},
          "quadratic dropout needs the features of the factorised form");

  const AttentionModel model(rng, {.mechanism = "softmax", .width = 8, .heads = 2, .causal = true});
  const nn::Attention& attention = *model.attention;
  const auto f64 = DType::float64;
  CHECK_THROWS_WITH_AS(attention(zeros({2, 8}, f64)),
                       doctest::Contains("attention (softmax attention, width 8, heads 2): x should be"), ShapeError);
  CHECK_THROWS_WITH_AS(attention(zeros({2, 3, 8}, f64), zeros({2, 3}, f64)),
                       doctest::Contains("padding_mask should be bool [2, 3]"), ShapeError);
  const auto state = attention.start();
  attention.step(*state, zeros({2, 8}, f64));
  CHECK_THROWS_WITH_AS(attention.step(*state, zeros({3, 8}, f64)), doctest::Contains("start() a new state"),
                       ShapeError);
  const AttentionModel other(rng, {.mechanism = "fastmax2", .width = 8, .causal = true});
  CHECK_THROWS_WITH_AS(other.attention->step(*state, zeros({2, 8}, f64)), doctest::Contains("another attention"),
                       ValueError);
  const AttentionModel twin(rng, {.mechanism = "softmax", .width = 8, .heads = 2, .causal = true});
  CHECK_THROWS_WITH_AS(twin.attention->step(*state, zeros({2, 8}, f64)), doctest::Contains("another attention"),
                       ValueError);
  const AttentionModel full(rng, {.mechanism = "softmax", .width = 8});
  CHECK_THROWS_WITH_AS(full.attention->start(), doctest::Contains("only causal attention has a step form"),
                       ValueError);
}
