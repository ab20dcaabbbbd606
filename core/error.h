#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <linnet/core/where.h>

namespace linnet {

/// Names the call that is under way on this thread, for errors and for the tape. The outermost one is what the
/// user wrote, and so what messages name; an op made of other ops opens one with its own name.
class Call {
 public:
  /// Keeps the pointers, and a tape that is recorded meanwhile keeps them too: the texts must outlive both, as
  /// literals do.
  Call(const char* name, Where where, const char* prefix = "");
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const char* name() const { return name_; }  ///< as messages name the op
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

/// Base of everything linnet throws. Reads `op: message (program.cpp:12)`, with the op and the line of the outermost
/// Call. Catch a subclass to tell causes apart.
class Error : public std::runtime_error {
 public:
  /// With the call that is under way put around the message.
  explicit Error(const std::string& message);
  /// The message alone, without op and line, for an error that says more.
  std::string_view message() const { return std::string_view(what()).substr(begin_, size_); }

 private:
  size_t begin_, size_;
};

/// Shapes that do not fit together, or a dim that does not exist.
struct ShapeError : Error {
  using Error::Error;
};
/// A dtype the op does not take, or two that differ.
struct DTypeError : Error {
  using Error::Error;
};
/// A device that was not built or is not there, or two that differ.
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
/// A file that cannot be read or written, or is not what it should be.
struct IoError : Error {
  using Error::Error;
};
/// Memory that could not be had.
struct MemoryError : Error {
  using Error::Error;
};

}  // namespace linnet
