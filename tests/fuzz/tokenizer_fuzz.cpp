#include <algorithm>
#include <cstdlib>

#include <linnet/nn/text/byte_pairs.h>

#include "tests/fuzz/fuzz_target.h"

/// vocab.json and merges.txt, separated by a byte 0, give a tokenizer or an error. A saved tokenizer loads as the
/// same tokenizer, and every text has ids, which decode to it.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{24} << 20;  // a token of few bytes takes a hundred

void run(Bytes input) {
  const std::string text = text_of(input);
  const size_t end = std::min(text.find('\0'), text.size());
  const Folder folder;
  folder.write("vocab.json", input.first(end));
  folder.write("merges.txt", input.subspan(std::min(end + 1, text.size())));
  const auto tokenizer = checked(input, [&] { return nn::BytePairTokenizer::load(folder.path()); });
  must([&] {
    tokenizer.save(folder.path());
    const auto again = nn::BytePairTokenizer::load(folder.path());
    const std::vector<int64_t> ids = tokenizer.encode(text);
    if (again.encode(text) != ids || tokenizer.decode(ids) != text) std::abort();
    if (again.special_tokens() != tokenizer.special_tokens()) std::abort();
  });
}

}  // namespace linnet::fuzz
