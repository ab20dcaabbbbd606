#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <linnet/core/files/read_file.h>

#include "support/texts/formats.h"

namespace linnet::examples {
namespace {

/// The rows of a CSV text as RFC 4180 describes them: a cell in double quotes may contain commas, line ends and
/// doubled quotes. Lines end with LF, CR LF or CR. Empty lines and a byte order mark are skipped. After a row with a
/// fault, it goes on in the next line: a quote without an end costs only its own line.
class CsvRows {
 public:
  explicit CsvRows(std::string_view text) : rest_(text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  /// Goes on to the next row; false at the end.
  bool next() {
    while (at_line_end()) skip_line_end();
    if (rest_.empty()) return false;
    const std::string_view row = rest_;
    line_ = next_line_;
    fault_ = {};
    cells_.clear();
    while (read_cell()) {
    }
    if (fault_.empty()) return true;
    rest_ = row;
    next_line_ = line_;
    rest_.remove_prefix(std::min(rest_.find_first_of("\r\n"), rest_.size()));
    return true;
  }
  const std::vector<std::string>& cells() const { return cells_; }
  /// What is wrong with the row; empty if nothing is.
  std::string_view fault() const { return fault_; }
  /// The line in which the row begins, from 1.
  int64_t line() const { return line_; }

 private:
  bool at_line_end() const { return rest_.starts_with('\n') || rest_.starts_with('\r'); }
  void skip_line_end() {
    rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
    ++next_line_;
  }

  /// Reads a cell with the comma after it; false if it is the last one of the row, or has a fault.
  bool read_cell() {
    std::string& cell = cells_.emplace_back();
    if (rest_.starts_with('"')) {
      read_quoted(cell);
    } else {
      const size_t size = std::min(rest_.find_first_of(",\r\n"), rest_.size());
      cell = rest_.substr(0, size);
      rest_.remove_prefix(size);
    }
    if (!rest_.starts_with(',')) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void read_quoted(std::string& cell) {
    for (rest_.remove_prefix(1); !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_.front() == '"') {
        rest_.remove_prefix(1);  // to the second of two quotes, or past the one that ends the cell
        if (rest_.empty() || rest_.front() == ',' || at_line_end()) return;
        if (rest_.front() != '"') {
          fault_ = "text follows the quote that ends a cell; inside of a cell, quotes are doubled";
          rest_ = {};
          return;
        }
      }
      if (at_line_end() && !rest_.starts_with("\r\n")) ++next_line_;
      cell += rest_.front();
    }
    fault_ = "a cell begins with a quote and has none at its end";
  }

  std::string_view rest_;
  int64_t line_ = 0, next_line_ = 1;
  std::vector<std::string> cells_;
  std::string_view fault_;
};

}  // namespace

std::vector<LabelledText> read_labelled_csv(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                            MalformedLines& malformed) {
  const TextColumns columns(settings);
  const std::string text = linnet::detail::read_file(path);
  std::vector<LabelledText> texts;
  size_t width = 0;  // cells of the first row
  for (CsvRows rows(text); rows.next();) {
    const std::string place = fmt::format("{}, line {}", path.string(), rows.line());
    const size_t count = rows.cells().size();
    if (width == 0 && rows.fault().empty()) width = count;
    if (!rows.fault().empty()) {
      malformed.add(place, std::string(rows.fault()));
    } else if (count != width) {
      malformed.add(place, fmt::format("{} cells, but the first row has {}{}", count, width,
                                       count > width ? "; put a cell with ',' in it into double quotes" : ""));
    } else {
      columns.add(rows.cells(), place, texts, malformed);
    }
  }
  return texts;
}

}  // namespace linnet::examples
