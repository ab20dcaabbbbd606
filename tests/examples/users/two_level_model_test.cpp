#include "support/users/two_level_model.h"

#include <cmath>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "support/users/conversion_task.h"
#include "support/users/items.h"
#include "support/users/scores.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

Settings small_model(const std::string& attention, const std::string& encoder = "layers") {
  Settings s = settings_of(attention, preset("recommendation", "clicks-small"));
  s.width = 16;
  s.heads = 2;
  s.of_users.encoder = encoder;
  return s;
}

Lists small_items() {
  Lists items;
  for (const auto& words : {std::vector<int32_t>{5, 6, 7}, {8}, {9, 4}, {3, 3, 3, 3, 3}, {2, 9}}) items.append(words);
  return items;
}

const std::vector<int32_t> kHistory{2, 0, 3};

/// Makes the word embeddings large, so that scores depend on them.
void enlarge(TwoLevelModel& model) {
  const NoGrad no_grad;
  Tensor words = model.state().at("words.weight");
  words *= 50;
}

/// The scores of two users, of whom the second has no history.
std::vector<UserAndCandidates> two_users() { return {{kHistory, {0, 1, 4}}, {{}, {2, 3, 1}}}; }

}  // namespace

TEST_CASE("a model of users: every mechanism and encoder scores, learns, and gives 0 to users without a history") {
  const auto check = [](const Settings& settings) {
    CAPTURE(settings.attention);
    CAPTURE(settings.of_users.encoder);
    Generator rng(1);
    TwoLevelModel model(rng, settings, 10, false);
    const Tensor scores = model(user_batch(small_items(), two_users(), zeros({2}, DType::int64)));
    REQUIRE(scores.shape() == Shape{2, 3});
    CHECK(isfinite(scores).all().item<bool>());
    CHECK(scores[1].abs().max().item<double>() == 0);
    backward(cross_entropy(scores, zeros({2}, DType::int64)));
    for (const auto& [name, parameter] : model.named_parameters()) {
      CAPTURE(name);
      if (!parameter.grad().defined()) continue;
      CHECK(isfinite(parameter.grad()).all().item<bool>());
    }
    CHECK(model.named_parameters()[0].tensor.grad().abs().sum().item<double>() > 0);
  };
  for (const std::string& attention : nn::attention_mechanisms()) check(small_model(attention));
  check(small_model(Settings{}.attention, "nrms"));
  check(small_model(Settings{}.attention, "mean"));
}

TEST_CASE(
    "scores: the same whether items stand in a batch or are encoded once, for users with other numbers of them") {
  const Lists items = small_items();
  Generator rng(1);
  TwoLevelModel model(rng, small_model(Settings{}.attention), 10, false);
  enlarge(model);
  const std::vector<UserAndCandidates> users{{kHistory, {0, 1, 4}}, {{}, {2}}, {kHistory, {-1, 3}}};
  const auto scores = scores_of(model, items, users);
  CHECK(model.training());
  REQUIRE(scores.size() == 3);
  CHECK(scores[1] == std::vector<double>{0});
  CHECK(scores[2].size() == 2);
  model.eval();
  const Tensor expected = model(user_batch(items, {{kHistory, {0, 1, 4}}, {kHistory, {3, 3, 3}}}, zeros({2})));
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(scores[0][static_cast<size_t>(i)] == doctest::Approx(expected[{0, i}].item<double>()).epsilon(1e-4));
  }
  CHECK(scores[2][1] == doctest::Approx(expected[{1, 0}].item<double>()).epsilon(1e-4));
  CHECK(scores_of(model, items, {}).empty());
}

TEST_CASE("a model of users: mean is the mean of embeddings, and their product the score") {
  const Lists items = small_items();
  Generator rng(1);
  TwoLevelModel model(rng, small_model(Settings{}.attention, "mean"), 10, false);
  enlarge(model);
  const Tensor words = model.state().at("words.weight");
  const auto item = [&](int64_t i) {
    Tensor total = zeros({16});
    for (const int32_t word : items[i]) total = total + words[word];
    return total / static_cast<int64_t>(items[i].size());
  };
  const Tensor user = (item(2) + item(0) + item(3)) / 3;
  const auto scores = scores_of(model, items, {{kHistory, {1, 4}}});
  CHECK(scores[0][0] == doctest::Approx((user * item(1)).sum().item<double>()).epsilon(1e-4));
  CHECK(scores[0][1] == doctest::Approx((user * item(4)).sum().item<double>()).epsilon(1e-4));
}

TEST_CASE("a model of users: NRMS is one softmax attention and pooling with a hidden width of 200") {
  Generator rng(1);
  const TwoLevelModel model(rng, small_model(Settings{}.attention, "nrms"), 10, false);
  std::map<std::string, Shape> shapes;
  for (const auto& [name, parameter] : model.named_parameters()) shapes[name] = parameter.shape();
  CHECK(shapes.at("items.attention.qkv.weight") == Shape{48, 16});
  CHECK(shapes.at("items.pool.fc1.weight") == Shape{200, 16});
  CHECK(shapes.at("users.pool.fc2.weight") == Shape{1, 200});
  for (const auto& [name, shape] : shapes) CHECK(name.find("mlp") == std::string::npos);
}

TEST_CASE("a model of users with a head: relu of user, item and their product, 3·width to width to 1") {
  const Lists items = small_items();
  Generator rng(1);
  TwoLevelModel model(rng, small_model(Settings{}.attention, "mean"), 10, true);
  enlarge(model);
  const NoGrad no_grad;
  TensorMap state = model.state();
  const nn::Batch batch = user_batch(items, {{kHistory, {1}}}, zeros({1}));
  const Tensor vectors = model.items(batch.inputs, batch.others[0]);
  const Tensor user = model.users(vectors, batch.others[1], batch.others[2])[0], item = vectors[3];
  const Tensor joined = concat({user, item, user * item}, 0);
  const Tensor hidden = relu(matmul(state.at("fc1.weight"), joined.unsqueeze(-1)).squeeze(-1) + state.at("fc1.bias"));
  const Tensor expected = (state.at("fc2.weight")[0] * hidden).sum() + state.at("fc2.bias")[0];
  CHECK(model(batch).item<double>() == doctest::Approx(expected.item<double>()).epsilon(1e-4));
  CHECK(state.at("fc1.weight").shape() == Shape{16, 48});
}

TEST_CASE("words_per_batch: each text of a batch counts once, whoever has it") {
  const Lists items = small_items();
  const std::vector<Conversion> users{{.behaviours = kHistory, .ad = 0}, {.behaviours = {2, 2}, .ad = 4}};
  const ConversionUsers data(items, users);
  CHECK(words_per_batch(data, {.batch = 2}) == 3 + 2 + 5 + 2);  // of items 0, 2, 3 and 4
}
