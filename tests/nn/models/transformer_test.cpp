#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <linnet/linnet.h>

#include "tests/support/near.h"
#include "tests/support/registered_mechanism.h"

using namespace linnet;
using linnet::test::largest_difference;
using linnet::test::near;

namespace {

nn::DecoderConfig small_decoder(const std::string& mechanism, nn::Positions positions = nn::Positions::learned) {
  return {.vocabulary = 11,
          .context = 8,
          .layers = 2,
          .block = {.attention = {.mechanism = mechanism, .width = 16, .heads = 2, .bias = false}},
          .positions = positions};
}

}  // namespace

TEST_CASE("DecoderLM: names, tied head, and initial values as in GPT-2") {
  Generator rng(1);
  const nn::DecoderLM model(rng, {.vocabulary = 65,
                                  .context = 64,
                                  .layers = 4,
                                  .block = {.attention = {.width = 128, .heads = 4, .bias = false}}});
  std::vector<std::string> names;
  int64_t count = 0;
  for (const auto& [name, tensor] : model.named_parameters()) {
    names.push_back(name);
    count += tensor.numel();
  }
  CHECK(std::vector(names.begin(), names.begin() + 8) ==
        std::vector<std::string>{"tok.weight", "pos.weight", "blocks.0.norm1.weight", "blocks.0.attention.qkv.weight",
                                 "blocks.0.attention.out.weight", "blocks.0.norm2.weight", "blocks.0.mlp.fc1.weight",
                                 "blocks.0.mlp.fc2.weight"});
  CHECK(names.back() == "norm.weight");
  CHECK(count == 65 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 2 * 128) + 128);

  const TensorMap state = model.state();
  const auto deviation = [&](const char* name) { return std::sqrt(var(state.at(name)).item<double>()); };
  CHECK(deviation("tok.weight") == near(0.02, 0.03));
  CHECK(deviation("blocks.3.attention.qkv.weight") == near(0.02, 0.03));
  CHECK(deviation("blocks.3.attention.out.weight") == near(0.02 / std::sqrt(8), 0.03));
  CHECK(deviation("blocks.3.mlp.fc2.weight") == near(0.02 / std::sqrt(8), 0.03));

  const NoGrad guard;
  const Tensor loss = cross_entropy(model(randint(0, 65, {2, 64}, rng)), randint(0, 65, {2, 64}, rng));
  CHECK(loss.item<double>() == near(std::log(65), 0.02));
}

TEST_CASE("DecoderLM: the state of linear mechanisms has one size, and is right far past the context") {
  const NoGrad no_grad;
  const auto check = [](const std::string& mechanism, nn::Positions positions) {
    CAPTURE(mechanism);
    CAPTURE(static_cast<int>(positions));
    constexpr int64_t kEarly = 300, kLate = 812;  // of a context of 8
    Generator rng(19);
    nn::DecoderLM model(rng, small_decoder(mechanism, positions), DType::float64);
    const Tensor ids = randint(0, 11, {1, kLate}, rng);
    nn::DecoderState state = model.start();
    Tensor logits;
    const auto live_after = [&](int64_t tokens) {
      while (state.tokens < tokens) logits = model.step(state, ids.select(1, state.tokens));
      return memory_stats().live;
    };
    const int64_t early = live_after(kEarly), late = live_after(kLate);
    CHECK((late == early) == (mechanism != "softmax"));  // it keeps all keys and values
    CHECK(largest_difference(logits, model(ids).select(1, kLate - 1)) < 1e-12);
  };
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    // Longformer keeps the rows of a window in a buffer for twice as many.
    if (!nn::find_mechanism(mechanism).step || mechanism == "longformer") continue;
    check(mechanism, nn::Positions::none);
    check(mechanism, nn::Positions::sinusoidal);
  }
  check("softmax", nn::Positions::rotary);
  check("fastmax2", nn::Positions::rotary);
}

TEST_CASE("DecoderLM: the step form gives what the sequence form gives, for every mechanism") {
  const auto check = [](const nn::DecoderConfig& config) {
    CAPTURE(config.block.attention.mechanism);
    Generator rng(2);
    const nn::DecoderLM model(rng, config, DType::float64);
    const Tensor ids = randint(0, 11, {3, 8}, rng);
    const Tensor sequence = model(ids);
    CHECK(sequence.shape() == Shape{3, 8, 11});
    nn::DecoderState state = model.start();
    for (int64_t t = 0; t < 8; ++t) {
      CHECK(largest_difference(model.step(state, ids.select(1, t)), sequence.select(1, t)) < 1e-12);
    }
  };
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    if (nn::find_mechanism(mechanism).step) check(small_decoder(mechanism));
  }
  for (const nn::Positions positions : {nn::Positions::sinusoidal, nn::Positions::rotary, nn::Positions::none}) {
    check(small_decoder("softmax", positions));
    check(small_decoder("fastmax2", positions));
  }
  nn::DecoderConfig post_norm = small_decoder("softmax");
  post_norm.block.pre_norm = false;
  check(post_norm);
}

TEST_CASE("DecoderLM: every kind of positions changes the result") {
  using nn::Positions;
  const auto logits = [](Positions positions) {
    Generator rng(2), text(3);
    nn::DecoderConfig config = small_decoder("softmax", positions);
    nn::DecoderLM model(rng, config, DType::float64);
    for (auto& [name, tensor] : model.named_parameters()) {
      Generator same(4);  // the same weights, whatever the positions drew
      nn::init::uniform_(tensor, same, -0.5, 0.5);
    }
    return model(randint(0, 11, {1, 8}, text));
  };
  const Tensor none = logits(Positions::none);
  for (const Positions positions : {Positions::learned, Positions::sinusoidal, Positions::rotary}) {
    CHECK(largest_difference(logits(positions), none) > 1e-2);
  }
  CHECK(largest_difference(logits(Positions::none), none) == 0);
}

TEST_CASE("DecoderLM: it learns a sequence by heart, with every mechanism") {
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    Generator rng(3);
    nn::DecoderLM model(rng, small_decoder(mechanism));
    const Tensor text = tensor({1, 5, 2, 9, 10, 5, 3, 0, 7}, DType::int64).unsqueeze(0);
    const Tensor x = text.narrow(1, 0, 8), y = text.narrow(1, 1, 8);
    nn::AdamW optimizer(nn::decay_matrices_only(model.parameters(), 0.1), {.lr = 1e-2});
    double loss_value = 0;
    for (int step = 0; step < 100; ++step) {
      const Tensor loss = cross_entropy(model(x), y);
      backward(loss);
      nn::clip_grad_norm_(model.parameters(), 1);
      optimizer.step();
      optimizer.zero_grad();
      loss_value = loss.item<double>();
    }
    CHECK(loss_value < 0.05);
  }
}

TEST_CASE("DecoderLM: bad input") {
  Generator rng(4);
  const nn::DecoderLM model(rng, small_decoder("softmax"));
  CHECK_THROWS_WITH_AS(model(zeros({1, 9}, DType::int64)),
                       doctest::Contains("pos (learned positions, 8): 9 tokens, but learned positions end at 8"),
                       ValueError);
  CHECK_THROWS_WITH_AS(model(zeros({9}, DType::int64)), doctest::Contains("token ids are [batch, tokens], not [9]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(model(full({1, 2}, 11, DType::int64)), doctest::Contains("tok (Embedding 11×16): "),
                       IndexError);
  CHECK_THROWS_WITH_AS(model(full({1, 2}, 11, DType::int64)), doctest::Contains("transformer_test.cpp:"), IndexError);
  nn::DecoderState empty;
  CHECK_THROWS_AS(model.step(empty, zeros({1}, DType::int64)), ShapeError);
  nn::DecoderState state = model.start();
  for (int t = 0; t < 8; ++t) model.step(state, zeros({1}, DType::int64));
  CHECK_THROWS_WITH_AS(model.step(state, zeros({1}, DType::int64)), doctest::Contains("learned positions end at 8"),
                       ValueError);
}

TEST_CASE("Block: bias and width of the parts, and dropout in training only") {
  Generator rng(5);
  nn::Sequential net(rng, DType::float64);
  const nn::Block block(net, "block", {.attention = {.width = 8, .heads = 2}, .hidden = 12, .dropout = 0.3});
  const TensorMap state = net.state();
  CHECK(state.at("block.mlp.fc1.weight").shape() == Shape{12, 8});
  CHECK(state.at("block.norm2.bias").shape() == Shape{8});
  CHECK(state.size() == 12);
  const Tensor x = randn({2, 4, 8}, rng, DType::float64);
  CHECK(largest_difference(block(x), block(x)) > 1e-3);
  net.eval();
  CHECK(largest_difference(block(x), block(x)) == 0);

  // Post-norm ends in a norm, pre-norm does not.
  const nn::Block post(net, "post", {.attention = {.width = 8, .heads = 2}, .pre_norm = false});
  CHECK(max(abs(mean(post(x), {-1}))).item<double>() < 1e-12);
  CHECK(max(abs(mean(block(x), {-1}))).item<double>() > 1e-2);
}

TEST_CASE("models: sizes below the least are refused, and only learned positions need a context") {
  Generator rng(9);
  const auto refused = [&](const auto& build, const char* because) {
    CHECK_THROWS_WITH_AS(build(), doctest::Contains(because), ValueError);
  };
  nn::DecoderConfig hidden = small_decoder("softmax"), context = hidden, vocabulary = hidden;
  hidden.block.hidden = -5, context.context = 0, vocabulary.vocabulary = 0;
  refused([&] { nn::DecoderLM(rng, hidden); }, "0: hidden is -5; it must be at least 1, or 0 for 4·width");
  refused([&] { nn::DecoderLM(rng, context); }, "the length must be at least 1");
  refused([&] { nn::DecoderLM(rng, vocabulary); }, "sizes must be at least 1");
  context.positions = nn::Positions::sinusoidal;
  CHECK(nn::DecoderLM(rng, context)(zeros({1, 3}, DType::int64)).shape() == Shape{1, 3, 11});
  for (const int64_t layers : {0, -1}) {
    for (const bool share : {false, true}) {
      nn::DecoderConfig few = small_decoder("softmax");
      few.layers = layers, few.share_layers = share;
      refused([&] { nn::DecoderLM(rng, few); }, "layers; it takes at least 1");
      refused([&] { nn::PatchClassifier(rng, {.layers = layers, .share_layers = share, .block = few.block}); },
              "layers; it takes at least 1");
      refused([&] { nn::FastformerEncoder(rng, {.layers = layers, .share_layers = share}); },
              "layers; it takes at least 1");
    }
  }
}

TEST_CASE("PatchClassifier: patches are squares of the image") {
  for (const int64_t patch : {1, 2, 4, 7}) {
    CAPTURE(patch);
    Generator rng(6);
    const nn::PatchClassifier model(rng, {.patch = patch, .block = {.attention = {.width = 8, .heads = 2}}});
    const NoGrad guard;
    CHECK(model(rand({2, 784}, rng)).shape() == Shape{2, 10});
  }
  // Without positions only the set of patches matters: exchanging two patches changes nothing, exchanging two pixels
  // does.
  Generator rng(7);
  const nn::PatchClassifier model(
      rng,
      {.side = 4, .patch = 2, .layers = 2, .block = {.attention = {.width = 8}}, .positions = nn::Positions::none},
      DType::float64);
  const Tensor image = tensor({1, 2, 3, 4,  //
                               5, 6, 7, 8,  //
                               9, 0, 1, 2,  //
                               3, 4, 5, 6},
                              {1, 16}, DType::float64);
  const Tensor exchanged = tensor({3, 4, 1, 2,  //
                                   7, 8, 5, 6,  //
                                   9, 0, 1, 2,  //
                                   3, 4, 5, 6},
                                  {1, 16}, DType::float64);
  const Tensor mixed = tensor({2, 1, 3, 4,  //
                               5, 6, 7, 8,  //
                               9, 0, 1, 2,  //
                               3, 4, 5, 6},
                              {1, 16}, DType::float64);
  CHECK(largest_difference(model(image), model(exchanged)) < 1e-12);
  CHECK(largest_difference(model(image), model(mixed)) > 1e-6);
}

TEST_CASE("PatchClassifier: bad input") {
  Generator rng(8);
  CHECK_THROWS_WITH_AS(nn::PatchClassifier(rng, {.patch = 5, .block = {.attention = {.width = 8}}}),
                       doctest::Contains("patches of side 5 do not tile an image of side 28"), ValueError);
  const nn::PatchClassifier model(rng, {.block = {.attention = {.width = 8}}});
  CHECK_THROWS_WITH_AS(model(zeros({2, 28, 28})), doctest::Contains("PatchClassifier: images are [batch, 784]"),
                       ShapeError);
}

TEST_CASE(
    "generate: continues a text as the step form does, beyond learned positions too, and leaves the model as it "
    "was") {
  Generator rng(3);
  nn::DecoderLM model(rng, {.vocabulary = 7, .context = 8, .block = {.attention = {.width = 8, .heads = 2}}});
  model.train();
  const std::vector<int64_t> prompt{1, 2, 3};
  const nn::GenerateOptions likeliest{.max_new_tokens = 4, .temperature = 0};
  const std::vector<int64_t> ids = nn::generate(model, prompt, rng, likeliest);
  REQUIRE(ids.size() == 4);
  CHECK(model.training());
  {
    const NoGrad no_grad;
    std::vector<int64_t> text = prompt;
    for (const int64_t id : ids) {
      const Tensor logits = model(tensor(text).unsqueeze(0));
      CHECK(argmax(logits[{0, -1}], 0).item<int64_t>() == id);
      text.push_back(id);
    }
  }
  std::vector<int64_t> seen;
  Generator one(5), other(5);
  const nn::GenerateOptions drawn{.max_new_tokens = 30, .temperature = 2, .top_k = 3};
  const std::vector<int64_t> long_text =
      nn::generate(model, prompt, one, drawn, [&](int64_t id) { seen.push_back(id); });
  CHECK(long_text == seen);
  CHECK(long_text == nn::generate(model, prompt, other, drawn));
  CHECK(nn::generate(model, prompt, one, {.max_new_tokens = 0}).empty());

  CHECK_THROWS_WITH_AS(nn::generate(model, {}, rng), doctest::Contains("the prompt is empty"), ValueError);
  CHECK_THROWS_WITH_AS(nn::generate(model, prompt, rng, {.temperature = -1}), doctest::Contains("temperature -1"),
                       ValueError);
  CHECK_THROWS_AS(nn::generate(model, std::vector<int64_t>{9}, rng), IndexError);
}

TEST_CASE("generate: ends after the end token, which is the last id of the result") {
  Generator rng(3);
  nn::DecoderLM model(rng, {.vocabulary = 7, .context = 8, .block = {.attention = {.width = 8, .heads = 2}}});
  const std::vector<int64_t> prompt{1, 2, 3};
  const auto drawn = [&](std::optional<int64_t> eos_token_id) {
    Generator draws(5);
    std::vector<int64_t> seen;
    const nn::GenerateOptions options{.max_new_tokens = 30, .temperature = 2, .eos_token_id = eos_token_id};
    const auto ids = nn::generate(model, prompt, draws, options, [&](int64_t id) { seen.push_back(id); });
    CHECK(ids == seen);
    return ids;
  };
  const std::vector<int64_t> all = drawn({});
  CHECK(all.size() == 30);
  for (int64_t id = 0; id < 7; ++id) {
    CAPTURE(id);
    const auto end = std::ranges::find(all, id);
    CHECK(drawn(id) == std::vector(all.begin(), end == all.end() ? end : end + 1));
  }
  for (const int64_t id : {-1, 7})
    CHECK_THROWS_WITH_AS(drawn(id), doctest::Contains("ids run from 0 to 6"), ValueError);
}

TEST_CASE("generate: without a step form the model sees the last tokens of its context, or the whole text") {
  const test::RegisteredMechanism stepless(
      {.name = "stepless", .make = nn::maker<nn::SoftmaxAttention>(), .step = false});
  const std::vector<int64_t> prompt{1, 2, 3};
  const auto check = [&](nn::Positions positions, int64_t context, int64_t seen) {
    CAPTURE(context);
    const auto model_of = [&](const char* mechanism) {
      Generator rng(3);
      return nn::DecoderLM(rng, {.vocabulary = 7,
                                 .context = context,
                                 .block = {.attention = {.mechanism = mechanism, .width = 8, .heads = 2}},
                                 .positions = positions});
    };
    nn::DecoderLM model = model_of("stepless"), stepping = model_of("softmax");
    CHECK_THROWS_WITH_AS(model.start(), doctest::Contains("stepless has no step form"), ValueError);
    Generator rng(5);
    const std::vector<int64_t> ids = nn::generate(model, prompt, rng, {.max_new_tokens = 20, .temperature = 0});
    REQUIRE(ids.size() == 20);
    model.eval();
    const NoGrad no_grad;
    std::vector<int64_t> text = prompt;
    for (const int64_t id : ids) {
      const Tensor logits = model(tensor(text).unsqueeze(0).narrow(1, std::max<int64_t>(std::ssize(text) - seen, 0),
                                                                   std::min<int64_t>(std::ssize(text), seen)));
      CHECK(argmax(logits[{0, -1}], 0).item<int64_t>() == id);
      text.push_back(id);
    }
    const auto as_steps = nn::generate(stepping, prompt, rng, {.max_new_tokens = 6, .temperature = 0});
    CHECK(as_steps == std::vector(ids.begin(), ids.begin() + 6));  // the context holds these
  };
  check(nn::Positions::learned, 8, 8);
  check(nn::Positions::sinusoidal, 8, 8);
  check(nn::Positions::none, 0, 100);
}

TEST_CASE("generate: afterwards each module is in the mode that it had") {
  Generator rng(3);
  nn::DecoderLM model(rng, small_decoder("softmax"));
  nn::Dropout frozen(model, "frozen", 0.5);
  frozen.eval();
  nn::generate(model, std::vector<int64_t>{1, 2}, rng, {.max_new_tokens = 1});
  CHECK(model.training());
  CHECK_FALSE(frozen.training());
}
