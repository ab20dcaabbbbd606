#include <cstdlib>

#include <linnet/nn/data/text.h>

#include "tests/fuzz/fuzz_target.h"

/// If a text can be read, its vocabulary decodes its ids to the same text.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{12} << 20;  // tables of all code points, while a vocabulary is made

void run(Bytes input) {
  if (input.empty()) return;
  const uint8_t choice = input[0];
  const File file(input.subspan(1));
  const nn::TextOptions options{
      .characters = (choice & 1) != 0 ? nn::Characters::bytes : nn::Characters::code_points,
      .normalise_newlines = (choice & 2) != 0,
  };
  const nn::CharText text = checked(input, [&] { return nn::CharText::read(file.path(), options); });
  const std::string decoded = text.vocabulary().decode(text.train()) + text.vocabulary().decode(text.validation());
  if (options.normalise_newlines || text.dropped_marks() > 0) {
    if (decoded.find("\r\n") != std::string::npos && options.normalise_newlines) std::abort();
    return;
  }
  if (decoded != text_of(input.subspan(1))) std::abort();
}

}  // namespace linnet::fuzz
