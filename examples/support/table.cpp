#include "support/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <string_view>

#include "support/format.h"

namespace linnet::examples {
namespace {

constexpr std::string_view kGap = "  ";

bool is_blank(std::string_view cell) { return cell.empty() || cell == "-" || cell == "n/a"; }

bool is_number(std::string_view cell) {
  if (cell == "nan" || cell == "inf" || cell == "-inf") return true;
  cell.remove_prefix(std::min(cell.find_first_not_of("+-."), cell.size()));
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) != 0;
}

struct Column {
  int64_t width = 0;
  bool numbers = false;

  std::string pad(const std::string& cell) const {
    const std::string spaces(static_cast<size_t>(width - display_width(cell)), ' ');
    return numbers ? spaces + cell : cell + spaces;
  }
};

std::string trim_end(std::string line) { return line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

Table::Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw std::runtime_error(
        fmt::format("table: a row of {} cells in a table of {} columns; give one cell per column", cells.size(),
                    columns_.size()));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::str() const {
  std::vector<Column> layout(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    bool any = false;
    bool all = true;
    layout[c].width = display_width(columns_[c]);
    for (const auto& row : rows_) {
      layout[c].width = std::max(layout[c].width, display_width(row[c]));
      if (is_blank(row[c])) continue;
      any = true;
      all = all && is_number(row[c]);
    }
    layout[c].numbers = any && all;
  }

  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) text += kGap;
      text += layout[c].pad(cells[c]);
    }
    return trim_end(std::move(text)) + '\n';
  };
  std::vector<std::string> rule;
  rule.reserve(layout.size());
  for (const Column& column : layout) rule.emplace_back(static_cast<size_t>(column.width), '-');

  std::string text = line(columns_) + line(rule);
  for (const auto& row : rows_) text += line(row);
  return text;
}

}  // namespace linnet::examples
