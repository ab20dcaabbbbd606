#include "support/tasks/lists.h"

#include <algorithm>

namespace linnet::examples {

void Lists::append(std::span<const int32_t> list) {
  numbers_.insert(numbers_.end(), list.begin(), list.end());
  ends_.push_back(std::ssize(numbers_));
}

std::span<const int32_t> Lists::operator[](int64_t i) const {
  const int64_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i - 1)];
  const int64_t end = ends_[static_cast<size_t>(i)];
  return std::span(numbers_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

PaddedLists padded(const std::vector<std::span<const int32_t>>& lists) {
  int64_t longest = 1;
  for (const auto list : lists) longest = std::max(longest, std::ssize(list));
  const Shape shape{std::ssize(lists), longest};
  PaddedLists result{Tensor::empty(shape, DType::int64), Tensor::empty(shape, DType::boolean)};
  int64_t* number = result.numbers.mutable_data<int64_t>().data();
  bool* kept = result.mask.mutable_data<bool>().data();
  for (const auto list : lists) {
    const int64_t rest = longest - std::ssize(list);
    number = std::fill_n(std::ranges::copy(list, number).out, rest, 0);
    kept = std::fill_n(std::fill_n(kept, list.size(), true), rest, false);
  }
  return result;
}

}  // namespace linnet::examples
