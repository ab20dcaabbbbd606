#pragma once

#include <functional>
#include <string>
#include <vector>

#include <linnet/core/tensor.h>

namespace linnet::test {

/// One use of an op, from which the suite generates its gradient checks: first derivatives by central
/// differences in float64 with random cotangents, with each input contiguous and strided; second derivatives
/// when `twice`.
struct OpCase {
  std::string op;              ///< the public function, as declared in ops/
  std::string variant;         ///< what is special: "broadcast", "empty", "size 1", "dims {0, 2} keepdim", …
  std::vector<Tensor> inputs;  ///< float64; every one is differentiated
  std::function<Tensor(const std::vector<Tensor>&)> f;
  bool twice = true;  ///< false for fused ops, which must then refuse a second derivative
};

/// An op whose result is of bool or integers: the suite checks that it takes inputs that require a gradient.
struct NonDifferentiableCase {
  std::string op;
  std::vector<Tensor> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> f;
};

struct Registry {
  std::vector<OpCase> differentiable;
  std::vector<NonDifferentiableCase> non_differentiable;
  /// Public functions that neither is asked of (creation, random numbers), with the reason.
  std::vector<std::pair<std::string, std::string>> exempt;
};

// One per op family, in tests/ops/<family>_cases.cpp. Together they must name every function of ops/: the
// suite reads the headers and fails for one that is missing.
void add_elementwise_cases(Registry& registry);
void add_reduction_cases(Registry& registry);
void add_indexing_cases(Registry& registry);
void add_matmul_cases(Registry& registry);
void add_layer_cases(Registry& registry);
void add_attention_cases(Registry& registry);

/// The views and copies of core/tensor.h, as `Tensor::name`; in tests/core/view_cases.cpp.
void add_view_cases(Registry& registry);

/// All of these.
Registry all_cases();

/// Where the cases are tried. The device of whatever a case makes beside its inputs, an index or a mask: set it
/// before a registry is made, and while its cases are used.
Device& case_device();

}  // namespace linnet::test
