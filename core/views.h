#pragma once

#include <vector>

#include <linnet/core/tensor.h>

/// The views of a Tensor as functions. Those without a comment call the member of their name, which core/tensor.h
/// documents.

namespace linnet {

inline Tensor reshape(const Tensor& x, Shape shape, Where where = {}) { return x.reshape(std::move(shape), where); }
inline Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1, Where where = {}) {
  return x.flatten(start_dim, end_dim, where);
}
inline Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, Where where = {}) {
  return x.transpose(dim0, dim1, where);
}
inline Tensor permute(const Tensor& x, const Shape& dims, Where where = {}) { return x.permute(dims, where); }
inline Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length, Where where = {}) {
  return x.narrow(dim, start, length, where);
}
inline Tensor select(const Tensor& x, int64_t dim, int64_t index, Where where = {}) {
  return x.select(dim, index, where);
}
inline Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, Where where = {}) {
  return x.diagonal(offset, dim1, dim2, where);
}
inline Tensor squeeze(const Tensor& x, int64_t dim, Where where = {}) { return x.squeeze(dim, where); }
inline Tensor unsqueeze(const Tensor& x, int64_t dim, Where where = {}) { return x.unsqueeze(dim, where); }
/// Views of sizes[0], sizes[1], … indices along `dim`, one after another.
///
/// Throws: ValueError for a negative size, and unless the sizes add up to that of `dim`.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0, Where where = {});
inline std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0, Where where = {}) {
  return x.split(size, dim, where);
}
inline std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0, Where where = {}) {
  return x.chunk(chunks, dim, where);
}

}  // namespace linnet
