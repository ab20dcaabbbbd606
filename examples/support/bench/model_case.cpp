#include "support/bench/model_case.h"

#include <functional>
#include <map>
#include <memory>

#include <linnet/linnet.h>

#include "support/bench/bench_case.h"

namespace linnet::examples {
namespace {

/// As in examples/models/lenet.cpp.
struct LeNet : nn::Module {
  LeNet(Generator& rng, Device device) : Module(rng, DType::float32, device) {}
  nn::Conv2d conv1{*this, "conv1", 1, 6, 5, {.padding = 2}};
  nn::Conv2d conv2{*this, "conv2", 6, 16, 5};
  nn::Linear fc1{*this, "fc1", 16 * 5 * 5, 120};
  nn::Linear fc2{*this, "fc2", 120, 84};
  nn::Linear fc3{*this, "fc3", 84, 10};

  /// [B, 1, 28, 28] → [B, 10]
  Tensor operator()(const Tensor& images) const {
    Tensor x = max_pool2d(relu(conv1(images)), 2);
    x = max_pool2d(relu(conv2(x)), 2);
    return fc3(relu(fc2(relu(fc1(x.flatten(1))))));
  }
};

/// y = relu(x + norm2(conv2(relu(norm1(conv1(x))))))
///
/// Source: He et al. 2016, "Deep residual learning for image recognition", fig. 2.
struct ResidualBlock : nn::Module {
  ResidualBlock(nn::Module& parent, std::string name, int64_t channels)
      : Module(parent, std::move(name)),
        conv1(*this, "conv1", channels, channels, 3, {.padding = 1, .bias = false}),
        norm1(*this, "norm1", channels),
        conv2(*this, "conv2", channels, channels, 3, {.padding = 1, .bias = false}),
        norm2(*this, "norm2", channels) {}
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;

  Tensor operator()(const Tensor& x) { return relu(x + norm2(conv2(relu(norm1(conv1(x)))))); }
};

struct Residual : nn::Module {
  static constexpr int64_t kChannels = 64;
  Residual(Generator& rng, Device device) : Module(rng, DType::float32, device) {}
  ResidualBlock block1{*this, "block1", kChannels}, block2{*this, "block2", kChannels};
  ResidualBlock block3{*this, "block3", kChannels}, block4{*this, "block4", kChannels};
  nn::Linear head{*this, "head", kChannels, 10};

  /// [B, 64, H, W] → [B, 10]
  Tensor operator()(const Tensor& images) { return head(block4(block3(block2(block1(images)))).mean({2, 3})); }
};

/// A recurrent layer, and a linear one on its last output.
template <class Layer>
struct Reader : nn::Module {
  static constexpr int64_t kWidth = 256;
  Reader(Generator& rng, Device device) : Module(rng, DType::float32, device) {}
  Layer layer{*this, "layer", kWidth, kWidth, {.batch_first = true}};
  nn::Linear head{*this, "head", kWidth, 10};

  /// [B, T, 256] → [B, 10]
  Tensor operator()(const Tensor& x) const { return head(layer(x).output.select(1, -1)); }
};

/// A step of training `Model` on inputs of shape `shape`, of ten classes.
template <class Model>
std::function<void()> training_step(const Shape& shape, Generator& rng, Device device) {
  const auto model = std::make_shared<Model>(rng, device);
  const auto optimizer = std::make_shared<nn::AdamW>(model->parameters());
  const Tensor x = randn(shape, rng, DType::float32, device);
  const Tensor y = randint(0, 10, {shape[0]}, rng, DType::int64, device);
  return [=] {
    backward(cross_entropy((*model)(x), y));
    optimizer->step();
    optimizer->zero_grad();
    wait_for(model->parameters()[0]);
  };
}

struct BatchNorm : nn::Module {
  BatchNorm(Generator& rng, Device device) : Module(rng, DType::float32, device) {}
  nn::BatchNorm2d norm{*this, "norm", 64};
};

std::function<void()> batch_norm_step(Generator& rng, Device device) {
  const auto model = std::make_shared<BatchNorm>(rng, device);
  const Tensor x = randn({32, 64, 32, 32}, rng, DType::float32, device).set_requires_grad();
  const Tensor dy = randn(x.shape(), rng, DType::float32, device);
  return [=] {
    Tensor(x).set_grad({});
    for (Tensor parameter : model->parameters()) parameter.set_grad({});
    backward(model->norm(x), {.grad = dy});
    wait_for(x.grad());
  };
}

using StepMaker = std::function<void()> (*)(Generator& rng, Device device);

const std::map<std::string, StepMaker> kModels{
    {"lenet", [](Generator& rng, Device device) { return training_step<LeNet>({64, 1, 28, 28}, rng, device); }},
    {"residual",
     [](Generator& rng, Device device) { return training_step<Residual>({32, 64, 32, 32}, rng, device); }},
    {"gru",
     [](Generator& rng, Device device) { return training_step<Reader<nn::GRU>>({32, 128, 256}, rng, device); }},
    {"lstm",
     [](Generator& rng, Device device) { return training_step<Reader<nn::LSTM>>({32, 128, 256}, rng, device); }},
    {"batch_norm", batch_norm_step}};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kModels) names.push_back(name);
  return names;
}

Timing measure_model(const std::string& name, uint64_t seed, Device device, double seconds) {
  Generator rng(seed);
  return measure(kModels.at(name)(rng, device), seconds);
}

}  // namespace linnet::examples
