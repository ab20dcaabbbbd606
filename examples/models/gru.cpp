/// A GRU that learns a text, and then writes a similar one, character by character. Compare it with gpt.cpp: instead
/// of attention it has a state, which holds all that the model knows of the text so far.
///
///     build/bin/gru my.txt        # or a folder of .txt files; without one, linnet's own sources
///     build/bin/gru my.txt 500    # 500 steps instead of kSteps
///
/// Shapes: B is kBatch, T is kContext, and V is the number of different characters in the text.
///
/// Source: Cho et al. 2014; as a model of characters, Karpathy 2015, "The unreasonable effectiveness of recurrent
/// neural networks".

#include <cstdlib>
#include <iostream>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <linnet/linnet.h>
using namespace linnet;

constexpr int64_t kContext = 64;  // the number of characters that gradients go back
constexpr int64_t kEmbedding = 64;
constexpr int64_t kWidth = 256;  // of the state
constexpr int64_t kBatch = 32;
constexpr int64_t kSteps = 2000;
constexpr double kMaxLr = 3e-3;
constexpr int64_t kEvalEvery = 250;
constexpr int64_t kEvalBatches = 20;
constexpr int64_t kSampleLength = 500;

struct CharGRU : nn::Module {
  CharGRU(Generator& rng, int64_t vocabulary)
      : Module(rng),
        embedding(*this, "embedding", vocabulary, kEmbedding),
        gru(*this, "gru", kEmbedding, kWidth, {.batch_first = true}),
        head(*this, "head", kWidth, vocabulary) {}
  nn::Embedding embedding;
  nn::GRU gru;
  nn::Linear head;

  /// Logits [B, T, V] for the character after each of ids [B, T], and the state after the last one. `state` is that
  /// of earlier characters, or undefined if there are none.
  std::pair<Tensor, Tensor> operator()(const Tensor& ids, const Tensor& state = {}) const {
    const auto [output, last] = gru(embedding(ids), {.h0 = state});
    return {head(output), last};
  }
};

/// The mean loss of random windows of `text`, the same ones each time.
double evaluate(const CharGRU& model, std::span<const int64_t> text) {
  const NoGrad no_grad;
  Generator rng(1);
  double total = 0;
  for (int64_t i = 0; i < kEvalBatches; ++i) {
    const auto [x, y] = nn::random_windows(text, kBatch, kContext, rng.next());
    total += cross_entropy(model(x).first, y).item();
  }
  return total / kEvalBatches;
}

/// Characters after `start`, each drawn by its probability. Thanks to the state, each step costs the same, however
/// long the text is.
std::vector<int64_t> sample(const CharGRU& model, std::span<const int64_t> start, Generator& rng) {
  const NoGrad no_grad;
  std::vector<int64_t> ids;
  auto [logits, state] = model(tensor(std::vector<int64_t>(start.begin(), start.end())).reshape({1, -1}));
  for (int64_t i = 0; i < kSampleLength; ++i) {
    ids.push_back(multinomial(softmax(logits[{0, -1}], -1), 1, rng).item<int64_t>());
    std::tie(logits, state) = model(tensor<int64_t>({ids.back()}).reshape({1, 1}), state);
  }
  return ids;
}

int main(int argc, char** argv) try {
  const nn::CharText text = argc > 1 ? nn::CharText::read(argv[1]) : nn::CharText::of_this_project();
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : kSteps;
  Generator rng(1337);
  CharGRU model(rng, text.vocabulary().size());
  nn::AdamW optimizer(model.parameters(), {.lr = kMaxLr});
  const auto lr = nn::schedule::one_cycle({.max_lr = kMaxLr, .steps = steps});

  for (int64_t step = 0; step < steps; ++step) {
    optimizer.set_lr(lr(step));
    const auto [x, y] = nn::random_windows(text.train(), kBatch, kContext, rng.next());
    const Tensor loss = cross_entropy(model(x).first, y);
    backward(loss);
    nn::clip_grad_norm_(model.parameters(), 1);  // gradients through many steps of the text may grow
    optimizer.step();
    optimizer.zero_grad();
    if ((step + 1) % kEvalEvery == 0 || step + 1 == steps) {
      std::cout << "step " << step + 1 << ": train loss " << evaluate(model, text.train()) << ", val loss "
                << evaluate(model, text.validation()) << "\n"
                << std::flush;
    }
  }
  const auto start = text.train().first(1);
  std::cout << "\n" << text.vocabulary().decode(start) << text.vocabulary().decode(sample(model, start, rng)) << "\n";
} catch (const std::exception& error) {
  std::cerr << "gru: " << error.what() << "\n";
  return 1;
}
