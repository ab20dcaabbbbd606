/// A user's program: it trains one layer for one step, and catches an error of the library.
#include <iostream>

#include <linnet/linnet.h>
using namespace linnet;

struct Model : nn::Module {
  explicit Model(Generator& rng) : Module(rng) {}
  nn::Linear fc{*this, "fc", 4, 2};
};

int main() {
  Generator rng(1337);
  Model model(rng);
  nn::SGD optimizer(model.parameters(), {.lr = 0.1});
  const Tensor loss = cross_entropy(model.fc(randn({8, 4}, rng)), zeros({8}, DType::int64));
  backward(loss);
  optimizer.step();
  try {
    matmul(loss, loss);
    return 1;
  } catch (const ShapeError& error) {
    std::cout << error.what() << "\n";
  }
  std::cout << "loss " << loss.item<double>() << "\n" << build_info() << "\n";
}
