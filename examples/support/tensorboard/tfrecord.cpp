#include "support/tensorboard/tfrecord.h"

#include <array>
#include <bit>

namespace linnet::examples {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord files are little-endian");

/// The CRC-32C of each byte, for the table-driven algorithm.
constexpr std::array<uint32_t, 256> kRemainders = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78 : 0);
    table[byte] = remainder;
  }
  return table;
}();

template <class Number>
std::string bytes_of(Number number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(Number)>>(number);
  return {bytes.begin(), bytes.end()};
}

/// The masked CRC of the TFRecord format: masking keeps the CRC of data that contain CRCs sound.
std::string checksum(std::string_view bytes) { return bytes_of(std::rotr(crc32c(bytes), 15) + 0xa282ead8U); }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kRemainders[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  const std::string length = bytes_of(uint64_t{data.size()});
  return length + checksum(length) + std::string(data) + checksum(data);
}

}  // namespace linnet::examples
