#pragma once

#include <functional>
#include <vector>

#include <linnet/core/tensor.h>

/// Checks of the gradients of ops that you write yourself.

namespace linnet {

/// Options of `gradcheck` and `gradgradcheck`.
struct GradcheckOptions {
  double eps = 1e-6;            ///< the step of the differences: each element is moved up and down by it
  double atol = 1e-5;           ///< the allowed difference is atol + rtol · |central difference|
  double rtol = 1e-3;           ///< see atol
  bool raise_exception = true;  ///< throws if they differ, instead of returning false
};

/// Compares the gradients of f from backward with central differences, (f(x + eps) − f(x − eps)) / 2·eps. It compares
/// the derivative of every element of the result with respect to every element of every input that requires a
/// gradient, and returns true if all agree.
///
///     const Tensor x = randn({3, 4}, rng, DType::float64).set_requires_grad();
///     gradcheck([](const std::vector<Tensor>& in) { return gelu(in[0]); }, {x});
///
/// f must be deterministic, and smooth within eps of the inputs: relu, for example, is not smooth near 0. Its result
/// must keep its shape there.
///
/// Dtypes: inputs that require a gradient are float64, because differences of float32 numbers are too inexact.
/// Cost: two calls of f for every element of the inputs, and a backward for every element of the result.
/// Throws: AutogradError at the first difference, with the elements and both values, and if the shape of f's result
/// changes; ValueError if no input requires a gradient; DTypeError if an input that requires one is not float64.
bool gradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {}, Where where = {});

/// Checks second derivatives as `gradcheck` does first ones: the derivatives of f's gradients with respect to its
/// inputs and to the gradient of its result. The gradient of the result is a tensor of random numbers.
///
/// Throws: as `gradcheck`; AutogradError for an op that is for first derivatives only.
bool gradgradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f,
                   const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}, Where where = {});

namespace detail {

using ListFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// (f(x + h) − f(x − h)) / 2h for each element x of input k, with h = step(x). There is a row for each x, with a
/// number for each element of all results, whose shapes are always the same. Input k is float64.
std::vector<std::vector<double>> central_differences(const ListFunction& f, std::vector<Tensor> inputs, size_t k,
                                                     const std::function<double(double x)>& step);
/// A function that returns the gradients of f. Its arguments are the inputs of f and then the gradient of f's result.
/// A gradient is zero for an input that f does not depend on, and recorded if an argument requires a gradient.
ListFunction gradient_of(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f);

}  // namespace detail
}  // namespace linnet
