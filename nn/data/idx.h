#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <linnet/core/shape.h>

namespace linnet::nn {

/// An array of bytes as MNIST stores it.
struct IdxArray {
  Shape shape;                 ///< sizes, outermost first
  std::vector<uint8_t> bytes;  ///< row-major
};

/// Reads an IDX file of unsigned bytes, plain or gzip.
///
/// Throws: IoError, with the file's name, for a file that is missing, not IDX, of another element type, truncated or
/// too long, and for a corrupt gzip stream.
IdxArray read_idx(const std::filesystem::path& path);

/// Writes an IDX file of unsigned bytes, without compression. It replaces an older file only when it is complete (see
/// AtomicFile).
///
/// Throws: ShapeError when the bytes do not fill the shape; ValueError for a shape without dims, and for a size that
/// 32 bits do not hold; IoError when the file cannot be written.
void write_idx(const std::filesystem::path& path, const IdxArray& array);

}  // namespace linnet::nn
