#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include <linnet/linnet.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using linnet::test::largest_difference;
using linnet::test::same_bits;

namespace {

nn::EncoderDecoderConfig small_model(const std::string& encoder = "softmax", const std::string& decoder = "softmax",
                                     const std::string& cross = "softmax") {
  return {.vocabulary = 11,
          .source_tokens = 40,
          .target_tokens = 12,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .block = {.attention = {.mechanism = encoder, .width = 8, .heads = 2}, .hidden = 12},
          .decoder = {.mechanism = decoder},
          .cross = {.mechanism = cross}};
}

/// Options for which 20 tokens are many.
std::any options_for_few_tokens(const std::string& mechanism) {
  if (mechanism == "linformer") return nn::LinformerConfig{.rank = 4};
  if (mechanism == "longformer") return nn::LongformerConfig{.window = 4};
  if (mechanism == "bigbird") return nn::BigBirdConfig{.block = 2};
  if (mechanism == "poolingformer") return nn::PoolingformerConfig{.window = 4, .window2 = 8};
  if (mechanism == "reformer") return nn::ReformerConfig{.hashes = 2, .chunk = 4};
  if (mechanism == "informer") return nn::InformerConfig{.factor = 1};
  return {};
}

/// Every mechanism in the encoder, every causal one in the decoder, and every one with cross-attention between them.
std::vector<nn::EncoderDecoderConfig> all_configs() {
  std::vector<nn::EncoderDecoderConfig> all;
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    all.push_back(small_model(mechanism));
    all.back().block.attention.options = options_for_few_tokens(mechanism);
  }
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    all.push_back(small_model("softmax", mechanism));
    all.back().decoder.options = options_for_few_tokens(mechanism);
  }
  for (const std::string& mechanism : nn::cross_mechanisms()) {
    all.push_back(small_model("softmax", "softmax", mechanism));
    all.back().cross.options = options_for_few_tokens(mechanism);
  }
  return all;
}

std::string names_of(const nn::EncoderDecoderConfig& config) {
  return config.block.attention.mechanism + ", " + config.decoder.mechanism + ", " + config.cross.mechanism;
}

/// True for the first tokens of each source, as many as `lengths` says, of N.
Tensor source_mask_of(const std::vector<int64_t>& lengths, int64_t tokens) {
  return lt(arange(tokens).unsqueeze(0), tensor(lengths).unsqueeze(1));
}

/// The logits of a batch, and the gradients of their loss.
std::vector<Tensor> logits_and_gradients(const nn::EncoderDecoder& model, const Tensor& source, const Tensor& mask,
                                         const Tensor& target) {
  const Tensor logits = model(source, mask, target);
  backward(cross_entropy(logits, zeros(target.shape(), DType::int64)));
  std::vector<Tensor> results{logits.detach()};
  for (Tensor parameter : model.parameters()) {
    REQUIRE(parameter.grad().defined());
    results.push_back(parameter.grad());
    parameter.set_grad({});
  }
  return results;
}

/// The logits of the step form, token by token.
Tensor by_steps(const nn::EncoderDecoder& model, const Tensor& source, const Tensor& mask, const Tensor& target) {
  nn::EncoderDecoderState state = model.start(source, mask);
  std::vector<Tensor> logits;
  for (int64_t t = 0; t < target.size(1); ++t) logits.push_back(model.step(state, target.select(1, t)));
  CHECK(state.tokens == target.size(1));
  return stack(logits, 1);
}

}  // namespace

TEST_CASE("EncoderDecoder: names, sizes and settings") {
  Generator rng(1);
  nn::EncoderDecoderConfig config = small_model("linformer", "fastmax1", "linformer");
  config.block.attention.options = config.cross.options =
      nn::LinformerConfig{.rank = 4, .share = nn::LinformerShare::layerwise};
  config.block.attention.dropout = 0.25;
  const nn::EncoderDecoder model(rng, config);
  const TensorMap state = model.state();
  CHECK(state.at("tok.weight").shape() == Shape{11, 8});
  CHECK(state.at("source_pos.weight").shape() == Shape{40, 8});
  CHECK(state.at("target_pos.weight").shape() == Shape{12, 8});
  CHECK(state.at("shared_attention").shape() == Shape{4, 40});
  CHECK(state.at("shared_cross").shape() == Shape{4, 40});
  CHECK(state.contains("decoder.1.cross.qkv.weight"));
  CHECK_FALSE(state.contains("decoder.2.norm1.weight"));
  CHECK_FALSE(state.contains("decoder.0.cross.e"));
  CHECK(model.config().decoder.width == 8);
  CHECK(model.config().decoder.dropout == 0.25);
  CHECK(model.config().decoder.max_tokens == 12);
  CHECK(model.config().cross.max_tokens == 40);

  config = small_model();
  config.share_layers = true;
  const nn::EncoderDecoder shared(rng, config);
  CHECK_FALSE(shared.state().contains("encoder.1.norm1.weight"));
  CHECK_FALSE(shared.state().contains("decoder.1.norm1.weight"));
  std::map<std::string, std::string> settings;
  for (const nn::Setting& setting : shared.settings()) settings[setting.name] = setting.value;
  CHECK(settings == std::map<std::string, std::string>{{"vocabulary", "11"},
                                                       {"source_tokens", "40"},
                                                       {"target_tokens", "12"},
                                                       {"encoder_layers", "2"},
                                                       {"decoder_layers", "2"},
                                                       {"share_layers", "true"}});
  const Tensor source = randint(0, 11, {2, 5}, rng), target = randint(0, 11, {2, 4}, rng);
  CHECK(largest_difference(by_steps(shared, source, {}, target), shared(source, {}, target)) < 1e-5);
}

TEST_CASE("EncoderDecoder: every mechanism learns, and what padding holds changes no bit") {
  for (const nn::EncoderDecoderConfig& each : all_configs()) {
    for (const bool training : {false, true}) {
      CAPTURE(names_of(each));
      CAPTURE(training);
      Generator text(3);
      const Tensor mask = source_mask_of({20, 7, 1, 0, 13}, 20);
      const Tensor source = randint(0, 11, {5, 20}, text), target = randint(0, 11, {5, 6}, text);
      const auto with_padding = [&](const Tensor& padding) {
        Generator rng(5);
        nn::EncoderDecoderConfig config = each;
        config.block.dropout = config.block.activation_dropout = 0.1;
        nn::EncoderDecoder model(rng, config);
        model.train(training);
        return logits_and_gradients(model, where(mask, source, padding), mask, target);
      };
      const std::vector<Tensor> expected = with_padding(zeros({5, 20}, DType::int64));
      for (const Tensor& result : expected) CHECK(all(isfinite(result)).item<bool>());
      test::check_same_bits(with_padding(randint(0, 11, {5, 20}, text)), expected);
    }
  }
}

TEST_CASE("EncoderDecoder: the step form gives what the sequence form gives, and tokens see no later ones") {
  for (const nn::EncoderDecoderConfig& config : all_configs()) {
    CAPTURE(names_of(config));
    Generator rng(5);
    nn::EncoderDecoder model(rng, config, DType::float64);
    model.eval();
    const NoGrad no_grad;
    const Tensor source = randint(0, 11, {3, 9}, rng), mask = source_mask_of({9, 4, 6}, 9);
    const Tensor target = randint(0, 11, {3, 8}, rng), logits = model(source, mask, target);
    // The chunks of reformer depend on the number of tokens, so its sequence form gives other results for a shorter
    // text.
    const bool same = config.decoder.mechanism != "reformer" && config.decoder.mechanism != "bigbird";
    if (same) CHECK(largest_difference(by_steps(model, source, mask, target), logits) < 1e-12);
    if (same) CHECK(largest_difference(model(source, mask, target.narrow(1, 0, 5)), logits.narrow(1, 0, 5)) < 1e-12);
    // Other sources in the batch, and the amount of padding, only change rounding.
    const bool blocks =
        config.block.attention.mechanism == "bigbird" || config.block.attention.mechanism == "reformer";
    const Tensor alone = model(source.narrow(0, 1, 1).narrow(1, 0, 4), {}, target.narrow(0, 1, 1));
    if (!blocks) CHECK(largest_difference(alone, logits.narrow(0, 1, 1)) < 1e-12);
  }
}

TEST_CASE("EncoderDecoder: a state that is selected from goes on as targets that were so from the start") {
  for (nn::EncoderDecoderConfig config : all_configs()) {
    CAPTURE(names_of(config));
    Generator rng(5);
    config.block.attention.short_conv = mechanism_of(config.decoder).step ? 3 : 0;
    nn::EncoderDecoder model(rng, config, DType::float64);
    model.eval();
    const NoGrad no_grad;
    const Tensor source = randint(0, 11, {3, 9}, rng), mask = source_mask_of({9, 4, 6}, 9);
    const Tensor first = randint(0, 11, {3}, rng), second = randint(0, 11, {4}, rng),
                 third = randint(0, 11, {2}, rng);
    nn::EncoderDecoderState state = model.start(source, mask);
    model.step(state, first);
    // Two targets each for the first and last source; then only for the last source, in another order.
    state.select(tensor({0, 0, 2, 2}, DType::int64), tensor({0, 2}, DType::int64));
    model.step(state, second);
    state.select(tensor({3, 2}, DType::int64), tensor({1}, DType::int64));
    const Tensor logits = model.step(state, third);

    const Tensor of_last = tensor({2, 2}, DType::int64);
    const Tensor texts =
        stack({index_select(first, 0, of_last), index_select(second, 0, tensor({3, 2}, DType::int64)), third}, 1);
    const Tensor expected = by_steps(model, index_select(source, 0, of_last), index_select(mask, 0, of_last), texts);
    CHECK(largest_difference(logits, expected.select(1, 2)) < 1e-12);
  }
}

TEST_CASE("EncoderDecoder: positions of every kind") {
  for (const nn::Positions positions :
       {nn::Positions::learned, nn::Positions::sinusoidal, nn::Positions::rotary, nn::Positions::none}) {
    Generator rng(9);
    nn::EncoderDecoderConfig config = small_model();
    config.positions = positions;
    config.block.attention.short_conv = 2;
    nn::EncoderDecoder model(rng, config, DType::float64);
    const Tensor source = randint(0, 11, {2, 5}, rng), target = randint(0, 11, {2, 4}, rng);
    const NoGrad no_grad;
    CHECK(largest_difference(by_steps(model, source, {}, target), model(source, {}, target)) < 1e-12);
  }
}

TEST_CASE("EncoderDecoder: gradients are those of central differences") {
  for (const char* const mechanism : {"softmax", "fastmax2", "fastformer"}) {
    CAPTURE(mechanism);
    Generator rng(7);
    nn::EncoderDecoderConfig config = small_model(mechanism, mechanism, mechanism);
    config.vocabulary = 4, config.source_tokens = 5, config.target_tokens = 3;
    config.encoder_layers = config.decoder_layers = 1;
    config.block.attention.width = 4, config.block.hidden = 6;
    nn::EncoderDecoder model(rng, config, DType::float64);
    for (auto& [name, parameter] : model.named_parameters()) nn::init::normal_(parameter, rng, 0, 0.5);
    const Tensor source = randint(0, 4, {2, 5}, rng), mask = source_mask_of({5, 2}, 5);
    const Tensor target = randint(0, 4, {2, 3}, rng), next = randint(0, 4, {2, 3}, rng);
    const auto loss = [&] { return cross_entropy(model(source, mask, target), next); };
    backward(loss());
    for (const auto& [name, parameter] : model.named_parameters()) {
      CAPTURE(name);
      const Tensor start = parameter.detach().clone();
      const auto at = [&, &parameter = parameter](const std::vector<Tensor>& in) {
        const NoGrad no_grad;
        Tensor(parameter).copy_(in[0]);
        return std::vector{loss()};
      };
      const auto differences =
          detail::central_differences(at, {start}, 0, [](double x) { return 6e-6 * std::max(1.0, std::abs(x)); });
      const std::vector<double> gradient = parameter.grad().to_vector<double>();
      REQUIRE(differences.size() == gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) CHECK(std::abs(gradient[i] - differences[i][0]) < 1e-9);
      at({start});
    }
  }
}

TEST_CASE("EncoderDecoder: dropouts act in training alone, each by itself") {
  using Change = void (*)(nn::BlockConfig& block);
  const std::vector<Change> changes{[](nn::BlockConfig& block) { block.dropout = 0.5; },
                                    [](nn::BlockConfig& block) { block.activation_dropout = 0.5; },
                                    [](nn::BlockConfig& block) { block.attention.dropout = 0.5; }};
  for (const Change change : changes) {
    Generator rng(5);
    nn::EncoderDecoderConfig config = small_model();
    change(config.block);
    nn::EncoderDecoder model(rng, config);
    const Tensor source = randint(0, 11, {2, 6}, rng), memory = model.encode(source), target = source;
    CHECK_FALSE(same_bits(model.decode(memory, {}, target), model.decode(memory, {}, target)));
    CHECK_FALSE(same_bits(model.encode(source), memory));
    model.eval();
    CHECK(same_bits(model(source, {}, target), model(source, {}, target)));
  }
}

TEST_CASE("EncoderDecoder: bad input") {
  Generator rng(4);
  const auto refused = [&](const nn::EncoderDecoderConfig& config, const char* because) {
    CHECK_THROWS_WITH_AS(nn::EncoderDecoder(rng, config), doctest::Contains(because), ValueError);
  };
  nn::EncoderDecoderConfig config = small_model();
  config.vocabulary = 0;
  refused(config, "EncoderDecoder: vocabulary is 0; it must be at least 1");
  config = small_model(), config.source_tokens = 0;
  refused(config, "source_tokens is 0; it must be at least 1");
  config = small_model(), config.target_tokens = 0;
  refused(config, "target_tokens is 0; it must be at least 1");
  config = small_model(), config.encoder_layers = 0;
  refused(config, "encoder_layers is 0; it must be at least 1");
  config = small_model(), config.decoder_layers = -1;
  refused(config, "decoder_layers is -1; it must be at least 1");
  config = small_model(), config.block.hidden = -1;
  refused(config, "hidden is -1; it must be at least 1, or 0 for 4·width");
  refused(small_model("softmax", "linformer"), "linformer has no causal form (each of its slots mixes all tokens)");
  refused(small_model("softmax", "softmax", "longformer"),
          "decoder.0: longformer has no cross-attention; use one of softmax, fastmax1, fastmax2, fastformer, linear, "
          "performer, linformer");
  refused(small_model("softmax", "softmax", "nothing"), "nothing");

  nn::EncoderDecoder model(rng, small_model());
  const Tensor ids = zeros({2, 5}, DType::int64), mask = ones({2, 5}, DType::boolean);
  CHECK_THROWS_WITH_AS(model(zeros({5}, DType::int64), {}, ids),
                       doctest::Contains("source ids are [batch, tokens] with 1 token or more, not [5]"), ShapeError);
  CHECK_THROWS_WITH_AS(model(ids, mask, zeros({2, 0}, DType::int64)),
                       doctest::Contains("target ids are [batch, tokens] with 1 token or more, not [2, 0]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(model(zeros({2, 41}, DType::int64), {}, ids),
                       doctest::Contains("source of 41 tokens, but source_tokens is 40; cut it"), ValueError);
  CHECK_THROWS_WITH_AS(model(ids, mask, zeros({2, 13}, DType::int64)),
                       doctest::Contains("target of 13 tokens, but target_tokens is 12"), ValueError);
  CHECK_THROWS_WITH_AS(model(ids, ids, ids),
                       doctest::Contains("padding_mask should be bool [2, 5], not int64 [2, 5]"), ShapeError);
  CHECK_THROWS_WITH_AS(model(ids, mask, zeros({3, 5}, DType::int64)),
                       doctest::Contains("x has a batch of 3, memory one of 2"), ShapeError);
  CHECK_THROWS_WITH_AS(model(full({2, 5}, 11, DType::int64), mask, ids), doctest::Contains("tok (Embedding 11×8)"),
                       IndexError);
  nn::EncoderDecoderState state = model.start(ids);
  CHECK_THROWS_WITH_AS(model.step(state, ids), doctest::Contains("a step takes ids [targets]"), ShapeError);
  CHECK_THROWS_WITH_AS(model.step(state, zeros({4}, DType::int64)), doctest::Contains("batch"), ShapeError);
  CHECK(model.step(state, zeros({2}, DType::int64)).shape() == Shape{2, 11});  // the error changed nothing
  CHECK_THROWS_WITH_AS(state.select(zeros({3}, DType::int64)),
                       doctest::Contains("3 sequences cannot be divided among 2 memories"), ShapeError);
  nn::EncoderDecoderState late = model.start(ids);
  for (int64_t t = 0; t < 12; ++t) model.step(late, ids.select(1, 0));
  CHECK_THROWS_WITH_AS(model.step(late, ids.select(1, 0)), doctest::Contains("the targets have target_tokens, 12"),
                       ValueError);
}

TEST_CASE("EncoderDecoder: a selection that is refused changes nothing") {
  Generator rng(4);
  nn::EncoderDecoder model(rng, small_model());
  model.eval();
  const Tensor source = tensor<int64_t>({1, 2, 3, 4, 5, 6}).reshape({2, 3}), ids = tensor<int64_t>({1, 2});
  nn::EncoderDecoderState state = model.start(source), same = model.start(source);
  model.step(state, ids);
  model.step(same, ids);
  CHECK_THROWS_AS(state.select(tensor<int64_t>({0, 7}), tensor<int64_t>({1, 0})), IndexError);
  CHECK_THROWS_AS(state.select(tensor<int64_t>({0, 1}), tensor<int64_t>({1, 7})), IndexError);
  CHECK_THROWS_AS(state.layers[0].cross->select(tensor<int64_t>({7, 0})), IndexError);
  CHECK(same_bits(model.step(state, ids), model.step(same, ids)));

  nn::EncoderDecoder whole(rng, small_model("softmax", "poolingformer"));
  nn::EncoderDecoderState late = whole.start(source);
  whole.step(late, ids);
  CHECK_THROWS_WITH_AS(late.select(tensor<int64_t>({0, 0, 1})),
                       doctest::Contains("3 targets cannot be divided among 2 sources"), ShapeError);
  CHECK(whole.step(late, ids).shape() == Shape{2, 11});
}
