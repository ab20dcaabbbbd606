#include <linnet/core/files/csv_rows.h>

#include <algorithm>

#include <linnet/core/files/utf8.h>

namespace linnet::detail {

CsvRows::CsvRows(std::string& text, char separator) : text_(text), separator_(separator) {
  if (text.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
}

bool CsvRows::next() {
  while (at_line_end()) skip_line_end();
  if (position_ == text_.size()) return false;
  const size_t begin = position_;
  line_ = next_line_;
  fault_.clear();
  cells_.clear();
  doubled_.clear();
  const int64_t first_line = next_line_;
  while (read_cell()) {
  }
  if (!fault_.empty()) {
    position_ = std::min(text_.find_first_of("\r\n", begin), text_.size());
    next_line_ = first_line;
    return true;
  }
  for (const size_t i : doubled_) {
    char* const cell = text_.data() + (cells_[i].data() - text_.data());
    const auto is_second = [is_second = false](char previous, char c) mutable {
      return is_second = previous == '"' && c == '"' && !is_second;
    };
    cells_[i] = {cell, std::unique(cell, cell + cells_[i].size(), is_second)};
  }
  if (at_line_end()) skip_line_end();
  return true;
}

void CsvRows::skip_line_end() {
  position_ += text_.compare(position_, 2, "\r\n") == 0 ? 2 : 1;
  ++next_line_;
}

/// Reads a cell with the separator after it; false if it is the last one of the row, or has a fault.
bool CsvRows::read_cell() {
  if (at('"')) {
    read_quoted();
    if (!fault_.empty()) return false;
  } else {
    const size_t begin = position_;
    while (position_ < text_.size() && text_[position_] != separator_ && !at_line_end()) ++position_;
    cells_.emplace_back(text_.data() + begin, position_ - begin);
  }
  if (!at(separator_)) return false;
  ++position_;
  return true;
}

void CsvRows::read_quoted() {
  const int64_t first_line = next_line_;
  const size_t begin = ++position_;
  bool has_doubled = false;
  for (; position_ < text_.size(); ++position_) {
    if (at('"')) {
      ++position_;  // to the second of two quotes, or past the one that ends the cell
      if (position_ == text_.size() || at(separator_) || at_line_end()) {
        if (has_doubled) doubled_.push_back(cells_.size());
        cells_.emplace_back(text_.data() + begin, position_ - begin - 1);
        return;
      }
      if (!at('"')) {
        line_ = next_line_;
        fault_ = "text follows the quote that ends a cell; inside of a cell, quotes are doubled";
        return;
      }
      has_doubled = true;
    }
    if (at_line_end() && text_.compare(position_, 2, "\r\n") != 0) ++next_line_;
  }
  line_ = first_line;
  fault_ = "a cell begins with a quote and has none at its end";
}

}  // namespace linnet::detail
