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

/// Writes an IDX file of unsigned bytes, without compression. An older file is replaced only when the new one is
/// complete (see AtomicFile).
///
/// Throws: ShapeError when the number of bytes does not fit the shape; ValueError for a shape without dims, and for a
/// size of more than 32 bits; IoError when the file cannot be written.
void write_idx(const std::filesystem::path& path, const IdxArray& array);

}  // namespace linnet::nn
