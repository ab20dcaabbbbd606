#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>

#include <linnet/core/where.h>

namespace linnet {

/// Indices start, start + step, … below stop, as Python's `start:stop:step`: `Slice{1, 3}`, `Slice{.stop = 5}`, or
/// `Slice{}` for all. Negative start and stop count from the end and are clamped to the range. step is at least 1.
struct Slice {
  std::optional<int64_t> start = {};  ///< the first index; if absent, the first of all
  std::optional<int64_t> stop = {};   ///< the index after the last; if absent, the end
  int64_t step = 1;                   ///< from each index to the next
};

/// Python's `...`: keeps whole all dims that the other indices do not use.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;  ///< as in `x[{ellipsis, 0}]`

/// A new dim of size 1: NumPy's `newaxis`, Python's `None`.
struct NewAxis {};
inline constexpr NewAxis newaxis;  ///< as in `x[{newaxis}]`

/// One entry between the brackets of `x[i]` or `x[{i, Slice{1, 3}}]`, and the line of the expression.
struct Index {
  std::variant<int64_t, Slice, Ellipsis, NewAxis> value;  ///< the index
  Where where;                                            ///< the line of the expression

  template <std::integral Integer>
  Index(Integer index, Where where_ = {})  // NOLINT(google-explicit-constructor): `x[0]` is the point
      : value(static_cast<int64_t>(index)), where(where_) {}
  Index(Slice slice, Where where_ = {}) : value(slice), where(where_) {}     // NOLINT(google-explicit-constructor)
  Index(Ellipsis whole, Where where_ = {}) : value(whole), where(where_) {}  // NOLINT(google-explicit-constructor)
  Index(NewAxis inserted, Where where_ = {})
      : value(inserted), where(where_) {}  // NOLINT(google-explicit-constructor)
};

}  // namespace linnet
