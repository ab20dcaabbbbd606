// Solutions to the exercises of chapter 12.

#include <fmt/core.h>

#include <cmath>
#include <iostream>
#include <set>
#include <vector>

#include "support/tasks/data_sets.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

nn::DecoderConfig config(const char* mechanism, int64_t vocabulary, int64_t short_conv = 0) {
  const nn::AttentionConfig attention{
      .mechanism = mechanism, .width = 64, .heads = 4, .bias = false, .short_conv = short_conv};
  return {.vocabulary = vocabulary, .context = 64, .layers = 2, .block = {.attention = attention}};
}

/// The loss on held-out text after 200 steps.
double train(nn::DecoderLM& model, const nn::CharText& text) {
  nn::AdamW optimizer(model.parameters(), {.lr = 2e-3, .beta2 = 0.99});
  for (uint64_t step = 0; step < 200; ++step) {
    const auto [x, y] = nn::random_windows(text.train(), 12, 64, {1, step});
    backward(cross_entropy(model(x), y));
    optimizer.step();
    optimizer.zero_grad();
  }
  const NoGrad no_grad;
  const auto [x, y] = nn::random_windows(text.validation(), 64, 64, {2, 0});
  return cross_entropy(model(x), y).item();
}

// 1. The temperature divides the logits. A low one picks the likeliest characters, and the text repeats itself. A
//    high one makes all characters about equally likely, and words fall apart.

void write_text(nn::DecoderLM& model, const nn::CharText& text) {
  std::vector<size_t> different;
  for (const double temperature : {0.1, 0.8, 5.0}) {
    Generator rng(3);
    const std::vector<int64_t> sample =
        nn::generate(model, text.train().first(1), rng, {.max_new_tokens = 200, .temperature = temperature});
    different.push_back(std::set<int64_t>(sample.begin(), sample.end()).size());
    fmt::print("1. temperature {}, {} different characters:\n{}\n\n", temperature, different.back(),
               text.vocabulary().decode(sample));
  }
  check(different[0] < different[1] && different[1] < different[2], "a higher temperature takes more characters");
}

// 2. Additive attention sums over all tokens of the prefix, so it does not know which one came last. A short
//    convolution mixes each token with the three before it, and so tells the model the order of the nearest
//    characters.

void add_short_convolution(const nn::CharText& text, int64_t vocabulary) {
  Generator rng(1337);
  nn::DecoderLM without(rng, config("fastformer", vocabulary)), with(rng, config("fastformer", vocabulary, 4));
  const double plain = train(without, text), convolved = train(with, text);
  fmt::print("2. Fastformer after 200 steps: {:.2f}, with a short convolution {:.2f}\n", plain, convolved);
  check(convolved < plain, "the short convolution helps");
}

// 3. About log V: with small weights all characters have about the same probability. A much larger loss means that
//    the model is certain before it has learned anything. Its logits, and so its initial weights, are too large.

void first_loss(const nn::DecoderLM& model, const nn::CharText& text, int64_t vocabulary) {
  const NoGrad no_grad;
  const auto [x, y] = nn::random_windows(text.validation(), 16, 64, {4, 0});
  const double loss = cross_entropy(model(x), y).item(), guess = std::log(double(vocabulary));
  fmt::print("3. the first loss is {:.2f}, and log V is {:.2f}\n", loss, guess);
  check(std::abs(loss - guess) < 0.3, "the first loss is near log V");
}

int main(int argc, char** argv) try {
  examples::Settings settings;
  if (argc > 1) settings.data = argv[1];
  const examples::NamedText data = examples::load_text(settings);
  const int64_t vocabulary = data.text.vocabulary().size();
  Generator rng(1337);
  nn::DecoderLM model(rng, config("softmax", vocabulary)), untrained(rng, config("softmax", vocabulary));
  train(model, data.text);
  write_text(model, data.text);
  add_short_convolution(data.text, vocabulary);
  first_loss(untrained, data.text, vocabulary);
} catch (const std::exception& error) {
  std::cerr << "solutions/12_training: " << error.what() << "\n";
  return 1;
}
