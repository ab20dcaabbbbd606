#include <cstdlib>

#include <linnet/core/error.h>
#include <linnet/core/files/npy.h>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/values.h"

/// NumPy's files: an array, or an archive of arrays, which may decompress to a thousand times its size. If a file can
/// be read, its content can be written and read again unchanged.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{2} << 20;  // zlib's memory, and a part of the decompressed data

namespace {

void check_same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || test::bytes_of(a) != test::bytes_of(b)) std::abort();
}

void read_and_write_array(Bytes input) {
  const File file(input);
  const Tensor x = checked(input, [&] { return read_npy(file.path()); });
  const Folder folder;
  must([&] {
    write_npy(folder.path() / "again", x);
    check_same(x, read_npy(folder.path() / "again"));
  });
}

}  // namespace

void run(Bytes input) {
  try {
    read_and_write_array(input);
  } catch (const Error&) {
  }
  const File file(input);
  const TensorMap tensors = checked(input, [&] { return read_npz(file.path()); });
  const Folder folder;
  try {
    write_npz(folder.path() / "again", tensors);
  } catch (const ValueError&) {  // a name that is not UTF-8
    return;
  }
  must([&] {
    const TensorMap again = read_npz(folder.path() / "again");
    if (again.size() != tensors.size()) std::abort();
    for (const auto& [name, x] : tensors) check_same(x, again.at(name));
  });
}

}  // namespace linnet::fuzz
