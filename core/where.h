#pragma once

#include <cstddef>

namespace linnet {

/// The place of a call in the source. As a defaulted last parameter (`Where where = {}`) it is the caller's line. It
/// uses builtins that g++ and all versions of clang since 9 have, because some of these lack `std::source_location`.
struct Where {
  const char* file;  ///< the source file
  int line;          ///< in that file, from 1
  /// The defaults are the place of the call.
  constexpr Where(const char* file_ = __builtin_FILE(), int line_ = __builtin_LINE()) : file(file_), line(line_) {}
  /// Refuses a literal 0, which would convert to a null `file`. It is one argument too many, as in `nonzero(x, 0)`.
  Where(std::nullptr_t) = delete;
};

}  // namespace linnet
