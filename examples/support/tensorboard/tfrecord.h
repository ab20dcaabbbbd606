#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace linnet::examples {

/// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::string_view bytes);

/// A record of a TFRecord file: its length (8 bytes), the length's checksum (4), the data, the data's checksum (4).
std::string tfrecord(std::string_view data);

}  // namespace linnet::examples
