#pragma once

#include <functional>
#include <string>
#include <vector>

#include <linnet/core/autograd/gradcheck.h>
#include <linnet/core/tensor.h>

/// The gradient check: compares gradients from backward with central differences of forward.

namespace linnet::test {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
/// A function with several results, such as a gradient.
using MultiFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct CheckOptions {
  uint64_t seed = 1;            ///< for the cotangents
  bool twice = false;           ///< checks the second derivatives too
  Device device = Device::cpu;  ///< where f is computed; the inputs come from the CPU
};

/// The result of a check; converts to true if it passed.
struct CheckResult {
  std::string failure;  ///< the first mismatch, empty without one
  double worst = 0;     ///< the largest difference found, as a fraction of the allowed one

  explicit operator bool() const { return failure.empty(); }
};

/// Compares d(c · f)/d input, for random cotangents c, with (f(x + h) − f(x − h))/2h for every element of
/// every input, with the inputs in every layout (see layout.h).
///
/// h = 6e-6·max(1, |x|), about the cube root of the machine epsilon ε, where the truncation error h²·f'''/6
/// and the rounding error ε·f/h are about equal. The allowed difference for each input is the sum of
///   - 1e-7 of the largest derivative, and h²·Σ|c|: truncation, for f''' up to 6 or to 10⁴ times f', and
///   - 64·ε/h·Σ|c·f|: 64 roundings in every result.
///
/// `f` must be deterministic, and smooth within h of the inputs, which are float64.
CheckResult check_gradients(const Function& f, const std::vector<Tensor>& inputs, const CheckOptions& options = {});

using detail::gradient_of;

}  // namespace linnet::test
