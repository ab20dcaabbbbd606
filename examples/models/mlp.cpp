#include <iostream>

#include <linnet/linnet.h>
using namespace linnet;

struct Mlp : nn::Module {
  explicit Mlp(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", 784, 128};
  nn::Linear fc2{*this, "fc2", 128, 10};
  Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
};

int main(int argc, char** argv) try {
  Generator rng(1337);
  Mlp model(rng);
  nn::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  nn::Mnist data(argc > 1 ? argv[1] : "data/mnist");
  for (auto [x, y] : nn::Loader(data.train, {.batch = 64, .seed = 1337})) {
    Tensor loss = cross_entropy(model(x), y);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  NoGrad no_grad;
  for (auto [x, y] : nn::Loader(data.test, {.batch = data.test.size()})) std::cout << accuracy(model(x), y) << "\n";
} catch (const std::exception& error) {
  std::cerr << "mlp: " << error.what() << "\n";
  return 1;
}
