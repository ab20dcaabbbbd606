#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace linnet::examples {

/// Reads a file line by line. Tabs separate the columns, and quotes have no meaning. Lines may end with CR LF.
class TsvReader {
 public:
  /// Throws: IoError for a file that cannot be read.
  TsvReader(std::filesystem::path path, std::vector<std::string> columns);

  /// Reads the first line, which must have the columns' names. Throws as `next`.
  void skip_header();
  /// Goes on to the next line; false at the end.
  ///
  /// Throws: IoError, with the line's number, unless the line has a cell for each column; and for a file without
  /// lines.
  bool next();
  /// A cell of the line, valid until the next call of `next`.
  std::string_view cell(size_t column) const { return cells_[column]; }
  /// Throws the IoError for a value of the line: "…/a.tsv, line 3: label '2.0'; 0.0 or 1.0 is expected".
  [[noreturn]] void refuse(std::string_view what, std::string_view value, std::string_view why) const;

 private:
  bool read_line();
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  std::ifstream file_;
  int64_t line_number_ = 0, examples_ = 0;
  std::string line_;
  std::vector<std::string_view> cells_;
};

}  // namespace linnet::examples
