#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <linnet/core/where.h>

namespace linnet {

/// A guard that names the running call on this thread, for error messages and for the tape. Messages name the
/// outermost Call, because that is the function that the user called. An op made of other ops opens a Call with its
/// own name.
class Call {
 public:
  /// Keeps the pointers; a tape that is recorded meanwhile keeps them too. The strings must outlive both, as string
  /// literals do.
  Call(const char* name, Where where, const char* prefix = "");
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const char* name() const { return name_; }  ///< the op's name in messages
  /// Words before the name in messages: "backward of ".
  const char* prefix() const { return prefix_; }
  Where where() const { return where_; }  ///< the caller's line
  /// The outermost call of this thread, or null outside any.
  static const Call* outermost();

 private:
  const char* name_;
  const char* prefix_;
  Where where_;
  bool is_outermost_;
};

/// The base class of all exceptions that linnet throws. `what()` is `op: message (program.cpp:12)`, with the op and
/// the line of the outermost Call. Catch a subclass to tell causes apart.
class Error : public std::runtime_error {
 public:
  /// Adds the op and the line of the running call to the message.
  explicit Error(const std::string& message);
  /// The message without op and line, to build a longer message from it.
  std::string_view message() const { return std::string_view(what()).substr(begin_, size_); }

 private:
  size_t begin_, size_;
};

/// Shapes that do not fit together, or a dim that does not exist.
struct ShapeError : Error {
  using Error::Error;
};
/// A dtype that the op does not take, or two dtypes that differ.
struct DTypeError : Error {
  using Error::Error;
};
/// A device that linnet was built without or that is missing, or two devices that differ.
struct DeviceError : Error {
  using Error::Error;
};
/// An index or a label outside its range.
struct IndexError : Error {
  using Error::Error;
};
/// An argument outside its range.
struct ValueError : Error {
  using Error::Error;
};
/// A gradient that cannot be computed as asked.
struct AutogradError : Error {
  using Error::Error;
};
/// A file that cannot be read or written, or whose content is invalid.
struct IoError : Error {
  using Error::Error;
};
/// Not enough memory.
struct MemoryError : Error {
  using Error::Error;
};

}  // namespace linnet
