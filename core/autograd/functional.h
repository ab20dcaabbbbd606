#pragma once

#include <functional>
#include <vector>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/tensor.h>

/// All first or second derivatives of a small function, as in PyTorch's torch.autograd.functional.

namespace linnet {

/// The derivatives of each element of f(x) with respect to each element of x. For f(x) = A·x the result is A.
///
/// Shapes: f(x).shape() and then x.shape().
/// Dtypes: x is floating; the result has its dtype.
/// Gradient: none.
/// Cost: a backward for each element of f(x).
/// Throws: DTypeError unless x is floating.
Tensor jacobian(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, Where where = {});

/// The second derivatives of f with respect to each pair of elements of x. f(x) has one element. For f(x) = x·x/2 the
/// result is the identity matrix.
///
/// Shapes: x.shape() twice.
/// Dtypes: x is floating; the result has its dtype.
/// Gradient: none.
/// Cost: a backward for each element of x, through f and its gradient.
/// Throws: DTypeError unless x is floating; ShapeError if f(x) has several elements; AutogradError if an op in f has
/// first derivatives only.
Tensor hessian(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, Where where = {});

namespace detail {

/// `grad`, but with zeros for an input that no output depends on. Skips outputs that require no gradient.
std::vector<Tensor> grad_or_zeros(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                  const GradOptions& options);
/// The derivatives of each element of `output` with respect to the elements of each input, times `factor`.
std::vector<Tensor> jacobians(const Tensor& output, const std::vector<Tensor>& inputs, double factor = 1);

}  // namespace detail
}  // namespace linnet
