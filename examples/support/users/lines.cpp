#include "support/users/lines.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>

#include "support/format.h"

namespace linnet::examples {

LineReader::LineReader(std::filesystem::path path, bool strict)
    : path_(std::move(path)), strict_(strict), file_(linnet::detail::open_to_read(path_)) {}

bool LineReader::next() {
  errno = 0;
  ++number_;
  const bool is_read = static_cast<bool>(std::getline(file_, line_));
  if (file_.bad()) linnet::detail::cannot_read(path_);
  if (is_read && line_.ends_with('\r')) line_.pop_back();
  return is_read;
}

void LineReader::leave_out(const std::string& why) {
  const std::string what = fmt::format("line {}: {}", number_, why);
  if (strict_) throw IoError(fmt::format("{}, {}", path_.string(), what));
  if (left_out_++ == 0) first_ = what;
}

void LineReader::report() const {
  if (used_ == 0 && left_out_ == 0) {
    throw IoError(fmt::format("{} has no lines; copy it again", path_.string()));
  }
  if (used_ == 0) {
    throw IoError(fmt::format("{}, {}; no line of the file is as expected", path_.string(), first_));
  }
  if (left_out_ == 0) return;
  fmt::print(stderr, "{}: {} of {} lines are malformed and left out; the first is {}\n", path_.string(),
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
