/// A shared object that a program loads at run time: one step of training with linnet.
#include <linnet/linnet.h>
using namespace linnet;

struct Model : nn::Module {
  explicit Model(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", 256, 256};
  nn::Linear fc2{*this, "fc2", 256, 10};
};

/// The loss before the step. Large enough for linnet's threads to take part.
extern "C" double train_step(unsigned seed) {
  Generator rng(seed);
  Model model(rng);
  nn::SGD optimizer(model.parameters(), {.lr = 0.1});
  const Tensor x = randn({256, 256}, rng);
  const Tensor loss = cross_entropy(model.fc2(relu(model.fc1(x))), zeros({256}, DType::int64));
  backward(loss);
  optimizer.step();
  return loss.item<double>();
}
