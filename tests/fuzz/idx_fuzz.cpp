#include <cstdlib>

#include <linnet/nn/data/idx.h>

#include "tests/fuzz/fuzz_target.h"

/// IDX files, plain and packed by gzip, which may unpack to a thousand times their size.

namespace linnet::fuzz {

const int64_t memory_factor = 4 * 1032;  // deflate's best, and a vector that grows

void run(Bytes input) {
  const File file(input);
  const nn::IdxArray array = nn::read_idx(file.path());
  if (array.shape.numel() != static_cast<int64_t>(array.bytes.size())) std::abort();
}

}  // namespace linnet::fuzz
