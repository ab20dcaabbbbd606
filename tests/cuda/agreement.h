#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>

#include "tests/support/gpu.h"
#include "tests/support/near.h"
#include "tests/support/values.h"

/// Compares computations on the CPU and on the GPU, at sizes that need several blocks.

namespace linnet::test {

/// Makes its own inputs, on the given device.
using Computation = std::function<std::vector<Tensor>(Device device)>;

/// Values in [low, high), given by `seed`, the same on every device.
inline Tensor spread(const Shape& shape, uint64_t seed, DType dtype, Device device, double low = -1,
                     double high = 1) {
  return uniform(shape, seed, low, high).to(dtype).to(device);
}

/// f's result and the gradients of its inputs.
inline std::vector<Tensor> with_gradients(std::vector<Tensor> inputs,
                                          const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  for (Tensor& input : inputs) input.set_requires_grad();
  std::vector<Tensor> results{f(inputs)};
  const Tensor cotangent = spread(results[0].shape(), 77, results[0].dtype(), results[0].device());
  for (const Tensor& gradient : grad({results[0]}, inputs, {.grad_outputs = {cotangent}}))
    results.push_back(gradient);
  return results;
}

/// Checks that each result's difference, relative to its norm, is at most `allowed`; 0 requires equal values and
/// NaNs.
inline void agree(const std::string& what, double allowed, const Computation& f) {
  const std::vector<Tensor> expected = f(Device::cpu), actual = f(Device::cuda);
  REQUIRE_MESSAGE(actual.size() == expected.size(), what);
  for (size_t r = 0; r < actual.size(); ++r) {
    CHECK_MESSAGE(actual[r].device() == Device::cuda, what, ", result ", r);
    CHECK_MESSAGE(actual[r].shape() == expected[r].shape(), what, ", result ", r);
    const std::vector<double> a = actual[r].to_vector<double>(), e = expected[r].to_vector<double>();
    if (allowed > 0) {
      CHECK_MESSAGE(relative_error(a, e) <= allowed, what, ", result ", r);
      continue;
    }
    size_t different = 0;
    for (size_t i = 0; i < e.size(); ++i) different += a[i] != e[i] && !(std::isnan(a[i]) && std::isnan(e[i]));
    CHECK_MESSAGE(different == 0, what, ", result ", r, " of ", e.size(), " elements");
  }
}

/// Both floating dtypes, and the rounding error of a sum in each, relative to its norm: for n terms that are added
/// one by one it is √n times half a unit in the last place, which is 3e-6 in float32 for 2,500 terms. The longest
/// such sums here have 1,100 terms (keys of a query). For longer rows, up to 20,000, kernels add up parts, and add
/// the parts in float64. If several sums follow one another, tests allow a multiple of this.
struct Rounding {
  DType dtype;
  double allowed;
};
constexpr Rounding kPrecisions[] = {{DType::float32, 3e-6}, {DType::float64, 1e-13}};

}  // namespace linnet::test
