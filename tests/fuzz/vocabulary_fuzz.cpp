#include <cstdlib>

#include "support/tasks/text_model.h"
#include "tests/fuzz/fuzz_target.h"

/// The vocabulary in a model file's metadata does not change when it is written and read again.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{1} << 20;

void run(Bytes input) {
  if (input.empty()) return;
  const std::map<std::string, std::string> metadata{{"vocabulary", text_of(input.subspan(1))},
                                                    {"characters", (input[0] & 1) != 0 ? "bytes" : "code points"}};
  const nn::Vocabulary vocabulary = checked(input, [&] { return examples::vocabulary_of(metadata, "model"); });
  const nn::Vocabulary again =
      must([&] { return examples::vocabulary_of(examples::vocabulary_metadata(vocabulary), "model"); });
  if (again.codes() != vocabulary.codes() || again.kind() != vocabulary.kind()) std::abort();
}

}  // namespace linnet::fuzz
