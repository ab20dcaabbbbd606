/// A complete small GPT: it learns a text, and then writes a similar one, character by character.
///
///     build/bin/gpt my.txt        # or a folder of .txt files; without one, linnet's own sources
///     build/bin/gpt my.txt 500    # 500 steps instead of kSteps
///
/// Shapes: B is kBatch, N is kContext, and V is the number of different characters in the text.

#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <linnet/linnet.h>
using namespace linnet;

// The settings that nanoGPT gives for a CPU. A larger model, or more steps, writes better and takes longer.
constexpr int64_t kContext = 64;  // the number of earlier characters that the model sees
constexpr int64_t kLayers = 4;
constexpr int64_t kHeads = 4;
constexpr int64_t kWidth = 128;
constexpr double kDropout = 0;  // use 0.2 for a model that is large enough to memorise the text

constexpr int64_t kBatch = 12;
constexpr int64_t kSteps = 2000;
constexpr double kMaxLr = 1e-3;  // after the warm-up
constexpr double kMinLr = 1e-4;  // at the end
constexpr double kBeta2 = 0.99;  // of AdamW, as kWeightDecay
constexpr double kWeightDecay = 0.1;
constexpr double kMaxNorm = 1;  // of the gradients of all parameters together

constexpr int64_t kEvalEvery = 250;
constexpr int64_t kEvalBatches = 20;
constexpr int64_t kSampleLength = 500;

/// The mean loss of random windows of `text`.
double evaluate(nn::DecoderLM& model, std::span<const int64_t> text) {
  const NoGrad no_grad;  // nothing is recorded for backward, which saves time and memory
  model.eval();          // dropout does nothing
  Generator rng(1);      // a new one each time: all evaluations draw the same windows, and can be compared
  double total = 0;
  for (int64_t i = 0; i < kEvalBatches; ++i) {
    const auto [x, y] = nn::random_windows(text, kBatch, kContext, rng.next());
    total += cross_entropy(model(x), y).item();
  }
  model.train();
  return total / kEvalBatches;
}

int main(int argc, char** argv) try {
  // The data: each character is its number in the vocabulary, which lists the characters of the text. The last tenth
  // of the text is held out; its loss shows whether the model learns the language or only memorises the rest.
  const nn::CharText text = argc > 1 ? nn::CharText::read(argv[1]) : nn::CharText::of_this_project();
  const nn::Vocabulary& vocabulary = text.vocabulary();
  if (std::ssize(text.validation()) <= kContext) {
    throw ValueError("the text is too short: its last tenth, which is held out, must have more than " +
                     std::to_string(kContext) + " characters");
  }

  // The model. All random numbers come from the generator, so that the same seed gives the same run, bit for bit.
  Generator rng(1337);
  nn::DecoderLM model(rng,
                      {.vocabulary = vocabulary.size(),
                       .context = kContext,
                       .layers = kLayers,
                       .block = {.attention = {.width = kWidth, .heads = kHeads, .bias = false, .dropout = kDropout},
                                 .dropout = kDropout}});
  const std::vector<Tensor> parameters = model.parameters();

  // The optimizer. Weight decay applies to matrices and embeddings, but not to the norms' gains, which belong near 1.
  nn::AdamW optimizer(nn::decay_matrices_only(parameters, kWeightDecay), {.lr = kMaxLr, .beta2 = kBeta2});

  // The learning rate rises at first, while AdamW's averages rest on few gradients. Then it falls along a cosine, so
  // that the weights settle.
  const int64_t steps =
      argc > 2 ? std::atoll(argv[2]) : kSteps;  // a word that is no number becomes 0, which is refused
  const nn::Schedule learning_rate =
      nn::schedule::warmup_cosine({.lr = kMaxLr, .min_lr = kMinLr, .warmup = steps / 20, .steps = steps});

  const auto report = [&](int64_t step) {
    std::cout << "step " << step << ": train loss " << evaluate(model, text.train()) << ", val loss "
              << evaluate(model, text.validation()) << "\n"
              << std::flush;
  };

  for (int64_t step = 0; step < steps; ++step) {
    if (step % kEvalEvery == 0) report(step);
    optimizer.set_lr(learning_rate(step));
    // Inputs and targets, [B, N]: the target of each character is the one after it.
    const auto [x, y] = nn::random_windows(text.train(), kBatch, kContext, rng.next());
    const Tensor logits = model(x);                // [B, N, V]
    const Tensor loss = cross_entropy(logits, y);  // a single number, the mean over all B·N predictions
    backward(loss);                                // adds to the gradient of each parameter
    nn::clip_grad_norm_(parameters, kMaxNorm);     // so that one unusual batch does not undo many steps
    optimizer.step();
    optimizer.zero_grad();  // or the next backward would add to these gradients
  }
  report(steps);

  // A sample: it starts with the first character of the text, and each next one is drawn by its probability.
  const auto start = text.train().first(1);
  const std::vector<int64_t> sample = nn::generate(model, start, rng, {.max_new_tokens = kSampleLength});
  std::cout << "\n" << vocabulary.decode(start) << vocabulary.decode(sample) << "\n";

  model.save("gpt.safetensors");  // model.load("gpt.safetensors") restores these weights
} catch (const std::exception& error) {
  std::cerr << "gpt: " << error.what() << "\n";
  return 1;
}
