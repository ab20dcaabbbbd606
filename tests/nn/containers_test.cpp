#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "tests/support/values.h"

/// ModuleList and ModuleDict.

namespace linnet::test {
namespace {

using Names = std::vector<std::string>;

struct Containers : nn::Module {
  explicit Containers(Generator& rng) : Module(rng) {}
  nn::ModuleList<nn::Linear> layers{*this, "layers"};
  nn::ModuleDict<nn::Linear> heads{*this, "heads"};
  nn::ModuleDict<nn::ModuleList<nn::LayerNorm>> norms{*this, "norms"};
};

Names names_in(const nn::Module& module) {
  Names names;
  for (const auto& [name, tensor] : module.named_parameters()) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("ModuleList, ModuleDict: names in the state are PyTorch's, in the order in which modules were added") {
  Generator rng(1);
  Containers model(rng);
  for (const int64_t width : {3, 4}) model.layers.add(2, width, false);
  model.heads.add("words", 4, 5);
  model.heads.add("digits", 4, 6, false);
  model.norms.add("first").add(7);
  CHECK(names_in(model) == Names{"layers.0.weight", "layers.1.weight", "heads.words.weight", "heads.words.bias",
                                 "heads.digits.weight", "norms.first.0.weight", "norms.first.0.bias"});
  CHECK(model.heads["digits"].label() == std::string("heads.digits (Linear 4→6)"));
}

TEST_CASE("ModuleList: indices count from the end where negative, and the range is named where there is none") {
  Generator rng(1);
  Containers model(rng);
  CHECK_THROWS_WITH_AS(model.layers[0], "'layers' has no module 0: it is empty", IndexError);
  for (const int64_t width : {3, 4, 5}) model.layers.add(2, width);
  const Containers& same = model;
  CHECK(model.layers.size() == 3);
  CHECK(&model.layers[-1] == &model.layers[2]);
  CHECK(&same.layers[-3] == &model.layers[0]);
  CHECK_THROWS_WITH_AS(model.layers[3], "'layers' has no module 3: they run from -3 to 2", IndexError);
  CHECK_THROWS_WITH_AS(same.layers[-4], "'layers' has no module -4: they run from -3 to 2", IndexError);
  std::vector<const nn::Linear*> met;
  for (const nn::Linear& layer : same.layers) met.push_back(&layer);
  CHECK(met == std::vector<const nn::Linear*>{&model.layers[0], &model.layers[1], &model.layers[2]});
}

TEST_CASE("ModuleDict: modules by key, in the order in which they were added") {
  Generator rng(1);
  Containers model(rng);
  CHECK_THROWS_WITH_AS(model.heads["words"], "'heads' has no module 'words': it is empty", IndexError);
  nn::Linear& words = model.heads.add("words", 2, 3);
  for (int i = 0; i < 100; ++i) model.heads.add(std::to_string(i), 1, 1);
  const Containers& same = model;
  CHECK(&model.heads["words"] == &words);  // its address is stable
  CHECK(&same.heads["words"] == &words);
  CHECK(model.heads.size() == 101);
  CHECK(same.heads.contains("words"));
  CHECK_FALSE(same.heads.contains("word"));
  CHECK(same.heads.keys().front() == "words");
  CHECK(same.heads.keys().back() == "99");
  Names met;
  for (auto& [key, head] : model.heads) met.push_back(key + std::to_string(head.state().size()));
  CHECK(met.front() == "words2");
  CHECK(met.size() == 101);
  CHECK(words(ones({1, 2})).shape() == Shape{1, 3});
}

TEST_CASE("ModuleDict: keys that are not there or cannot be taken are refused, and nothing is added") {
  Generator rng(1);
  Containers model(rng);
  model.heads.add("words", 2, 3);
  model.heads.add("digits", 2, 3);
  const Containers& same = model;
  CHECK_THROWS_WITH_AS(model.heads["word"], "'heads' has no module 'word': its keys are words, digits", IndexError);
  CHECK_THROWS_WITH_AS(same.heads[""], "'heads' has no module '': its keys are words, digits", IndexError);
  CHECK_THROWS_WITH_AS(model.heads.add("words", 2, 3),
                       doctest::Contains("'heads' has a 'words' already; choose another name"), ValueError);
  CHECK_THROWS_WITH_AS(model.heads.add("a.b", 2, 3), doctest::Contains("no dots"), ValueError);
  CHECK_THROWS_AS(model.heads.add("bad", 0, 3), ValueError);
  CHECK(model.heads.keys() == Names{"words", "digits"});
  CHECK(names_in(model.heads).size() == 4);
}

TEST_CASE("ModuleList, ModuleDict: a state goes from one to another, and evaluation reaches their modules") {
  Generator rng(1);
  Containers from(rng), to(rng);
  for (Containers* model : {&from, &to}) {
    model->layers.add(2, 3);
    model->heads.add("words", 2, 3);
  }
  to.load_state(from);
  CHECK(allclose(to.heads["words"].weight(), from.heads["words"].weight(), 0, 0));
  CHECK(allclose(to.layers[0].weight(), from.layers[0].weight(), 0, 0));
  to.eval();
  CHECK_FALSE(to.heads["words"].training());
}

}  // namespace linnet::test
