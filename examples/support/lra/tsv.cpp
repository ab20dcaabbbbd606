#include "support/lra/tsv.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>

namespace linnet::examples {

TsvReader::TsvReader(std::filesystem::path path, std::vector<std::string> columns)
    : path_(std::move(path)), columns_(std::move(columns)), file_(linnet::detail::open_to_read(path_)) {}

void TsvReader::skip_header() {
  const bool is_header = read_line() && std::vector<std::string>(cells_.begin(), cells_.end()) == columns_;
  if (!is_header) fail(fmt::format("a header is expected: {}, with tabs between", fmt::join(columns_, ", ")));
}

bool TsvReader::next() {
  if (!read_line()) {
    if (examples_ == 0) throw IoError(fmt::format("{} has no examples; copy it again", path_.string()));
    return false;
  }
  ++examples_;
  if (cells_.size() == columns_.size()) return true;
  fail(fmt::format("{} columns, where {} are expected: {}, with tabs between", cells_.size(), columns_.size(),
                   fmt::join(columns_, ", ")));
}

void TsvReader::refuse(std::string_view what, std::string_view value, std::string_view why) const {
  fail(fmt::format("{} '{}'; {}", what, linnet::detail::shortened(value), why));
}

bool TsvReader::read_line() {
  errno = 0;
  ++line_number_;
  const bool is_read = static_cast<bool>(std::getline(file_, line_));
  if (file_.bad()) linnet::detail::cannot_read(path_);
  if (!is_read) return false;
  std::string_view rest = line_;
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  cells_.clear();
  for (;;) {
    const size_t tab = rest.find('\t');
    cells_.push_back(rest.substr(0, tab));
    if (tab == std::string_view::npos) return true;
    rest.remove_prefix(tab + 1);
  }
}

void TsvReader::fail(const std::string& what) const {
  throw IoError(fmt::format("{}, line {}: {}", path_.string(), line_number_, what));
}

}  // namespace linnet::examples
