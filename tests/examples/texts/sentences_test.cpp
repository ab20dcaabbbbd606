/// Texts on two levels: their sentences, and the classifier with an encoder of words and one of sentences.

#include "support/texts/sentences.h"

#include <cmath>
#include <numeric>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/nn/attention/mechanism.h>

#include "support/settings/program.h"
#include "support/texts/hierarchical_classifier.h"
#include "support/texts/text_data.h"
#include "tests/support/files.h"
#include "tests/support/near.h"
#include "tests/support/quiet.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::largest_difference;
using linnet::test::same_bits;

namespace {

/// The sentences' words, with spaces between them and "|" between sentences.
std::string split(const std::string& text) {
  const auto vocabulary = nn::WordVocabulary::build(std::vector<std::string>{text});
  std::string all;
  for (const std::vector<int32_t>& sentence : sentences_of(text, vocabulary)) {
    all += all.empty() ? "" : "|";
    for (size_t i = 0; i < sentence.size(); ++i) {
      all += (i > 0 ? " " : "") + vocabulary.words()[static_cast<size_t>(sentence[i])];
    }
  }
  return all;
}

Settings two_levels(const std::string& attention) {
  Settings s = settings_of(attention, preset("own-texts", "classify-own-texts-small"));
  s.texts.levels = "sentence";
  s.width = 8;
  s.heads = 2;
  s.dropout = 0;
  return s;
}

nn::Batch batch_of(std::vector<Sentences> texts) {
  std::vector<int64_t> all(texts.size());
  std::iota(all.begin(), all.end(), 0);
  return SentenceDataset(std::move(texts), zeros({std::ssize(all)}, DType::int64)).collate(all, {});
}

const std::vector<Sentences> kTexts{{{2, 3, 4}, {5}, {6, 2}}, {{7, 7, 3, 1, 5}}};

/// A part of a model's state, and functions that compute its layers.
class Layers {
 public:
  Layers(TensorMap state, std::string prefix) : state_(std::move(state)), prefix_(std::move(prefix)) {}
  Layers operator[](const std::string& name) const { return {state_, prefix_ + name + "."}; }

  Tensor at(const std::string& name) const { return state_.at(prefix_ + name); }
  Tensor linear(const Tensor& x) const { return matmul(x, at("weight").transpose(0, 1)) + at("bias"); }
  Tensor norm(const Tensor& x) const {
    const Tensor centered = x - mean(x, {-1}, true);
    return centered / sqrt(mean(centered * centered, {-1}, true) + 1e-5) * at("weight") + at("bias");
  }

 private:
  TensorMap state_;
  std::string prefix_;
};

/// Softmax attention of two heads, on tokens [N, C].
Tensor attend(const Layers& attention, const Tensor& x) {
  const std::vector<Tensor> qkv = attention["qkv"].linear(x).chunk(3, 1);
  std::vector<Tensor> heads;
  for (size_t i = 0; i < 2; ++i) {
    const Tensor q = qkv[0].chunk(2, 1)[i], k = qkv[1].chunk(2, 1)[i], v = qkv[2].chunk(2, 1)[i];
    heads.push_back(matmul(softmax(matmul(q, k.transpose(0, 1)) / std::sqrt(static_cast<double>(q.size(1))), -1), v));
  }
  return attention["out"].linear(concat(heads, 1));
}

/// The vector [C] of tokens [N, C], without padding.
Tensor encode(const Layers& encoder, Tensor x) {
  x = encoder["norm"].norm(x + encoder["pos"].at("weight").narrow(0, 0, x.size(0)));
  for (const std::string layer : {"blocks.0", "blocks.1"}) {
    const Layers block = encoder[layer];
    x = block["norm1"].norm(x + attend(block["attention"], x));
    x = block["norm2"].norm(x + block["mlp"]["fc2"].linear(gelu(block["mlp"]["fc1"].linear(x))));
  }
  const Tensor scores = encoder["pool"]["fc2"].linear(tanh(encoder["pool"]["fc1"].linear(x)));  // [N, 1]
  return sum(softmax(scores, 0) * x, {0});
}

/// The logits [texts, classes], computed for one text, one sentence and one word after the other.
Tensor plain_logits(const Layers& model, const std::vector<Sentences>& texts) {
  std::vector<Tensor> logits;
  for (const Sentences& text : texts) {
    std::vector<Tensor> sentences;
    for (const std::vector<int32_t>& sentence : text) {
      std::vector<Tensor> words;
      for (const int32_t word : sentence) words.push_back(model["map"].linear(model["tok"].at("weight")[word]));
      sentences.push_back(encode(model["sentences"], stack(words, 0)));
    }
    logits.push_back(model["fc"].linear(encode(model["texts"], stack(sentences, 0))));
  }
  return stack(logits, 0);
}

}  // namespace

TEST_CASE("sentences end at marks and at the ends of lines") {
  CHECK(split("To be. Or not? Yes!") == "to be .|or not ?|yes !");
  CHECK(split("No mark\nbut lines\r\nof words\ror more") == "no mark|but lines|of words|or more");
  CHECK(split("Wait... what?! Pay 3.50 now") == "wait . . .|what ? !|pay 3.50 now");
  CHECK(split("\n\n  \n. . x\n") == ". .|x");
  CHECK(split("a\n.\nb") == "a|.|b");
  CHECK(split("") == "<unk>");
  CHECK(split(" \r\n ") == "<unk>");
}

TEST_CASE("the first 64 words of the first 64 sentences are read, and texts that have more are counted") {
  Sentences text(65, {2, 3});
  CHECK(cut(text));
  CHECK(text.size() == 64);
  CHECK_FALSE(cut(text));
  text = {{2}, std::vector<int32_t>(65, 3), {4}};
  CHECK(cut(text));
  CHECK(text[1] == std::vector<int32_t>(64, 3));
  CHECK(text.size() == 3);
  CHECK_FALSE(cut(text));

  const linnet::test::TemporaryFolder folder;
  std::string many, one;
  for (int i = 0; i < 65; ++i) many += "good word. ", one += "bad ";
  linnet::test::write_bytes(folder / "train.tsv", fmt::format("a\t{}\nb\t{}\na\tgood. good good!\n", many, one));
  for (const std::string part : {"dev.tsv", "test.tsv"}) linnet::test::write_bytes(folder / part, "b\t\n");
  Settings settings = two_levels("softmax");
  settings.data = folder.path();
  const TextData texts = [&] {
    const linnet::test::Quiet quiet(STDERR_FILENO);
    return text_data(load_labelled_texts(settings), settings);
  }();
  CHECK(texts.data.train.lengths == std::vector<int64_t>{64 * 3, 64, 5});
  CHECK(texts.data.test.lengths == std::vector<int64_t>{1});
  const std::vector<int64_t> two{1, 2};
  const nn::Batch batch = texts.data.train.data->collate(two, {});
  CHECK(batch.targets.to_vector<int64_t>() == std::vector<int64_t>{1, 0});
  CHECK(batch.inputs.shape() == Shape{3, 64});
  CHECK(batch.others[0].to(DType::int64).sum().item<int64_t>() == 2 + 3 + 64);
  CHECK(batch.others[1].to_vector<int64_t>() == std::vector<int64_t>{0, 0, 1, 2});
  CHECK(batch.others[2].to_vector<bool>() == std::vector<bool>{true, false, true, true});
  const std::vector<int64_t> beyond{3};
  CHECK_THROWS_AS(texts.data.train.data->collate(beyond, {}), IndexError);
}

TEST_CASE("a classifier on two levels computes what one word after the other gives") {
  Generator rng(1);
  const Settings settings = two_levels("softmax");
  HierarchicalClassifier model(rng, settings, 9, 3, 5, DType::float64);
  Generator values(2);
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor of = parameter;
    const NoGrad no_grad;
    of.copy_(
        randn(of.shape(), values, DType::float64));  // initial values of 0, 1 or small numbers could hide a mistake
  }
  model.eval();
  const Tensor logits = model(batch_of(kTexts)), expected = plain_logits(Layers(model.state(), ""), kTexts);
  CHECK(logits.shape() == Shape{2, 3});
  CHECK(largest_difference(logits, expected) < 1e-12);
  CHECK(largest_difference(expected[0], expected[1]) > 0.1);
}

TEST_CASE("padding of words and of sentences does not matter to a classifier on two levels") {
  for (const std::string& attention : nn::attention_mechanisms()) {
    CAPTURE(attention);
    Generator rng(1);
    HierarchicalClassifier model(rng, two_levels(attention), 9, 3, 0, DType::float64);
    model.eval();
    nn::Batch batch = batch_of(kTexts);
    const Tensor before = model(batch);
    CHECK(isfinite(before).all().item<bool>());
    const Tensor of_words = batch.others[0].to(DType::int64), of_texts = batch.others[2].to(DType::int64);
    batch.inputs = batch.inputs * of_words + (1 - of_words) * 8;
    batch.others[1] = batch.others[1] * of_texts + (1 - of_texts) * 2;
    CHECK(batch.inputs[1].to_vector<int64_t>() == std::vector<int64_t>{5, 8, 8, 8, 8});
    CHECK(same_bits(model(batch), before));
    if (attention != "softmax" && attention != "fastformer") continue;  // others depend on the amount
    const Tensor alone = model(batch_of({kTexts[0]}));
    CHECK(largest_difference(alone[0], before[0]) < 1e-12);
  }
}

TEST_CASE("every parameter of a classifier on two levels learns") {
  Generator rng(1);
  const HierarchicalClassifier model(rng, two_levels("fastformer"), 9, 3, 5, DType::float64);
  CHECK(model.embeddings().abs().max().item<double>() < 0.2);  // they begin as N(0, 0.02)
  const nn::Batch batch = batch_of(kTexts);
  backward(cross_entropy(model(batch), tensor(std::vector<int64_t>{0, 2})));
  for (const auto& [name, parameter] : model.named_parameters()) {
    CAPTURE(name);
    REQUIRE(parameter.grad().defined());
    if (name.ends_with("pool.fc2.bias")) continue;  // it cancels in the softmax of the pooling
    CHECK(parameter.grad().abs().max().item<double>() > 1e-12);
  }
}
