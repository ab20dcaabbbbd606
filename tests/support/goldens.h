#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <linnet/core/files/safetensors.h>
#include <linnet/core/tensor.h>
#include <nlohmann/json.hpp>

/// Reference results from PyTorch; tests/goldens/README.md describes the files.

namespace linnet::test {

/// One case of a golden file.
struct Golden {
  std::string name;
  nlohmann::json parameters;
  TensorMap tensors;  ///< keys are the names within the case

  std::string op() const { return parameters.at("op"); }
  /// Undefined when the case has no such tensor.
  Tensor get(const std::string& tensor) const;
  /// The inputs whose gradients the case holds, as new leaves of the given dtype.
  TensorMap leaves(DType dtype) const;
};

/// Every case of tests/goldens/<file>.safetensors. Throws when a tensor belongs to no case.
std::vector<Golden> read_goldens(const std::string& file);

/// The largest allowed difference from PyTorch's float64 result, relative to its norm: 1e-9 in float64 and n·2⁻²⁴ in
/// float32, one rounding for each of the n terms in the longest chain of sums. n is at least 4, since an elementwise
/// function rounds in an exponential (twice), a quotient and a product.
double error_bound(const Golden& golden, DType dtype);

/// Checks that a result has the shape of the case's tensor `name`, and its values to within `bound`.
void check_near(const Golden& golden, const std::string& name, const Tensor& actual, double bound);

/// Checks `output`, and each of its gradients with respect to the case's inputs, given as leaves by their names.
void check_with_gradients(const Golden& golden, const Tensor& output, const TensorMap& leaves, double bound);

/// Computes a case in the given dtype and compares.
using Comparison = std::function<void(const Golden& golden, DType dtype)>;

/// The comparison for an op that is a function: `f` computes the output from the case's inputs.
Comparison function_comparison(std::function<Tensor(const Golden& golden, const TensorMap& in)> f);

/// Compares every case of the file by its op's function in `by_op`. Fails for an op that is missing there, and for an
/// op without a case.
void compare_goldens(const std::string& file, DType dtype, const std::map<std::string, Comparison>& by_op);

}  // namespace linnet::test
