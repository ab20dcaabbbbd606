#include <linnet/core/index.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/core/tensor.h>

/// `x[i]` and `x[{…}]`, made of `select`, `slice` and `unsqueeze`, and assignments to them.

namespace linnet {
namespace {

template <class Kind>
auto count_of(std::initializer_list<Index> indices) {
  return std::count_if(indices.begin(), indices.end(),
                       [](const Index& index) { return std::holds_alternative<Kind>(index.value); });
}

void check_is_view(const Tensor& left, Where where) {
  const Call call("operator=", where);
  if (!detail::owns_elements_alone(left)) return;
  throw ValueError(
      "the left side is a copy, so the assignment would be lost; to edit x, write "
      "x.copy_(x.masked_fill(mask, value)) or x.copy_(x.index_put(indices, values))");
}

}  // namespace

Tensor Tensor::operator[](Index index) const { return (*this)[std::initializer_list<Index>{index}]; }

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  const Call call("operator[]", indices.size() > 0 ? indices.begin()->where : Where{});
  const int64_t used = count_of<int64_t>(indices) + count_of<Slice>(indices);
  if (used > rank()) {
    throw IndexError(fmt::format("{} too many for a tensor of shape {}",
                                 used == 1 ? "1 index is" : fmt::format("{} indices are", used), to_string(shape())));
  }
  if (count_of<Ellipsis>(indices) > 1) throw IndexError("only one index may be an ellipsis");
  Tensor result = *this;
  int64_t dim = 0;   // the next dim of `result`
  int64_t gone = 0;  // dims removed before `dim`, minus new dims: `dim` of `result` is dim + gone of this tensor
  for (const Index& index : indices) {
    if (const auto* at = std::get_if<int64_t>(&index.value)) {
      check_index(*at, dim + gone, shape());
      result = result.select(dim, *at);
      ++gone;
    } else if (const auto* slice = std::get_if<Slice>(&index.value)) {
      result = result.slice(dim, slice->start.value_or(0), slice->stop.value_or(std::numeric_limits<int64_t>::max()),
                            slice->step);
      ++dim;
    } else if (std::holds_alternative<Ellipsis>(index.value)) {
      dim += rank() - used;
    } else {
      result = result.unsqueeze(dim++);
      --gone;
    }
  }
  return result;
}

Tensor& Tensor::operator=(Operand source) && {
  check_is_view(*this, source.where);
  return copy_(source.tensor, source.where);
}

Tensor& Tensor::operator=(NumberOperand value) && {
  check_is_view(*this, value.where);
  return fill_(value.value, value.where);
}

}  // namespace linnet
