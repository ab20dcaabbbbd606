#include "support/users/records.h"

#include <cstdio>

#include <fmt/format.h>
#include <linnet/core/error.h>

#include "support/format.h"

namespace linnet::examples {

RecordReader::RecordReader(const std::filesystem::path& path, bool strict)
    : path_(path.string()), strict_(strict), file_(path) {}

void RecordReader::leave_out(const std::string& why) {
  const std::string what = fmt::format("line {}: {}", file_.number(), why);
  if (strict_) throw IoError(fmt::format("{}, {}", path_, what));
  if (left_out_++ == 0) first_ = what;
}

void RecordReader::report() const {
  if (used_ == 0 && left_out_ == 0) {
    throw IoError(fmt::format("{} has no lines; copy it again", path_));
  }
  if (used_ == 0) {
    throw IoError(fmt::format("{}, {}; no line of the file is as expected", path_, first_));
  }
  if (left_out_ == 0) return;
  fmt::print(stderr, "{}: {} of {} lines are malformed and left out; the first is {}\n", path_,
             format_count(left_out_), format_count(left_out_ + used_), first_);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace linnet::examples
