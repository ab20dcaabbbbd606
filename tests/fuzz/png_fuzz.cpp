#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include <linnet/nn/data/image_folder.h>
#include <png.h>
#include <zlib.h>

#include "tests/fuzz/fuzz_target.h"

/// PNG files, which libpng decodes. The first byte of the input chooses the channels, and whether the target first
/// corrects the checksums of chunks: libpng does not read on after a wrong one.

namespace linnet::fuzz {
namespace {

uint32_t number_at(const std::vector<uint8_t>& file, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | file[at + i];
  return number;
}

std::vector<uint8_t> with_checksums(std::vector<uint8_t> file) {
  constexpr size_t kSignature = 8, kWord = 4;                     // bytes
  for (size_t at = kSignature; at + 3 * kWord <= file.size();) {  // a length, a name, the content, the checksum
    const size_t length = number_at(file, at), begin = at + kWord, end = begin + kWord + length;
    if (end + kWord > file.size()) break;
    const uLong checksum = crc32_z(0, file.data() + begin, end - begin);
    for (size_t i = 0; i < kWord; ++i) file[end + i] = static_cast<uint8_t>(checksum >> (24 - 8 * i));
    at = end + kWord;
  }
  return file;
}

}  // namespace

// libpng keeps two rows of up to a million pixels of 8 bytes each. zlib has less than 2 MiB.
const int64_t memory_allowance = (int64_t{2} << 20) + 2 * 8 * PNG_USER_WIDTH_MAX;

void run(Bytes input) {
  if (input.empty()) return;
  constexpr int64_t kChannels[] = {1, 3, 4, 2};
  constexpr int64_t kMostPixels = int64_t{1} << 26, kMostPacked = 8 * 1032;  // pixels in a byte of a file
  const int64_t channels = kChannels[input[0] % 4];
  std::vector<uint8_t> image_file(input.begin() + 1, input.end());
  if ((input[0] & 4) != 0) image_file = with_checksums(std::move(image_file));
  const File file(image_file);
  // A file that ends too early is only noticed after memory for its pixels, of 4 bytes each, is allocated.
  const int64_t pixels = std::min(kMostPixels, kMostPacked * static_cast<int64_t>(image_file.size()));
  const Tensor image = checked(image_file, [&] { return nn::read_png(file.path(), channels); }, 4 * pixels);
  if (image.rank() != 3 || image.size(0) != channels) std::abort();
  for (const float value : image.data<float>()) {
    if (!(value >= 0 && value <= 1.001F)) std::abort();
  }
}

}  // namespace linnet::fuzz
