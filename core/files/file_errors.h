#pragma once

#include <string>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

/// The errors of reading one file. This header is not installed, because it includes fmt's headers.
struct FileErrors {
  std::string path;
  std::string format;     ///< "a .npy file"
  std::string part = {};  ///< the entry of an archive that is being read, such as "'x.npy': "

  /// Throws for bytes that violate the format.
  [[noreturn]] void damaged(const std::string& what) const {
    throw IoError(
        fmt::format("'{}' is damaged, truncated or not {}: {}{}; make or copy it again", path, format, part, what));
  }
  /// Throws for a valid file that linnet does not support; `what` says what to do.
  [[noreturn]] void refused(const std::string& what) const { throw refusal(what); }
  IoError refusal(const std::string& what) const { return IoError(fmt::format("'{}': {}{}", path, part, what)); }
};

}  // namespace linnet::detail
