#include <cstdlib>
#include <cstring>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/values.h"

/// If a file can be read, its content can be written and read again unchanged.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{5} << 20;  // nlohmann's parser with the longest header, and a table

namespace {

void read_and_write(Bytes input) {
  const File file(input);
  const Safetensors content = checked(input, [&] { return read_safetensors(file.path()); }, most_in_tensors(input));
  const Folder folder;
  const Safetensors again = must([&] {
    write_safetensors(folder.path() / "again", content);
    return read_safetensors(folder.path() / "again");
  });
  if (again.tensors.size() != content.tensors.size() || again.metadata != content.metadata) std::abort();
  for (const auto& [name, tensor] : content.tensors) {
    const Tensor other = must([&] { return again.tensors.at(name); });
    if (other.shape() != tensor.shape() || other.dtype() != tensor.dtype()) std::abort();
    if (test::bytes_of(other) != test::bytes_of(tensor)) std::abort();
  }
}

}  // namespace

void run(Bytes input) {
  try {
    read_and_write(input);
  } catch (const Error&) {
  }
  // The input once more, as a file that consists of a header with the right size before it.
  uint64_t length = 0;
  if (input.size() < sizeof length) return;
  length = input.size() - sizeof length;
  std::vector<uint8_t> header(input.begin(), input.end());
  std::memcpy(header.data(), &length, sizeof length);
  read_and_write(header);
}

}  // namespace linnet::fuzz
