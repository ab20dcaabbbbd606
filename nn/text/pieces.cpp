#include <linnet/nn/text/pieces.h>

#include <array>

#include <linnet/core/files/utf8.h>
#include <linnet/nn/text/character_class.h>

namespace linnet::detail {

namespace {

using enum CharacterClass;

struct Character {
  size_t length;  // in bytes
  CharacterClass kind;
};

Character first_character(std::string_view text) {
  const size_t length = code_point_length(text);
  if (length == 0) return {1, other};
  return {length, class_of(code_point(text.substr(0, length)))};
}

/// The number of bytes of the run of characters of class `kind` at the beginning of `text`.
size_t run_length(std::string_view text, CharacterClass kind) {
  size_t at = 0;
  while (at < text.size()) {
    const Character next = first_character(text.substr(at));
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

/// 's|'t|'re|'ve|'m|'ll|'d
size_t contraction_length(std::string_view text) {
  if (text[0] != '\'') return 0;
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (text.substr(1).starts_with(ending)) return 1 + ending.size();
  }
  return 0;
}

/// \s+(?!\S)|\s+: at the end of the text all blanks; elsewhere all except the last one, which may begin a word.
size_t blanks_length(std::string_view text) {
  size_t before_last = 0, end = 0;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end));
    if (next.kind != blank) return before_last > 0 ? before_last : end;
    before_last = end;
    end += next.length;
  }
  return end;
}

}  // namespace

size_t piece_length(std::string_view text) {
  if (const size_t length = contraction_length(text); length > 0) return length;
  const size_t space = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = first_character(text.substr(space)).kind;
  return kind == blank ? blanks_length(text) : space + run_length(text.substr(space), kind);
}

}  // namespace linnet::detail
