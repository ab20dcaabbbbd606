#include <linnet/core/autograd/gradient_sum.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>

namespace linnet {
namespace {

/// A view of indices start … stop − 1 of a dim. It is not an op, because AnomalyMode checks the results of ops, and
/// these elements may not be set yet.
Tensor range_of(const Tensor& x, int dim, int64_t start, int64_t stop) {
  Shape shape = x.shape();
  shape[dim] = stop - start;
  return detail::as_strided(x, shape, x.strides(), start * x.strides()[dim]);
}

/// Whether a and b, of one shape, are the same elements.
bool are_same_elements(const Tensor& a, const Tensor& b) {
  if (detail::view(a).data != detail::view(b).data) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.shape()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  }
  return true;
}

}  // namespace

void add_into(const Tensor& sum, const Tensor& a, const Tensor& b) {
  backend(sum).binary(Binary::add, detail::view(sum), detail::view(a), detail::view(b));
}

Tensor add_gradients(const Tensor& a, const Tensor& b) {
  Op op("add_gradients", Where{}, {a, b});
  Tensor sum = Tensor::empty(a.shape(), a.dtype(), a.device());
  add_into(sum, a, b);
  return op.record(sum, [](const Tensor& g) { return Grads{g, g}; });
}

Tensor sum_to_shape(const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return grad;
  const int leading = grad.rank() - shape.rank();
  Shape kept = grad.shape();
  for (int d = 0; d < kept.rank(); ++d) {
    if (d < leading || shape[d - leading] == 1) kept[d] = 1;
  }
  Op op("sum_to_shape", Where{}, {grad});
  Tensor sum = Tensor::empty(kept, grad.dtype(), grad.device());
  backend(sum).reduce(Reduce::sum, detail::view(sum), detail::view(grad));
  sum = op.record(sum, [from = grad.shape()](const Tensor& g) { return Grads{g.expand(from)}; });
  return sum.reshape(shape);
}

void GradientSum::own() {
  if (detail::owns_elements_alone(total_)) return;
  const Tensor copy = Tensor::empty(total_.shape(), total_.dtype(), total_.device());
  if (*filled_ > 0) {
    backend(copy).copy(detail::view(range_of(copy, dim_, 0, *filled_)),
                       detail::view(range_of(total_, dim_, 0, *filled_)));
  }
  total_ = copy;
}

Tensor& GradientSum::complete() {
  if (filled_) {
    const int64_t size = total_.shape()[dim_];
    if (*filled_ < size) {
      own();
      range_of(total_, dim_, *filled_, size).fill_(0);
    }
    filled_.reset();
  }
  return total_;
}

void GradientSum::add_slice(const Node& node, const SliceOf& slice, const Tensor& gradient) {
  const int64_t stop = slice.start + slice.step * gradient.shape()[slice.dim];
  if (!total_.defined()) {
    total_ = detail::whole_storage_as(gradient, node.shape);
    if (!total_.defined()) total_ = Tensor::empty(node.shape, gradient.dtype(), gradient.device());
    dim_ = slice.dim;
    filled_ = 0;
  }
  if (filled_ == slice.start && dim_ == slice.dim && slice.step == 1) {
    if (!are_same_elements(range_of(total_, dim_, slice.start, stop), gradient)) {
      own();
      const Tensor range = range_of(total_, dim_, slice.start, stop);
      backend(range).copy(detail::view(range), detail::view(gradient));
    }
    filled_ = stop;
    return;
  }
  Tensor& sum = complete();
  if (!detail::owns_elements_alone(sum) || !sum.is_contiguous()) sum = sum.clone();
  const Tensor range = sum.slice(slice.dim, slice.start, stop, slice.step);
  add_into(range, range, gradient);
  detail::bump_version(sum);
}

}  // namespace linnet
