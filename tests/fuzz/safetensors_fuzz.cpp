#include <cstdlib>

#include <linnet/core/files/safetensors.h>

#include "tests/fuzz/fuzz_target.h"

/// A file that can be read can be written, and is read again as the same.

namespace linnet::fuzz {

const int64_t memory_factor = 6;  // codes of 8 bits become floats of 32, beside the file's own bytes and the copy

void run(Bytes input) {
  const File file(input);
  const Safetensors content = read_safetensors(file.path());
  const Folder folder;
  write_safetensors(folder.path() / "again", content);
  const Safetensors again = read_safetensors(folder.path() / "again");
  if (again.tensors.size() != content.tensors.size() || again.metadata != content.metadata) std::abort();
  for (const auto& [name, tensor] : content.tensors) {
    const Tensor& other = again.tensors.at(name);
    if (other.shape() != tensor.shape() || other.dtype() != tensor.dtype()) std::abort();
    if (to_string(other) != to_string(tensor)) std::abort();
  }
}

}  // namespace linnet::fuzz
