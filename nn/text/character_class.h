#pragma once

#include <cstdint>

namespace linnet::detail {

/// The classes of characters that GPT-2's rule distinguishes: Unicode's general categories L and N, and its property
/// White_Space.
enum class CharacterClass : uint8_t { letter, number, blank, other };

/// A range of code points of one class.
struct CharacterRange {
  char32_t first, last;
  CharacterClass kind;
};

/// The class of a code point.
CharacterClass class_of(char32_t code);

}  // namespace linnet::detail
