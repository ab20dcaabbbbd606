#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

namespace linnet {

/// A short list of sizes or strides. Up to six entries are stored in the object, so that a view allocates no memory
/// for them.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> values) : Shape(values.begin(), values.end()) {}  ///< entries in braces
  /// One entry: `sum(x, 1)`, `x.reshape(-1)`.
  template <std::integral Size>
    requires(!std::same_as<Size, bool>)
  Shape(Size size) : Shape({static_cast<int64_t>(size)}) {}  // NOLINT(google-explicit-constructor)
  /// The entries of a vector, array or span of integers.
  template <std::ranges::contiguous_range Sizes>
    requires(std::integral<std::ranges::range_value_t<Sizes>> && sizeof(std::ranges::range_value_t<Sizes>) >= 4)
  Shape(const Sizes& sizes)  // NOLINT(google-explicit-constructor): `zeros(sizes)` is the point
      : Shape(std::ranges::data(sizes), std::ranges::data(sizes) + std::ranges::size(sizes)) {}
  template <std::input_iterator Iterator>
  Shape(Iterator first, Iterator last) {
    resize(static_cast<int>(last - first));
    std::copy(first, last, data());
  }
  Shape(const Shape& other) : Shape(other.begin(), other.end()) {}
  Shape(Shape&& other) noexcept
      : rank_(std::exchange(other.rank_, 0)), local_(other.local_), heap_(std::move(other.heap_)) {}
  Shape& operator=(const Shape& other) { return *this = Shape(other.begin(), other.end()); }
  Shape& operator=(Shape&& other) noexcept {
    rank_ = std::exchange(other.rank_, 0);
    local_ = other.local_;
    heap_ = std::move(other.heap_);
    return *this;
  }
  ~Shape() = default;

  /// `rank` entries, all `value`.
  static Shape filled(int rank, int64_t value) {
    Shape shape;
    shape.resize(rank);
    std::fill(shape.begin(), shape.end(), value);
    return shape;
  }

  int rank() const { return rank_; }  ///< the number of entries, at most kMaxRank; ShapeError for more
  int64_t* data() { return heap_ ? heap_.get() : local_.data(); }              ///< the entries
  const int64_t* data() const { return heap_ ? heap_.get() : local_.data(); }  ///< the entries
  int64_t* begin() { return data(); }                                          ///< the first entry
  int64_t* end() { return data() + rank_; }                                    ///< past the last entry
  const int64_t* begin() const { return data(); }                              ///< the first entry
  const int64_t* end() const { return data() + rank_; }                        ///< past the last entry
  /// Entry `dim`, from 0 to rank − 1, which is not checked.
  int64_t& operator[](int dim) { return data()[dim]; }
  int64_t operator[](int dim) const { return data()[dim]; }

  /// The product of the entries; 1 for rank 0. Overflow is not checked: see `checked_numel`.
  int64_t numel() const;
  /// Inserts `value` before entry `position`.
  void insert(int position, int64_t value);
  /// Removes entry `position`.
  void erase(int position);
  void push_back(int64_t value) { insert(rank_, value); }  ///< appends an entry
  /// Whether both have the same entries.
  bool operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  void resize(int rank);

  static constexpr int kLocal = 6;
  int rank_ = 0;
  std::array<int64_t, kLocal> local_{};
  std::unique_ptr<int64_t[]> heap_;
};

using Strides = Shape;  ///< steps along each dim, in elements

/// The argument `keepdim` of a reduction: true keeps the reduced dims with size 1. It takes only a bool: the 1
/// in `x.sum(0, 1)` is meant as a second dim, written without the braces.
class KeepDim {
 public:
  template <std::integral T>
  KeepDim(T keepdim) : value_(keepdim) {  // NOLINT(google-explicit-constructor): `keepdim` is written as a bool
    static_assert(std::same_as<T, bool>, "dims go in braces, as in x.sum({0, 1}), and keepdim is true or false");
  }
  operator bool() const { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  bool value_;
};

/// The largest number of dims of a tensor.
constexpr int kMaxRank = 64;

/// `shape.numel()` times `factor`, or nothing if that number, or a stride of such a tensor, overflows 64 bits. The
/// check for overflow counts a size of 0 as 1, so that the answer does not depend on the order of the sizes.
std::optional<int64_t> checked_product(const Shape& shape, int64_t factor);

/// `shape.numel()`.
///
/// Throws: ShapeError if it overflows (see `checked_product`).
int64_t checked_numel(const Shape& shape);

/// The shape as a string, such as `[2, 3]`.
std::string to_string(const Shape& shape);
std::ostream& operator<<(std::ostream& stream, const Shape& shape);

/// Strides, in elements, of a row-major tensor of this shape.
Strides contiguous_strides(const Shape& shape);

/// The shape that `a` and `b` broadcast to by NumPy's rule.
///
/// Throws: ShapeError naming both.
Shape broadcast_shapes(const Shape& a, const Shape& b);

/// `dim` counted from the front. A negative `dim` counts from the end.
///
/// Throws: ShapeError when it is out of range for `rank`.
int normalise_dim(int64_t dim, int rank);

/// Checks that `index`, which may count from the end, exists in dim `dim` of `shape`.
///
/// Throws: IndexError.
void check_index(int64_t index, int64_t dim, const Shape& shape);

}  // namespace linnet
