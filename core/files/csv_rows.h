#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace linnet::detail {

/// The rows of a CSV text as RFC 4180 describes them: a cell in double quotes may contain separators, line ends and
/// doubled quotes. Lines end with LF, CR LF or CR. Empty lines and a byte order mark are skipped. After a row with a
/// fault, it goes on in the next line, so a quote without an end costs only its own line.
class CsvRows {
 public:
  /// Doubled quotes become single ones in `text` itself, so a cell never needs memory of its own.
  CsvRows(std::string& text, char separator);

  /// Goes on to the next row; false at the end.
  bool next();
  /// Valid as long as the text. Undefined for a row with a fault.
  const std::vector<std::string_view>& cells() const { return cells_; }
  /// What is wrong with the row; empty if nothing is.
  const std::string& fault() const { return fault_; }
  /// The line in which the row begins, from 1. With a fault, the line of the fault.
  int64_t line() const { return line_; }

 private:
  bool at(char c) const { return position_ < text_.size() && text_[position_] == c; }
  bool at_line_end() const { return at('\n') || at('\r'); }
  void skip_line_end();
  bool read_cell();
  void read_quoted();

  std::string& text_;
  char separator_;
  size_t position_ = 0;
  int64_t line_ = 0, next_line_ = 1;
  std::vector<std::string_view> cells_;  // until the row is whole, quoted ones still have their doubled quotes
  std::vector<size_t> doubled_;          // the cells with doubled quotes
  std::string fault_;
};

}  // namespace linnet::detail
