#include <cstdlib>

#include <linnet/nn/text/words.h>

#include "tests/fuzz/fuzz_target.h"

/// Files of words give a vocabulary or an error. A saved vocabulary loads as the same vocabulary.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{1} << 20;

void run(Bytes input) {
  const Folder folder;
  folder.write("words", input);
  constexpr int64_t kCopies = 32;  // a line of a few bytes is a string, and a key of a map
  const auto load = [&] { return nn::WordVocabulary::load(folder.path() / "words"); };
  const auto vocabulary = checked(input, load, kCopies * static_cast<int64_t>(input.size()));
  must([&] {
    vocabulary.save(folder.path() / "words");
    if (load().words() != vocabulary.words()) std::abort();
    for (int64_t id = 2; id < vocabulary.size(); ++id) {
      if (vocabulary.id(vocabulary.words()[static_cast<size_t>(id)]) != id) std::abort();
    }
  });
}

}  // namespace linnet::fuzz
