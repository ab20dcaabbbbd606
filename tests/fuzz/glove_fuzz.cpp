#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <linnet/nn/text/glove.h>

#include "tests/fuzz/fuzz_target.h"

/// Files of word vectors. The vocabulary is that of the input itself, so that many of its words are found.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{15} << 20;  // the covariance of vectors of many numbers

void run(Bytes input) {
  const File file(input);
  const auto vocabulary = nn::WordVocabulary::build(std::vector<std::string>{text_of(input)}, {.max_tokens = 100});
  Generator rng(1);
  const nn::WordVectors glove = checked(input, [&] { return nn::read_glove(file.path(), vocabulary, rng); });
  for (const float value : glove.vectors.to_vector<float>()) {
    if (!std::isfinite(value)) std::abort();
  }
  if (glove.vectors.size(0) != vocabulary.size() || glove.found < 1 || glove.found >= vocabulary.size()) std::abort();
}

}  // namespace linnet::fuzz
