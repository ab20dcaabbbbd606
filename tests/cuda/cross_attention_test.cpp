#include <linnet/linnet.h>

#include "tests/cuda/agreement.h"

namespace linnet::test {
namespace {

constexpr int64_t kWidth = 32, kTokens = 7, kMemory = 70;

struct CrossModel : nn::Module {
  CrossModel(const std::string& mechanism, DType dtype, Device device)
      : Module(rng, dtype, device),
        attention(nn::make_attention(*this, "attention",
                                     {.mechanism = mechanism, .width = kWidth, .heads = 2, .max_tokens = kMemory})) {}

  Generator rng{3};
  std::unique_ptr<nn::Attention> attention;
};

/// The results of a model on any device for the same inputs: cross-attention, its gradients of x and memory, and the
/// step form, as float64.
std::vector<std::vector<double>> results_of(const std::string& mechanism, DType dtype, Device device) {
  const CrossModel model(mechanism, dtype, device);
  const auto numbers = [&](const Shape& shape, uint64_t seed) {
    return spread(shape, seed, DType::float32, device).to(model.activation_dtype()).set_requires_grad();
  };
  const Tensor x = numbers({2, kTokens, kWidth}, 1), memory = numbers({2, kMemory, kWidth}, 2);
  Tensor mask = ones({2, kMemory}, DType::boolean);
  mask.narrow(1, 60, 10).fill_(false);
  const Tensor on_device = mask.to(device);
  const Tensor y = model.attention->cross(x, memory, {}, on_device);
  std::vector<std::vector<double>> results{y.to_vector<double>()};
  for (const Tensor& gradient : grad({sum(square(y.to(DType::float32)))}, {x, memory})) {
    results.push_back(gradient.to_vector<double>());
  }
  const auto state = model.attention->start(memory, on_device);
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < kTokens; ++t) steps.push_back(model.attention->step(*state, x.select(1, t)));
  results.push_back(stack(steps, 1).to_vector<double>());
  return results;
}

}  // namespace

TEST_CASE("gpu: cross-attention agrees with the CPU's, and that of bfloat16 with float32's to rounding") {
  if (!has_gpu("cross-attention on the GPU")) return;
  for (const std::string& mechanism : nn::cross_mechanisms()) {
    CAPTURE(mechanism);
    const auto expected = results_of(mechanism, DType::float32, Device::cpu);
    const auto single = results_of(mechanism, DType::float32, Device::cuda);
    const auto mixed = results_of(mechanism, DType::bfloat16, Device::cuda);
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_error(single[i], expected[i]) < 1e-4);
      CHECK(relative_error(mixed[i], expected[i]) < 0.03);
    }
  }
}

}  // namespace linnet::test
