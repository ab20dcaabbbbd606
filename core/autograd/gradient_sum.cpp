#include <linnet/core/autograd/gradient_sum.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>

namespace linnet {
namespace {

/// Whether a and b, which have the same shape, share all elements.
bool are_same_elements(const Tensor& a, const Tensor& b) {
  if (detail::view(a).data != detail::view(b).data) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.shape()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  }
  return true;
}

/// Whether x may be edited in place: no other tensor shares its elements, and no two of its indices share an element,
/// as in an expanded tensor. It need not be contiguous, because gradients of heads are transposed in memory.
bool is_editable(const Tensor& x) {
  if (!detail::owns_elements_alone(x)) return false;
  std::array<std::pair<int64_t, int64_t>, kMaxRank> dims;  // stride and size
  size_t count = 0;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape()[d] > 1) dims[count++] = {x.strides()[d], x.shape()[d]};
  }
  const std::span used(dims.data(), count);
  std::ranges::sort(used);
  int64_t last = 0;  // the largest offset of the dims so far
  for (const auto& [stride, size] : used) {
    if (stride <= last) return false;
    last += (size - 1) * stride;
  }
  return true;
}

/// sum = a + b, where sum may be a. Not recorded.
void add_into(const Tensor& sum, const Tensor& a, const Tensor& b) {
  backend(sum).binary(Binary::add, detail::view(sum), detail::view(a), detail::view(b));
}

/// a + b, recorded like any other op, for gradients of gradients.
Tensor add_gradients(const Tensor& a, const Tensor& b) {
  Op op("add_gradients", Where{}, {a, b});
  Tensor sum = Tensor::empty(a.shape(), a.dtype(), a.device());
  add_into(sum, a, b);
  return op.record(sum, [](const Tensor& g) { return Grads{g, g}; });
}

/// Sums the gradient over the dims in which `shape` was broadcast to the gradient's shape. Recorded.
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

/// A tensor of `shape` with the part's gradient in its place and zeros elsewhere. Recorded.
Tensor place_part(const Shape& shape, const PartialGrad& part) {
  const Tensor& grad = part.gradient;
  Op op("place_part", Where{}, {grad});
  const int dim = normalise_dim(part.dim, shape.rank());
  const int64_t count = grad.shape()[dim], start = part.start, step = part.step;
  const Tensor whole = Tensor::empty(shape, grad.dtype(), grad.device());
  backend(whole).fill(detail::view(whole), 0);
  backend(whole).copy(detail::view(detail::narrow(whole, dim, start, count, step)), detail::view(grad));
  return op.record(whole, [dim, start, step, count](const Tensor& g) {
    return Grads{g.slice(dim, start, count > 0 ? start + (count - 1) * step + 1 : start, step)};
  });
}

void check_part(const PartialGrad& part, const Shape& shape, size_t i) {
  const Shape& given = part.gradient.shape();
  const int dim = normalise_dim(part.dim, shape.rank());
  Shape expected = shape;
  if (given.rank() == shape.rank()) expected[dim] = given[dim];
  if (given != expected) {
    throw ShapeError(fmt::format(
        "the partial gradient of input {} has shape {}, which differs from the input's {} in more than dim {}", i,
        to_string(given), to_string(shape), part.dim));
  }
  if (part.step < 1) {
    throw ValueError(
        fmt::format("the partial gradient of input {} has step {}, which must be at least 1", i, part.step));
  }
  const int64_t size = shape[dim], count = given[dim];
  const bool starts_inside = part.start >= 0 && part.start <= size - (count > 0);
  if (!starts_inside || (count > 0 && count - 1 > (size - 1 - part.start) / part.step)) {
    throw IndexError(
        fmt::format("the partial gradient of input {} has {} indices from {} on with step {}, which leave dim {} "
                    "of {}, which has size {}",
                    i, count, part.start, part.step, part.dim, to_string(shape), size));
  }
}

}  // namespace

void check_shape(const Grad& gradient, const Shape& shape, size_t i) {
  if (gradient.is_partial()) return check_part(gradient.part(), shape, i);
  const Shape& given = gradient.tensor().shape();
  if (broadcast_shapes(shape, given) != given) {
    throw ShapeError(fmt::format("the gradient of input {} has shape {}, which the input's {} does not broadcast to",
                                 i, to_string(given), to_string(shape)));
  }
}

void accumulate(Tensor& sum, const Tensor& gradient) {
  if (!grad_enabled() && is_editable(sum)) {
    add_into(sum, sum, gradient);
    detail::bump_version(sum);
  } else {
    sum = add_gradients(sum, gradient);
  }
}

void GradientSum::add(const Shape& shape, const Grad& gradient) {
  if (!gradient.is_partial()) {
    add_whole(sum_to_shape(gradient.tensor(), shape));
  } else if (grad_enabled()) {
    add_whole(place_part(shape, gradient.part()));
  } else {
    add_part(shape, gradient.part());
  }
}

void GradientSum::add_whole(Tensor gradient) {
  Tensor& sum = complete();
  if (sum.defined()) {
    accumulate(sum, gradient);
  } else {
    sum = std::move(gradient);
  }
}

void GradientSum::add_part(const Shape& shape, const PartialGrad& part) {
  const Tensor& gradient = part.gradient;
  const int dim = normalise_dim(part.dim, shape.rank());
  const int64_t count = gradient.shape()[dim];
  if (!total_.defined()) {
    total_ = detail::whole_storage_as(gradient, shape);
    if (!total_.defined()) total_ = Tensor::empty(shape, gradient.dtype(), gradient.device());
    dim_ = dim;
    filled_ = 0;
  }
  if (filled_ == part.start && dim_ == dim && part.step == 1) {
    if (!are_same_elements(detail::narrow(total_, dim, part.start, count), gradient)) {
      own();
      const Tensor range = detail::narrow(total_, dim, part.start, count);
      backend(range).copy(detail::view(range), detail::view(gradient));
    }
    filled_ = part.start + count;
    return;
  }
  Tensor& sum = complete();
  if (!is_editable(sum)) sum = sum.clone();
  const Tensor range = detail::narrow(sum, dim, part.start, count, part.step);
  add_into(range, range, gradient);
  detail::bump_version(sum);
}

Tensor& GradientSum::complete() {
  if (filled_) {
    const int64_t size = total_.shape()[dim_];
    if (*filled_ < size) {
      own();
      detail::narrow(total_, dim_, *filled_, size - *filled_).fill_(0);
    }
    filled_.reset();
  }
  return total_;
}

void GradientSum::own() {
  if (detail::owns_elements_alone(total_)) return;
  const Tensor copy = Tensor::empty(total_.shape(), total_.dtype(), total_.device());
  if (*filled_ > 0) {
    backend(copy).copy(detail::view(detail::narrow(copy, dim_, 0, *filled_)),
                       detail::view(detail::narrow(total_, dim_, 0, *filled_)));
  }
  total_ = copy;
}

}  // namespace linnet
