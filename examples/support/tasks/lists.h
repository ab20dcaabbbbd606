#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include <linnet/linnet.h>

namespace linnet::examples {

/// Lists of numbers, which may have different lengths.
class Lists {
 public:
  void append(std::span<const int32_t> list);
  int64_t size() const { return std::ssize(ends_); }
  std::span<const int32_t> operator[](int64_t i) const;
  /// All lists, one after the other.
  std::span<const int32_t> numbers() const { return numbers_; }

 private:
  std::vector<int32_t> numbers_;
  std::vector<int64_t> ends_;  // of each list, in numbers_
};

/// Lists of numbers as rows of one length, at least 1, with 0 for padding.
///
/// Shapes: both [B, N]. Dtypes: int64, and bool, false at padding.
struct PaddedLists {
  Tensor numbers, mask;
};
PaddedLists padded(const std::vector<std::span<const int32_t>>& lists);

}  // namespace linnet::examples
