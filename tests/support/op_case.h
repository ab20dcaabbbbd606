#pragma once

#include <functional>
#include <string>
#include <vector>

#include <linnet/core/tensor.h>

namespace linnet::test {

/// One use of an op, for which the suite checks gradients: first derivatives by central differences in float64 with
/// random cotangents, with each input contiguous and strided, and second derivatives if `twice`.
struct OpCase {
  std::string op;              ///< the public function, as declared in ops/
  std::string variant;         ///< what the case covers: "broadcast", "empty", "size 1", "dims {0, 2} keepdim", …
  std::vector<Tensor> inputs;  ///< float64; all are differentiated
  std::function<Tensor(const std::vector<Tensor>&)> f;
  bool twice = true;  ///< false for fused ops: the suite then checks that they refuse a second derivative
};

/// An op with a bool or integer result. The suite checks that it accepts inputs that require a gradient.
struct NonDifferentiableCase {
  std::string op;
  std::vector<Tensor> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> f;
};

struct Registry {
  std::vector<OpCase> differentiable;
  std::vector<NonDifferentiableCase> non_differentiable;
  /// Public functions without either kind of case, such as creation and random numbers, with the reason.
  std::vector<std::pair<std::string, std::string>> exempt;
};

// Each adds the cases of one op family, in tests/ops/. Together they must cover every public function of ops/: the
// suite reads the headers and fails if one is missing.
void add_elementwise_cases(Registry& registry);
void add_reduction_cases(Registry& registry);
void add_indexing_cases(Registry& registry);
void add_matmul_cases(Registry& registry);
void add_layer_cases(Registry& registry);
void add_convolution_cases(Registry& registry);
void add_batch_norm_cases(Registry& registry);
void add_vision_cases(Registry& registry);
void add_recurrent_cases(Registry& registry);
void add_attention_cases(Registry& registry);
void add_sparse_attention_cases(Registry& registry);

/// Adds cases for the views and copies of core/tensor.h, named `Tensor::name`; in tests/core/view_cases.cpp.
void add_view_cases(Registry& registry);

/// All of these cases.
Registry all_cases();

/// The device that cases are tested on, and on which a case creates its indices and masks. Set it before a registry
/// is made, and keep it while its cases are used.
Device& case_device();

}  // namespace linnet::test
