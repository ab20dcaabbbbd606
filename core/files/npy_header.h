#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/core/files/file_errors.h>
#include <linnet/core/shape.h>

/// The header of a .npy file: 6 bytes of magic, 2 of version, the length of the text (2 bytes in version 1, 4 in
/// versions 2 and 3), and the text, a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
///
/// Source: NumPy Enhancement Proposal 1, and numpy.lib.format.

namespace linnet::detail {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// The parsed text of a header.
struct NpyHeader {
  std::string descr;  ///< byte order and element type: "<f4"
  bool fortran_order = false;
  std::vector<int64_t> sizes;
};

/// Parses the text of a header, which begins at byte `begin` of the file. The text is never evaluated as Python.
NpyHeader parse_npy_header(std::string_view text, int64_t begin, const FileErrors& errors);

/// A whole header: all bytes before the elements of a row-major array.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace linnet::detail
