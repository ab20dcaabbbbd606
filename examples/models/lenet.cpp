/// LeNet on MNIST: two convolutions and three linear layers learn to read digits.
///
///     build/bin/lenet data/mnist       # 5 epochs, and the accuracy after each
///     build/bin/lenet data/mnist 1     # 1 epoch
///
/// Source: LeCun et al. 1998, "Gradient-based learning applied to document recognition", as it is written today: max
/// pooling, ReLU and a softmax.

#include <cstdlib>
#include <iostream>

#include <linnet/linnet.h>
using namespace linnet;

struct LeNet : nn::Module {
  explicit LeNet(Generator& rng) : Module(rng) {}
  nn::Conv2d conv1{*this, "conv1", 1, 6, 5, {.padding = 2}};
  nn::Conv2d conv2{*this, "conv2", 6, 16, 5};
  nn::Linear fc1{*this, "fc1", 16 * 5 * 5, 120};
  nn::Linear fc2{*this, "fc2", 120, 84};
  nn::Linear fc3{*this, "fc3", 84, 10};

  /// [B, 784] → [B, 10]
  Tensor operator()(const Tensor& pixels) {
    Tensor x = pixels.reshape({-1, 1, 28, 28});
    x = max_pool2d(relu(conv1(x)), 2);  // [B, 6, 14, 14]
    x = max_pool2d(relu(conv2(x)), 2);  // [B, 16, 5, 5]
    x = relu(fc1(x.flatten(1)));
    return fc3(relu(fc2(x)));
  }
};

int main(int argc, char** argv) try {
  nn::Mnist data(argc > 1 ? argv[1] : "data/mnist");
  const int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 5;

  Generator rng(1337);
  LeNet model(rng);
  nn::AdamW optimizer(model.parameters());
  nn::Loader batches(data.train, {.batch = 64, .seed = 1337});
  const auto lr = nn::schedule::one_cycle({.max_lr = 4e-3, .steps = epochs * batches.batches_per_epoch()});

  int64_t step = 0;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    for (auto [x, y] : batches) {
      optimizer.set_lr(lr(step++));
      Tensor loss = cross_entropy(model(x), y);
      backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
    NoGrad no_grad;
    for (auto [x, y] : nn::Loader(data.test, {.batch = data.test.size()})) {
      std::cout << "epoch " << epoch << ": " << 100 * accuracy(model(x), y) << " % of the test digits are right\n";
    }
  }
} catch (const std::exception& error) {
  std::cerr << "lenet: " << error.what() << "\n";
  return 1;
}
