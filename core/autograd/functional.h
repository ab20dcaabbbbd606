#pragma once

#include <functional>
#include <vector>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/tensor.h>

/// All first or second derivatives of a small function, as PyTorch's torch.autograd.functional has them.

namespace linnet {

/// The derivative of each element of f(x) by each element of x: for f(x) = A·x it is A.
///
/// Shapes: f(x).shape() and then x.shape().
/// Dtypes: x is floating; the result has its dtype.
/// Gradient: none.
/// Cost: a backward for each element of f(x).
/// Throws: DTypeError unless x is floating.
Tensor jacobian(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, Where where = {});

/// The second derivatives of f, whose result has one element, by each two elements of x: for f(x) = x·x/2 it is the
/// identity.
///
/// Shapes: x.shape() twice.
/// Dtypes: x is floating; the result has its dtype.
/// Gradient: none.
/// Cost: a backward for each element of x, through f and its gradient.
/// Throws: DTypeError unless x is floating; ShapeError where f(x) has several elements; AutogradError where an op in
/// f is for first derivatives only.
Tensor hessian(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, Where where = {});

namespace detail {

/// `grad`, with zeros where no output depends on an input. Outputs that require no gradient are left out.
std::vector<Tensor> grad_or_zeros(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                  const GradOptions& options);
/// The derivatives of each element of `output` by the elements of each input, times `factor`.
std::vector<Tensor> jacobians(const Tensor& output, const std::vector<Tensor>& inputs, double factor = 1);

}  // namespace detail
}  // namespace linnet
