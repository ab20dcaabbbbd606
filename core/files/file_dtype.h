#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <linnet/core/dtype.h>

/// The element types of files, and their dtypes in memory.

namespace linnet::detail {

/// Converts `count` elements at `from` to elements of a wider dtype at `to`. Returns nothing, or if an element does
/// not fit, that element as a string.
using Widen = std::optional<std::string> (*)(const std::byte* from, int64_t count, void* to);

/// An element type of files.
struct FileDType {
  std::string_view safetensors;  ///< its name in safetensors files
  std::string_view numpy;        ///< its name in NumPy's files, without the byte order; empty if NumPy lacks it
  int64_t size;                  ///< bytes of an element in the file
  DType dtype;                   ///< the dtype in memory, which holds every value exactly
  Widen widen = {};              ///< the conversion; none if the bytes in memory are the same
};

/// All types that linnet reads.
extern const std::array<FileDType, 15> kFileDTypes;

}  // namespace linnet::detail
