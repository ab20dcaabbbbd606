#pragma once

#include <cstddef>
#include <string_view>

namespace linnet::detail {

/// The number of bytes of the first piece of `text`, which must not be empty. The rule is that of GPT-2's encoder.py:
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`. A byte that is not UTF-8 is a
/// character that is neither letter, number nor blank.
size_t piece_length(std::string_view text);

}  // namespace linnet::detail
