#include "tests/support/layout.h"

#include <limits>

namespace linnet::test {
namespace {

/// A view with the dims in reverse order.
Tensor reversed(const Tensor& x) {
  Shape dims = Shape::filled(x.rank(), 0);
  for (int d = 0; d < x.rank(); ++d) dims[d] = x.rank() - 1 - d;
  return x.permute(dims);
}

}  // namespace

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::contiguous: return "contiguous";
    case Layout::transposed: return "transposed";
    case Layout::gapped: return "gapped";
  }
  return "?";
}

Tensor pack(const Tensor& x, Layout layout) {
  if (layout == Layout::contiguous) return x.detach().clone();
  const Tensor transposed = reversed(x.detach()).clone();
  if (layout == Layout::transposed) return transposed;
  Shape shape = transposed.shape();
  shape.push_back(2);
  Tensor leaf = Tensor::empty(shape, x.dtype(), x.device());
  leaf.select(-1, 0).copy_(transposed);
  leaf.select(-1, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  return leaf;
}

Tensor unpack(const Tensor& leaf, Layout layout) {
  switch (layout) {
    case Layout::contiguous: return leaf;
    case Layout::transposed: return reversed(leaf);
    case Layout::gapped: return reversed(leaf.select(-1, 0));
  }
  return {};
}

Tensor gaps(const Tensor& leaf, Layout layout) { return layout == Layout::gapped ? leaf.select(-1, 1) : Tensor(); }

}  // namespace linnet::test
