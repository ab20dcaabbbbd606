#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <linnet/core/shape.h>

namespace linnet::nn {

/// An array of bytes as MNIST stores it.
struct IdxArray {
  Shape shape;
  std::vector<uint8_t> bytes;
};

/// Reads an IDX file of unsigned bytes, plain or gzip.
///
/// Throws: IoError, with the file's name, for a file that is missing, not IDX, of another element type, truncated or
/// too long, and for a corrupt gzip stream.
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace linnet::nn
