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

/// Reads an IDX file of unsigned bytes, plain or gzip. Throws IoError naming the file and what is wrong with it:
/// missing, not IDX, another element type, truncated, too long, or a corrupt gzip stream.
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace linnet::nn
