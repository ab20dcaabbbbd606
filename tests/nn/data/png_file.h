#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace linnet::test {

inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

inline std::string chunk(const std::string& kind, const std::string& data) {
  const std::string both = kind + data;
  const auto* begin = reinterpret_cast<const Bytef*>(both.data());
  return big_endian(static_cast<uint32_t>(data.size())) + both +
         big_endian(static_cast<uint32_t>(crc32(0, begin, static_cast<uInt>(both.size()))));
}

inline constexpr char kGrey = 0, kRgb = 2, kPalette = 3, kRgba = 6;  // kinds of colour in a PNG file

/// A PNG file, made without libpng. `rows` are the bytes of each row; `more` are chunks before the pixels.
inline std::string png_bytes(uint32_t width, char bits, char kind, const std::vector<std::string>& rows,
                             const std::string& more = "") {
  std::string raw;
  for (const std::string& row : rows) raw += '\0' + row;  // filter 0
  uLongf size = compressBound(raw.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()), raw.size());
  packed.resize(size);
  const std::string header =
      big_endian(width) + big_endian(static_cast<uint32_t>(rows.size())) + std::string{bits, kind, '\0', '\0', '\0'};
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + more + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace linnet::test
