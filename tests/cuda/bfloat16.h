#pragma once

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>

#include "tests/cuda/agreement.h"

/// Compares tensors of bfloat16 on a GPU with the same tensors of float32.

namespace linnet::test {

inline constexpr double kRounding = 0x1p-8;          // relative error of one number
inline constexpr double kRoundings = 2 * kRounding;  // after several ops, or of factors of products

/// Multiples of 1/64 in (−1, 1), which bfloat16 holds: float32 on the CPU, bfloat16 on the GPU.
inline Tensor held(const Shape& shape, uint64_t seed, Device device) {
  const Tensor x = uniform(shape, seed, -64, 64).to(DType::int32).to(DType::float32) / 64;
  return device == Device::cpu ? x : x.to(device).to(DType::bfloat16);
}

/// Checks f and its gradients for `held` inputs of these shapes: bfloat16 on the GPU must agree with float32 on the
/// CPU to a relative error of `allowed`.
using Moves = std::function<Tensor(const std::vector<Tensor>&)>;
inline void agree_in_bfloat16(const std::string& what, double allowed, const std::vector<Shape>& shapes,
                              const Moves& f) {
  const auto results = [&](Device device) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) inputs.push_back(held(shape, 3 + inputs.size(), device).set_requires_grad());
    std::vector<Tensor> all{f(inputs)};
    const Tensor cotangent = held(all[0].shape(), 2, device);
    for (Tensor& gradient : grad({all[0]}, inputs, {.grad_outputs = {cotangent}, .allow_unused = true})) {
      if (gradient.defined()) all.push_back(gradient);
    }
    return all;
  };
  const std::vector<Tensor> expected = results(Device::cpu), actual = results(Device::cuda);
  REQUIRE(actual.size() == expected.size());
  for (size_t r = 0; r < actual.size(); ++r) {
    CAPTURE(what);
    CAPTURE(r);
    CHECK(actual[r].dtype() == DType::bfloat16);
    CHECK(actual[r].shape() == expected[r].shape());
    CHECK(relative_error(actual[r].to_vector<double>(), expected[r].to_vector<double>()) <= allowed);
  }
}

inline Tensor ids(const Shape& shape, int64_t bound, Device device) {
  Generator generator(8);
  return randint(0, bound, shape, generator, DType::int64, device);
}

}  // namespace linnet::test
