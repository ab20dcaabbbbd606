#pragma once

#include <cstddef>

namespace linnet {

/// The place of a call in the source. As a defaulted last parameter (`Where where = {}`) it is the caller's
/// line. The builtins serve g++ and every clang since 9, which `std::source_location` does not.
struct Where {
  const char* file;  ///< of the source
  int line;          ///< in that file, from 1
  /// By default the place of the call.
  constexpr Where(const char* file_ = __builtin_FILE(), int line_ = __builtin_LINE()) : file(file_), line(line_) {}
  /// Refuses a literal 0, which is a null pointer: an argument too many, as in `nonzero(x, 0)`.
  Where(std::nullptr_t) = delete;
};

}  // namespace linnet
