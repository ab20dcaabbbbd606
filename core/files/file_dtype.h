#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <linnet/core/dtype.h>

/// The element types of files, and what they become in memory.

namespace linnet::detail {

/// Converts `count` elements at `from` to elements of a wider dtype at `to`. Returns nothing, or an element that does
/// not fit, as text.
using Widen = std::optional<std::string> (*)(const std::byte* from, int64_t count, void* to);

/// An element type of files.
struct FileDType {
  std::string_view safetensors;  ///< its name in safetensors files
  std::string_view numpy;        ///< its name in NumPy's files, without the byte order; empty where they lack it
  int64_t size;                  ///< bytes of an element in the file
  DType dtype;                   ///< the dtype in memory, which holds every value exactly
  Widen widen = {};              ///< the conversion; none where the bytes are the same in memory
};

/// All types that are read.
extern const std::array<FileDType, 15> kFileDTypes;

}  // namespace linnet::detail
