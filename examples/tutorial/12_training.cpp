// # 12. Training on Shakespeare
//
// A language model gives a probability to every character that may come next. This chapter trains small models on
// Shakespeare's plays, and explains their losses and attention maps.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "support/plot/heat_map.h"
#include "support/plot/plot.h"
#include "support/tasks/data_sets.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;
using Text = std::span<const int64_t>;  // each character is a number in the vocabulary

// ## What is a good loss?
//
// Three baselines show what a loss per character means. A guess has a loss of $\log V$ for $V$ characters. The other
// two count how often each character occurs, and how often each pair of characters does. A network that beats the
// second baseline uses the text before a character. One that beats the third uses more than one character of it.

double print_baselines(Text train, Text held_out, int64_t vocabulary) {
  std::vector<double> counts(size_t(vocabulary * vocabulary), 1);  // so that no probability is 0
  for (size_t i = 1; i < train.size(); ++i) counts[size_t(train[i - 1] * vocabulary + train[i])] += 1;
  const Tensor pairs = tensor(counts, {vocabulary, -1}), after = log(pairs / pairs.sum(1, true));
  const Tensor single = log(pairs.sum(0) / pairs.sum());
  const Tensor ids = from_span(held_out), previous = ids.slice(0, 0, -1), next = ids.narrow(0, 1, ids.numel() - 1);
  const double by_pairs = -after.flatten().index_select(0, previous * vocabulary + next).mean().item();
  const double by_counts = -single.index_select(0, next).mean().item();
  fmt::print("guessing {:.2f}, counts {:.2f}, counts of pairs {:.2f}\n", std::log(vocabulary), by_counts, by_pairs);
  return by_counts;
}

// ## Training
//
// Each model has two Transformer layers, which read 64 characters and predict the next one at each position. The
// first model has softmax attention, and the second has fastmax2. The third is like the first, but sees only 2,000
// characters. The learning rate rises at first, while Adam's averages rest on few gradients, and then falls.

constexpr int64_t kBatch = 12, kContext = 64, kSteps = 400;

double loss_of(const nn::DecoderLM& model, Text text, uint64_t seed) {
  const NoGrad no_grad;
  const auto [x, y] = nn::random_windows(text, 32, kContext, {seed, 0});  // the same windows at each step
  return cross_entropy(model(x), y).item();
}

using Curves = std::pair<examples::Series, examples::Series>;  // of the training text and of held-out text
Curves train(nn::DecoderLM& model, Text text, Text held_out, const std::string& name) {
  Curves curves{{.label = name + ", trained on", .light = true}, {.label = name + ", held out"}};
  nn::AdamW optimizer(model.parameters(), {.beta2 = 0.99});
  const nn::Schedule rate = nn::schedule::warmup_cosine({.lr = 2e-3, .min_lr = 2e-4, .warmup = 40, .steps = kSteps});
  for (int64_t step = 0; step <= kSteps; ++step) {
    if (step % 40 == 0) {
      curves.first.x.push_back(double(step)), curves.first.y.push_back(loss_of(model, text, 1));
      curves.second.x.push_back(double(step)), curves.second.y.push_back(loss_of(model, held_out, 2));
    }
    optimizer.set_lr(rate(std::min(step, kSteps - 1)));
    const auto [x, y] = nn::random_windows(text, kBatch, kContext, {3, uint64_t(step)});
    backward(cross_entropy(model(x), y));
    optimizer.step();
    optimizer.zero_grad();
  }
  fmt::print("{}: {:.2f} on its text, {:.2f} held out\n", name, curves.first.y.back(), curves.second.y.back());
  return curves;
}

int main(int argc, char** argv) try {
  examples::Settings settings;
  if (argc > 1) settings.data = argv[1];
  const examples::NamedText data = examples::load_text(settings);
  const Text text = data.text.train(), held_out = data.text.validation();
  const nn::Vocabulary& vocabulary = data.text.vocabulary();
  const double by_counts = print_baselines(text, held_out, vocabulary.size());
  Generator rng(1337);
  nn::DecoderConfig config{.vocabulary = vocabulary.size(), .context = kContext, .layers = 2};
  config.block.attention = {.width = 64, .heads = 4, .bias = false};  // the default is softmax
  nn::DecoderLM softmax(rng, config), small(rng, config);
  config.block.attention.mechanism = "fastmax2";
  nn::DecoderLM fastmax(rng, config);
  const Curves a = train(softmax, text, held_out, "softmax"), b = train(fastmax, text, held_out, "fastmax2");
  const Curves c = train(small, text.first(2000), held_out, "2,000 characters");
  check(std::max(a.second.y.back(), b.second.y.back()) < by_counts, "both use what comes before");
  check(c.first.y.back() < 1.5 && c.second.y.back() > c.second.y[4], "the third overfits");
  const std::vector<examples::Series> lines{a.second, b.second, c.second, c.first};
  write_png(examples::LineChart{"Losses", data.name, "step", "loss", false, false, lines}, "12_losses.png");
  const NoGrad no_grad;
  const Text line = held_out.first(24);
  std::vector<std::string> characters;
  for (const int64_t id : line) characters.push_back(vocabulary.decode({&id, 1}));
  nn::AttentionMaps maps;  // collects the weights of each layer
  softmax(from_span(line).unsqueeze(0));
  examples::HeatMapGrid grid{.title = "Where each character looks, first layer", .columns = 2};
  for (int64_t head = 0; head < 4; ++head) {
    const Tensor weights = maps.all()[0].weights[{0, head}];
    grid.maps.push_back({fmt::format("head {}", head), 24, 24, weights.to_vector<double>(), characters, characters});
  }
  write_png(grid, "12_maps.png");
} catch (const std::exception& error) {
  std::cerr << "12_training: " << error.what() << "\n";
  return 1;
}
// <!-- output -->
// The first two end below the counts of pairs. The third model's loss on its own text keeps falling, while its loss
// on other text rises: it memorises the 2,000 characters. This is *overfitting*, and only held-out text shows it.
// ![Losses of three models against steps](12_losses.png)
//
// Row $i$ of a map shows where character $i$ looks. Its weights sum to 1, and they are 0 right of the diagonal.
//
// ![Attention weights of four heads: a bright column is a character that many look at](12_maps.png)
//
// ## Exercises
//
// 1. Write 200 characters with a trained model. Which temperature makes the text wrong, and which makes it dull?
// 2. Train Fastformer too. What does `short_conv = 4` change, and why?
// 3. How large should the loss be at the first step, and what does it mean if it is much larger?
