// Solutions to the exercises of chapter 4.

#include <fmt/core.h>

#include <algorithm>
#include <iostream>

#include "support/tasks/data_sets.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

struct Mlp : nn::Module {
  explicit Mlp(Generator& rng, DType dtype = DType::float32) : Module(rng, dtype) {}
  nn::Linear fc1{*this, "fc1", 784, 128};
  nn::Linear fc2{*this, "fc2", 128, 10};
  Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
};

// 1. A single layer reads about nine of ten digits. Small random weights make all logits small, so that every digit
//    has about the same probability, and the first loss is near log 10.

void train_single_layer(const examples::NamedImages& data) {
  struct Single : nn::Module {
    explicit Single(Generator& rng) : Module(rng) {}
    nn::Linear fc{*this, "fc", 784, 10};
  };
  Generator rng(1337);
  Single model(rng);
  nn::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  nn::Loader loader(data.train, {.batch = 64, .seed = 1337});
  double first = 0;
  for (const auto& [x, y] : loader) {
    const Tensor loss = cross_entropy(model.fc(x), y);
    if (first == 0) first = loss.item();
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  NoGrad no_grad;
  nn::Loader test(data.test, {.batch = data.test.size()});
  const auto [x, y] = *test.next();
  fmt::print("1. the first loss is {:.2f}; then {:.1f} % are read correctly\n", first,
             100 * accuracy(model.fc(x), y));
  check(first > 1.8 && first < 3.2, "the first loss is near log 10");
}

// 2. All hidden units are 0 and all weights of fc2 are 0, so only fc2's bias has a gradient. The hidden units get
//    none, because backward multiplies by fc2's weights. fc2's weights get none, because the hidden units are 0. The
//    model learns how often each digit occurs, and nothing about the image: its logits are the same for all images.

void start_with_zeros(const examples::NamedImages& data) {
  Generator rng(1337);
  Mlp model(rng);
  for (Tensor& parameter : model.parameters()) {
    NoGrad no_grad;
    parameter.fill_(0);
  }
  nn::SGD optimizer(model.parameters(), {.lr = 0.1});
  nn::Loader loader(data.train, {.batch = 64, .seed = 1337});
  const auto largest = [](const nn::Linear& layer) {
    return std::max(layer.weight().grad().abs().max().item(), layer.bias().grad().abs().max().item());
  };
  for (int step = 0; step < 5; ++step) {
    const auto [x, y] = *loader.next();
    optimizer.zero_grad();
    backward(cross_entropy(model(x), y));
    check(largest(model.fc1) == 0, "the first layer has no gradient");
    check(model.fc2.weight().grad().abs().max().item() == 0, "nor have the second layer's weights");
    optimizer.step();
    const Tensor logits = model(x);
    check(all(eq(logits, logits[0])).item<bool>(), "all images have the same logits");
  }
  fmt::print("2. largest gradients of five steps from weights of 0: fc1 0, fc2's weights 0, its bias {:.3f}\n",
             largest(model.fc2));
}

// 3. Let Z = fc1(x) and A = gelu(Z), and let G = (p − one-hot)/B be the gradient of the logits. Then dL/dA = G·W2 and
//    dL/dZ = dL/dA ∘ gelu'(Z). The bias is broadcast to all rows, so its gradient is the sum of dL/dZ over the rows.

void bias_gradient() {
  Generator rng(1);
  Mlp model(rng, DType::float64);
  const Tensor x = randn({5, 784}, rng, DType::float64), digits = arange(5);
  backward(cross_entropy(model(x), digits));

  const Tensor z = model.fc1(x).detach().set_requires_grad(), a = gelu(z);
  const Tensor gelu_slope = grad({a.sum()}, {z})[0];
  NoGrad no_grad;
  const Tensor g = (softmax(model.fc2(gelu(z)), 1) - one_hot(digits, 10, DType::float64)) / 5;
  const Tensor by_hand = (matmul(g, model.fc2.weight()) * gelu_slope).sum(0);
  const double difference = (by_hand - model.fc1.bias().grad()).abs().max().item();
  fmt::print("3. the bias' gradient by hand is backward's\n");
  check(difference < 1e-12, "the gradient of fc1's bias by hand is backward's");
}

int main(int argc, char** argv) try {
  examples::Settings settings;
  if (argc > 1) settings.data = argv[1];
  const examples::NamedImages data = examples::load_images(settings);
  train_single_layer(data);
  start_with_zeros(data);
  bias_gradient();
} catch (const std::exception& error) {
  std::cerr << "solutions/04_a_perceptron: " << error.what() << "\n";
  return 1;
}
