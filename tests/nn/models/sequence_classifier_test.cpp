#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include <linnet/linnet.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using linnet::test::largest_difference;
using linnet::test::near;
using linnet::test::same_bits;

namespace {

constexpr nn::Pooling kPoolings[] = {nn::Pooling::mean, nn::Pooling::padded_mean, nn::Pooling::attention,
                                     nn::Pooling::first};

nn::SequenceClassifierConfig small_classifier(const std::string& mechanism = "softmax") {
  return {.vocabulary = 11,
          .classes = 3,
          .layers = 2,
          .max_tokens = 40,
          .block = {.attention = {.mechanism = mechanism, .width = 8, .heads = 2}, .hidden = 12}};
}

/// Options of the mechanism for which 20 tokens are many.
std::any small_options(const std::string& mechanism) {
  if (mechanism == "linformer") return nn::LinformerConfig{.rank = 4};
  if (mechanism == "longformer") return nn::LongformerConfig{.window = 4};
  if (mechanism == "bigbird") return nn::BigBirdConfig{.block = 2};
  if (mechanism == "poolingformer") return nn::PoolingformerConfig{.window = 4, .window2 = 8};
  if (mechanism == "reformer") return nn::ReformerConfig{.hashes = 2, .chunk = 4};
  if (mechanism == "informer") return nn::InformerConfig{.factor = 1};
  return {};
}

/// True for the first tokens of each sequence, as many as `lengths` says, of N.
Tensor mask_of(const std::vector<int64_t>& lengths, int64_t tokens) {
  return lt(arange(tokens).unsqueeze(0), tensor(lengths).unsqueeze(1));
}

std::vector<std::string> parameter_names(const nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.named_parameters()) names.push_back(name);
  return names;
}

/// The logits of a batch, and the gradients of their loss.
std::vector<Tensor> step_of(const nn::SequenceClassifier& model, const Tensor& ids, const Tensor& padding_mask) {
  const Tensor logits = model(ids, padding_mask);
  backward(cross_entropy(logits, zeros({ids.size(0)}, DType::int64)));
  std::vector<Tensor> results{logits.detach()};
  for (Tensor parameter : model.parameters()) {
    REQUIRE(parameter.grad().defined());
    results.push_back(parameter.grad());
    parameter.set_grad({});
  }
  return results;
}

}  // namespace

TEST_CASE("SequenceClassifier: names, sizes and settings") {
  Generator rng(1);
  nn::SequenceClassifierConfig config = small_classifier();
  const nn::SequenceClassifier model(rng, config);
  const std::vector<std::string> names = parameter_names(model);
  CHECK(names.front() == "tok.weight");
  CHECK(names[1] == "pos.weight");
  CHECK(names[2] == "blocks.0.norm1.weight");
  CHECK(std::vector(names.end() - 6, names.end()) ==
        std::vector<std::string>{"norm.weight", "norm.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  CHECK(model.state().at("pos.weight").shape() == Shape{40, 8});
  CHECK(model.state().at("fc1.weight").shape() == Shape{16, 8});
  CHECK(model.state().at("fc2.weight").shape() == Shape{3, 16});

  config.pairs = true, config.head_hidden = 20, config.pooling = nn::Pooling::attention, config.share_layers = true;
  const nn::SequenceClassifier pairs(rng, config);
  CHECK(pairs.state().at("fc1.weight").shape() == Shape{20, 32});
  CHECK(pairs.state().contains("pool.fc1.weight"));
  CHECK_FALSE(pairs.state().contains("blocks.1.norm1.weight"));
  std::map<std::string, std::string> settings;
  for (const nn::Setting& setting : pairs.settings()) settings[setting.name] = setting.value;
  CHECK(settings == std::map<std::string, std::string>{{"vocabulary", "11"},
                                                       {"classes", "3"},
                                                       {"layers", "2"},
                                                       {"share_layers", "true"},
                                                       {"max_tokens", "40"},
                                                       {"pooling", "attention"},
                                                       {"head_hidden", "20"},
                                                       {"pairs", "true"},
                                                       {"linear_head", "false"},
                                                       {"embedding_width", "8"}});

  // Weights of another pooling have the same shapes, and are refused.
  config = small_classifier();
  config.pooling = nn::Pooling::padded_mean;
  nn::SequenceClassifier other(rng, config);
  CHECK_THROWS_WITH_AS(other.load_state(model), doctest::Contains("pooling is padded_mean here and mean there"),
                       ValueError);
}

TEST_CASE("SequenceClassifier: every mechanism learns, and what padding holds changes no bit") {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    for (const bool training : {false, true}) {
      CAPTURE(mechanism);
      CAPTURE(training);
      Generator text(3);
      const Tensor padding_mask = mask_of({20, 7, 1, 0, 13}, 20);
      const Tensor ids = randint(0, 11, {5, 20}, text);
      const auto with_padding = [&](const Tensor& padding) {
        Generator rng(5);
        nn::SequenceClassifierConfig config = small_classifier(mechanism);
        config.block.attention.options = small_options(mechanism);
        config.block.dropout = config.block.activation_dropout = 0.1;
        nn::SequenceClassifier model(rng, config);
        model.train(training);
        return step_of(model, where(padding_mask, ids, padding), padding_mask);
      };
      const std::vector<Tensor> expected = with_padding(zeros({5, 20}, DType::int64));
      for (const Tensor& result : expected) CHECK(all(isfinite(result)).item<bool>());
      CHECK(max(abs(expected[1])).item<double>() > 0);
      test::check_same_bits(with_padding(randint(0, 11, {5, 20}, text)), expected);
    }
  }
}

TEST_CASE("SequenceClassifier: the amount of padding changes results by rounding alone") {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    if (mechanism == "bigbird" || mechanism == "reformer") continue;  // their blocks depend on the number of tokens
    for (const nn::Pooling pooling : kPoolings) {
      CAPTURE(mechanism);
      CAPTURE(static_cast<int>(pooling));
      Generator rng(5);
      nn::SequenceClassifierConfig config = small_classifier(mechanism);
      config.pooling = pooling;
      config.block.attention.options = small_options(mechanism);
      nn::SequenceClassifier model(rng, config, DType::float64);
      model.eval();
      const Tensor ids = randint(0, 11, {3, 9}, rng);
      const auto padded_to = [&](int64_t tokens) {
        const Tensor padding = zeros({3, tokens - 9}, DType::int64);
        return model(concat({ids, padding}, 1), mask_of({9, 4, 6}, tokens));
      };
      for (const int64_t tokens : {10, 16, 40}) CHECK(largest_difference(padded_to(tokens), padded_to(9)) < 1e-12);
      CHECK(largest_difference(model(ids), model(ids, ones({3, 9}, DType::boolean))) < 1e-12);
    }
  }
}

TEST_CASE("SequenceClassifier: a sequence of padding alone is pooled to 0") {
  for (const nn::Pooling pooling : kPoolings) {
    CAPTURE(static_cast<int>(pooling));
    Generator rng(5);
    nn::SequenceClassifierConfig config = small_classifier();
    config.pooling = pooling;
    const nn::SequenceClassifier model(rng, config);
    const Tensor ids = randint(0, 11, {2, 6}, rng), padding_mask = mask_of({0, 4}, 6);
    const Tensor vectors = model.encode(ids, padding_mask);
    CHECK(vectors.shape() == Shape{2, 8});
    CHECK(max(abs(vectors.select(0, 0))).item<double>() == 0);
    CHECK(max(abs(vectors.select(0, 1))).item<double>() > 0);
    for (const Tensor& result : step_of(model, ids, padding_mask)) CHECK(all(isfinite(result)).item<bool>());
  }
}

TEST_CASE("SequenceClassifier: dropouts act in training alone, each by itself") {
  using Change = void (*)(nn::BlockConfig& block);
  const std::vector<Change> changes{[](nn::BlockConfig& block) { block.dropout = 0.5; },
                                    [](nn::BlockConfig& block) { block.activation_dropout = 0.5; },
                                    [](nn::BlockConfig& block) { block.attention.dropout = 0.5; }};
  for (const Change change : changes) {
    Generator rng(5);
    nn::SequenceClassifierConfig config = small_classifier();
    change(config.block);
    nn::SequenceClassifier model(rng, config);
    const Tensor ids = randint(0, 11, {2, 6}, rng);
    CHECK_FALSE(same_bits(model(ids), model(ids)));
    model.eval();
    CHECK(same_bits(model(ids), model(ids)));
  }
  Generator rng(5);
  nn::SequenceClassifierConfig config = small_classifier();
  config.block.dropout = 0.5;
  const nn::SequenceClassifier model(rng, config);
  for (auto& [name, parameter] : model.named_parameters()) {
    if (name.find("out.") != std::string::npos || name.find("mlp.fc2.") != std::string::npos) {
      nn::init::zeros_(parameter);  // the branches give 0, so that only the dropout of the embeddings remains
    }
  }
  const Tensor ids = randint(0, 11, {2, 6}, rng);
  CHECK_FALSE(same_bits(model(ids), model(ids)));
  config.block.activation_dropout = 1.5;
  CHECK_THROWS_WITH_AS(nn::SequenceClassifier(rng, config), doctest::Contains("mlp.dropout"), ValueError);
}

TEST_CASE("SequenceClassifier: gradients are those of central differences") {
  for (const char* const mechanism : {"softmax", "fastmax2", "fastformer", "linformer"}) {
    for (const bool pairs : {false, true}) {
      CAPTURE(mechanism);
      CAPTURE(pairs);
      Generator rng(7);
      nn::SequenceClassifierConfig config = small_classifier(mechanism);
      config.vocabulary = 4, config.max_tokens = 5, config.layers = 1, config.pairs = pairs;
      config.block.attention.width = 4, config.block.hidden = 6;
      config.pooling = pairs ? nn::Pooling::attention : nn::Pooling::mean;
      nn::SequenceClassifier model(rng, config, DType::float64);
      for (auto& [name, parameter] : model.named_parameters()) nn::init::normal_(parameter, rng, 0, 0.5);
      const Tensor ids = randint(0, 4, {2, 5}, rng), mask = mask_of({5, 2}, 5);
      const Tensor other_ids = randint(0, 4, {2, 3}, rng), other_mask = mask_of({1, 3}, 3);
      const auto loss = [&] {
        const Tensor logits = pairs ? model(ids, mask, other_ids, other_mask) : model(ids, mask);
        return cross_entropy(logits, tensor({2, 1}, DType::int64));
      };
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
}

TEST_CASE("SequenceClassifier: one encoder reads both sequences of a pair") {
  Generator rng(9);
  nn::SequenceClassifierConfig config = small_classifier();
  config.pairs = true;
  const nn::SequenceClassifier model(rng, config, DType::float64);
  const Tensor a = randint(0, 11, {2, 6}, rng), b = randint(0, 11, {2, 9}, rng);
  CHECK(model(a, {}, b, {}).shape() == Shape{2, 3});
  CHECK(largest_difference(model(a, {}, b, {}), model(b, {}, a, {})) > 1e-6);
  const Tensor u = model.encode(a), v = model.encode(b);
  const TensorMap state = model.state();
  const Tensor hidden = relu(linear(concat({u, v, u * v, u - v}, 1), state.at("fc1.weight"), state.at("fc1.bias")));
  CHECK(largest_difference(model(a, {}, b, {}), linear(hidden, state.at("fc2.weight"), state.at("fc2.bias"))) <
        1e-14);
}

TEST_CASE("SequenceClassifier: positions of every kind, and the attention maps of each layer") {
  for (const nn::Positions positions :
       {nn::Positions::learned, nn::Positions::sinusoidal, nn::Positions::rotary, nn::Positions::none}) {
    Generator rng(9);
    nn::SequenceClassifierConfig config = small_classifier();
    config.positions = positions;
    const nn::SequenceClassifier model(rng, config, DType::float64);
    const Tensor ids = tensor({{1, 2, 3, 4}}, DType::int64), flipped = tensor({{4, 3, 2, 1}}, DType::int64);
    const nn::AttentionMaps maps;
    const double difference = largest_difference(model(ids), model(flipped));
    CHECK((difference > 1e-9) == (positions != nn::Positions::none));
    REQUIRE(maps.all().size() == 4);
    CHECK(maps.all()[1].name == "blocks.1.attention");
    CHECK(maps.all()[1].weights.shape() == Shape{1, 2, 4, 4});
  }
}

TEST_CASE("SequenceClassifier: with a projection of Linformer that its layers share") {
  Generator rng(9);
  nn::SequenceClassifierConfig config = small_classifier("linformer");
  config.block.attention.options = nn::LinformerConfig{.rank = 4, .share = nn::LinformerShare::layerwise};
  const nn::SequenceClassifier model(rng, config);
  CHECK(model.state().at("shared_attention").shape() == Shape{4, 40});
  CHECK(model(zeros({2, 7}, DType::int64)).shape() == Shape{2, 3});
}

TEST_CASE("SequenceClassifier: bad input") {
  Generator rng(4);
  const auto refused = [&](const nn::SequenceClassifierConfig& config, const char* because) {
    CHECK_THROWS_WITH_AS(nn::SequenceClassifier(rng, config), doctest::Contains(because), ValueError);
  };
  nn::SequenceClassifierConfig config = small_classifier();
  config.vocabulary = 0;
  refused(config, "SequenceClassifier: vocabulary is 0; it must be at least 1");
  config = small_classifier(), config.classes = -1;
  refused(config, "classes is -1; it must be at least 1");
  config = small_classifier(), config.layers = 0;
  refused(config, "layers is 0; it must be at least 1");
  config = small_classifier(), config.max_tokens = 0;
  refused(config, "max_tokens is 0; it must be at least 1");
  config = small_classifier(), config.head_hidden = -2;
  refused(config, "head_hidden is -2; it must be at least 1, or 0 for 2·width");

  const nn::SequenceClassifier model(rng, small_classifier());
  config = small_classifier(), config.pairs = true;
  const nn::SequenceClassifier pairs(rng, config);
  const Tensor ids = zeros({2, 5}, DType::int64), mask = ones({2, 5}, DType::boolean);
  CHECK_THROWS_WITH_AS(model(zeros({5}, DType::int64)), doctest::Contains("token ids are [batch, tokens]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(model(zeros({2, 0}, DType::int64)), doctest::Contains("with 1 token or more, not [2, 0]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(model(zeros({2, 41}, DType::int64)),
                       doctest::Contains("41 tokens, but max_tokens is 40; cut the sequences"), ValueError);
  CHECK_THROWS_WITH_AS(model(ids, ones({2, 4}, DType::boolean)),
                       doctest::Contains("padding_mask should be bool [2, 5], as the ids, not bool [2, 4]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(model(ids, ids), doctest::Contains("not int64 [2, 5]"), ShapeError);
  CHECK_THROWS_WITH_AS(model(full({2, 5}, 11, DType::int64), zeros({2, 5}, DType::boolean)),
                       doctest::Contains("tok (Embedding 11×8)"), IndexError);
  CHECK_THROWS_WITH_AS(model(ids, mask, ids, mask),
                       doctest::Contains("SequenceClassifier: the model takes single sequences"), ValueError);
  CHECK_THROWS_WITH_AS(pairs(ids, mask), doctest::Contains("SequenceClassifier: the model takes pairs of sequences"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pairs(ids, mask, zeros({3, 5}, DType::int64), {}),
                       doctest::Contains("the first sequences are [2, 5], the second [3, 5]"), ShapeError);
  CHECK_THROWS_WITH_AS(pairs(ids, mask, ids, ids), doctest::Contains("sequence_classifier_test.cpp:"), ShapeError);
}

TEST_CASE("SequenceClassifier: where padding stands first, the other tokens are pooled, but for Pooling::first") {
  for (const nn::Pooling pooling : kPoolings) {
    CAPTURE(static_cast<int>(pooling));
    nn::SequenceClassifierConfig config = small_classifier();
    config.pooling = pooling;
    config.positions = nn::Positions::none;  // learned positions would count padding too
    Generator rng(3);
    nn::SequenceClassifier model(rng, config, DType::float64);
    model.eval();
    const Tensor ids = tensor({{0, 0, 4, 7, 9}}).to(DType::int64), alone = ids.narrow(1, 2, 3);
    const Tensor pooled = model.encode(ids, ne(ids, 0));
    const Tensor expected = pooling == nn::Pooling::first ? zeros_like(pooled) : model.encode(alone);
    CHECK(allclose(pooled, expected, 1e-12, 1e-12));
  }
}

TEST_CASE("SequenceClassifier: a linear head, and embeddings of another width with a linear map") {
  Generator rng(1);
  nn::SequenceClassifierConfig config = small_classifier();
  config.linear_head = true;
  config.embedding_width = 5;
  const nn::SequenceClassifier model(rng, config);
  const TensorMap state = model.state();
  CHECK(!state.contains("fc1.weight"));
  CHECK(state.at("fc2.weight").shape() == Shape{3, 8});
  CHECK(state.at("map.weight").shape() == Shape{8, 5});
  CHECK(model.embeddings().shape() == Shape{11, 5});
  CHECK(model.config().head_hidden == 0);
  const Tensor ids = tensor(std::vector<int64_t>{3, 1, 4, 10, 5, 0}, {2, 3});
  const Tensor padding_mask = mask_of({3, 2}, 3);
  const Tensor pooled = model.encode(ids, padding_mask);
  const Tensor expected = matmul(pooled, state.at("fc2.weight").transpose(0, 1)) + state.at("fc2.bias");
  CHECK(largest_difference(model(ids, padding_mask), expected) < 1e-6);

  // The result must be that of a table of mapped embeddings.
  config.embedding_width = 8;
  nn::SequenceClassifier plain(rng, config);
  CHECK(!plain.state().contains("map.weight"));
  TensorMap mapped = state;
  mapped["tok.weight"] =
      (matmul(state.at("tok.weight"), state.at("map.weight").transpose(0, 1)) + state.at("map.bias")).detach();
  mapped.erase("map.weight");
  mapped.erase("map.bias");
  plain.load_state(mapped);
  CHECK(largest_difference(model(ids, padding_mask), plain(ids, padding_mask)) < 1e-6);

  config.head_hidden = 4;
  CHECK_THROWS_WITH_AS(nn::SequenceClassifier(rng, config),
                       doctest::Contains("a linear head has no hidden layer, so head_hidden must be 0, not 4"),
                       ValueError);
  config.head_hidden = 0, config.embedding_width = -1;
  CHECK_THROWS_WITH_AS(nn::SequenceClassifier(rng, config), doctest::Contains("embedding_width is -1"), ValueError);
}
