#pragma once

#include <string>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

/// The errors of reading one file. This file is not installed, because it needs fmt's.
struct FileErrors {
  std::string path;
  std::string format;     ///< "a .npy file"
  std::string part = {};  ///< the entry of an archive that is read, as "'x.npy': "

  /// The bytes are not what the format asks for.
  [[noreturn]] void damaged(const std::string& what) const {
    throw IoError(
        fmt::format("'{}' is damaged, truncated or not {}: {}{}; make or copy it again", path, format, part, what));
  }
  /// The content is sound, but nothing that linnet reads; `what` says what to do.
  [[noreturn]] void refused(const std::string& what) const { throw refusal(what); }
  IoError refusal(const std::string& what) const { return IoError(fmt::format("'{}': {}{}", path, part, what)); }
};

}  // namespace linnet::detail
