#include <cstdlib>

#include <linnet/nn/models/gpt2.h>

#include "tests/fuzz/fuzz_target.h"

/// The config.json of a released model: reading it gives sizes and an end token, or an error.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{6} << 20;  // nlohmann's tree of the longest text that is parsed

void run(Bytes input) {
  const File file(input);
  checked(input, [&] { return nn::read_gpt2_config(file.path()); });
  checked(input, [&] { return nn::read_gpt2_eos_token_id(file.path()); });
}

}  // namespace linnet::fuzz
