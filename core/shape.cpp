#include <linnet/core/shape.h>

#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>

namespace linnet {

void Shape::resize(int rank) {
  if (rank > kMaxRank) throw ShapeError(fmt::format("a tensor has at most {} dims, not {}", kMaxRank, rank));
  if (rank > kLocal) heap_ = std::make_unique<int64_t[]>(static_cast<size_t>(rank));
  rank_ = rank;
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t size : *this) product *= size;
  return product;
}

std::optional<int64_t> checked_product(const Shape& shape, int64_t factor) {
  bool is_empty = false;
  for (const int64_t size : shape) {
    is_empty = is_empty || size == 0;
    if (__builtin_mul_overflow(factor, std::max<int64_t>(size, 1), &factor)) return std::nullopt;
  }
  return is_empty ? 0 : factor;
}

int64_t checked_numel(const Shape& shape) {
  if (const std::optional<int64_t> count = checked_product(shape, 1)) return *count;
  throw ShapeError(fmt::format("shape {} has more elements than 64 bits can count", to_string(shape)));
}

void Shape::insert(int position, int64_t value) {
  Shape longer;
  longer.resize(rank_ + 1);
  std::copy(begin(), begin() + position, longer.begin());
  longer[position] = value;
  std::copy(begin() + position, end(), longer.begin() + position + 1);
  *this = std::move(longer);
}

void Shape::erase(int position) {
  Shape shorter;
  shorter.resize(rank_ - 1);
  std::copy(begin(), begin() + position, shorter.begin());
  std::copy(begin() + position + 1, end(), shorter.begin() + position);
  *this = std::move(shorter);
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::ostream& operator<<(std::ostream& stream, const Shape& shape) { return stream << to_string(shape); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Shape::filled(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * std::max<int64_t>(shape[d + 1], 1);
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Shape::filled(rank, 1);
  for (int d = 1; d <= rank; ++d) {
    const int64_t in_a = d <= a.rank() ? a[a.rank() - d] : 1;
    const int64_t in_b = d <= b.rank() ? b[b.rank() - d] : 1;
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      throw ShapeError(
          fmt::format("shapes {} and {} do not broadcast: dim -{} is {} and {}; sizes must be "
                      "equal or 1, counted from the last",
                      to_string(a), to_string(b), d, in_a, in_b));
    }
    result[rank - d] = in_a == 1 ? in_b : in_a;
  }
  return result;
}

int normalise_dim(int64_t dim, int rank) {
  if (dim < -rank || dim >= rank) {
    throw ShapeError(rank == 0
                         ? fmt::format("dim {} does not exist: the tensor has rank 0", dim)
                         : fmt::format("dim {} does not exist: the tensor has rank {}, so dims run from {} to {}",
                                       dim, rank, -rank, rank - 1));
  }
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

void check_index(int64_t index, int64_t dim, const Shape& shape) {
  const int64_t size = shape[normalise_dim(dim, shape.rank())];
  if (index >= -size && index < size) return;
  throw IndexError(fmt::format("index {} is out of range for dim {} of {}, which has size {}", index, dim,
                               to_string(shape), size));
}

}  // namespace linnet
