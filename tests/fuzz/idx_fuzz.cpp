#include <cstdlib>

#include <linnet/nn/data/idx.h>

#include "tests/fuzz/fuzz_target.h"

/// IDX files, plain and compressed by gzip. They may decompress to a thousand times their size.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{2} << 20;  // zlib's memory, and a part of the decompressed data

void run(Bytes input) {
  const File file(input);
  const nn::IdxArray array = checked(input, [&] { return nn::read_idx(file.path()); });
  if (array.shape.numel() != static_cast<int64_t>(array.bytes.size())) std::abort();
}

}  // namespace linnet::fuzz
