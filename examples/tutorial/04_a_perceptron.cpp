// # 4. A perceptron on MNIST, and what each line costs
//
// MNIST has 60,000 images of handwritten digits, each of 28 × 28 = 784 pixels. A *multilayer perceptron* with one
// hidden layer learns to read them in one pass over the data, an *epoch*. This chapter trains it with the same loop
// as every training program, and measures the time of each line.

#include <fmt/core.h>

#include "support/bench/timing.h"
#include "support/plot/bar_chart.h"
#include "support/plot/image_sheet.h"
#include "support/tasks/data_sets.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## The model
//
// A linear layer is $xW^\top + b$ with a batch $x$ of $B$ rows. Two in a row would equal one with the weight
// $W_2 W_1$, so a nonlinear function stands between them: GELU, a smooth form of $\max(x, 0)$. The last layer
// computes ten *logits* $z$, one per digit. Softmax turns them into probabilities, $p_c = e^{z_c} / \sum_j e^{z_j}$.
// The loss, the *cross-entropy*, is the mean of $-\log p_t$, where $t$ is the right digit. It is 0 for a model that
// is certain and right, and $\log 10 = 2.30$ for one that gives every digit the same probability.

constexpr int64_t kBatch = 64, kPixels = 784, kHidden = 128, kDigits = 10;

struct Mlp : nn::Module {
  explicit Mlp(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", kPixels, kHidden};
  nn::Linear fc2{*this, "fc2", kHidden, kDigits};
  Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
};

// ## The gradient of cross-entropy
//
// Since $\log p_t = z_t - \log \sum_j e^{z_j}$, the derivative $\partial(-\log p_t)/\partial z_c$ is $p_c - 1$ for
// $c = t$ and $p_c$ otherwise: the probability minus its target, which is 1 for the right digit and 0 for the others.
// Probabilities and targets sum to 1, so each row of the gradient sums to 0.

void check_gradient() {
  Generator rng(1);
  const Tensor logits = randn({5, kDigits}, rng, DType::float64).set_requires_grad(), digits = arange(5);
  backward(cross_entropy(logits, digits));
  const Tensor by_hand = (softmax(logits, 1) - one_hot(digits, kDigits, DType::float64)) / 5;
  check((by_hand - logits.grad()).abs().max().item() < 1e-12, "the gradient of cross-entropy is (p - one-hot) / B");
}

// ## What a step should cost
//
// A product of $[B, m]$ and $[m, n]$ takes $Bmn$ multiply-adds, each of which is two *operations*. In forward, that
// is $2 \cdot 64 \cdot 784 \cdot 128 = 12.8$ million operations for the first layer and 0.16 million for the second.
// In backward, the gradient of a layer's weights takes as many again, and so does that of its input, which the first
// layer does not need: 13.2 million. AdamW updates each of the 101,770 parameters and its two moving averages.

struct Lines {
  std::vector<examples::Bar> bars;  // the milliseconds that each line took, summed over all steps
  size_t line = 0;
  examples::Clock::time_point last = examples::Clock::now();
  void lap(const char* name) {
    if (line == bars.size()) bars.push_back({name});
    bars[line++].value += examples::milliseconds_since(last);
    last = examples::Clock::now();
  }
};

int main(int argc, char** argv) try {
  check_gradient();
  examples::Settings settings;
  if (argc > 1) settings.data = argv[1];
  const examples::NamedImages data = examples::load_images(settings);
  Generator rng(1337);
  Mlp model(rng);
  nn::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  nn::Loader loader(data.train, {.batch = kBatch, .seed = 1337});
  Lines lines;
  for (const auto& [x, y] : loader) {
    lines.line = 0;
    lines.lap("batch x, y");
    const Tensor logits = model(x);
    lines.lap("model(x)");
    const Tensor loss = cross_entropy(logits, y);
    lines.lap("cross_entropy");
    backward(loss);
    lines.lap("backward");
    optimizer.step();
    lines.lap("step");
    optimizer.zero_grad();
    lines.lap("zero_grad");
  }
  NoGrad no_grad;
  nn::Loader test(data.test, {.batch = data.test.size(), .shuffle = false});
  const auto [images, digits] = *test.next();
  const Tensor found = argmax(model(images), 1), wrong = nonzero(ne(found, digits)).flatten();
  const double correct = accuracy(model(images), digits);
  fmt::print("{}: {:.2f} % of {} test images are read correctly\n", data.name, 100 * correct, digits.numel());
  check(correct > 0.9, "nine of ten test images are read correctly");
  for (auto& [at, ms, _] : lines.bars) fmt::print("{:13} {:.4f} ms\n", at, ms /= double(loader.batches_per_epoch()));
  const double millions = 2e-6 * kBatch * kHidden * (kPixels + kDigits), rate = millions / lines.bars[1].value;
  fmt::print("model(x) takes {:.1f} million operations, at {:.0f} billion per second\n", millions, rate);
  write_png(examples::BarChart{"What each line of a step costs", data.name, "ms", lines.bars}, "04_lines.png");
  const Tensor sheet = index_select(images, 0, wrong.narrow(0, 0, std::min<int64_t>(40, wrong.numel())));
  write_png(examples::ImageSheet{"Read wrongly", data.name, (sheet * 0.3081 + 0.1307).reshape({-1, 28, 28})},
            "04_wrong.png");
} catch (const std::exception& error) {
  fmt::print(stderr, "04_a_perceptron: {}\n", error.what());
  return 1;
}
// <!-- output -->
// The model's operations explain why `model(x)` and `backward` take about the same time. A batch has only 50,176
// pixels, but one thread of the loader converts each of them. `batch x, y` is the time that the loop waits for it.
//
// ![Milliseconds of each line of a training step](04_lines.png)
//
// ![Test images that the model reads wrongly](04_wrong.png)
//
// ## Exercises
//
// 1. How well does a single linear layer read the digits? And is the first loss near 2.30?
// 2. Start both layers with weights of 0. Why do the hidden units stay equal, and what does the model learn then?
// 3. Derive the gradient of the first layer's bias by hand, with $\mathrm{gelu}'$ from `grad`, and check it.
