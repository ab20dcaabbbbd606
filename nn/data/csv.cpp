#include <linnet/nn/data/csv.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/data/class_numbers.h>
#include <linnet/nn/data/from_chars.h>

namespace linnet::nn {
namespace {

using detail::shortened;

constexpr char kCellEnd = '\0';

/// Rewrites the text of a CSV file in place: cells without their quotes, each followed by kCellEnd. Cells never
/// become longer, so the position to write to is never beyond the position to read from.
class CsvParser {
 public:
  CsvParser(std::string& text, char separator, const std::string& path)
      : text_(text), separator_(separator), path_(path) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) from_ = kByteOrderMark.size();
    const size_t zero = text.find('\0');
    if (zero != std::string::npos) {
      throw IoError(fmt::format("{}: byte {} is 0, so it is not UTF-8 text; save it as UTF-8", path, zero));
    }
    const size_t valid = detail::utf8_bytes(text);
    if (valid < text.size()) throw IoError(fmt::format("{}: byte {} is not UTF-8; save it as UTF-8", path, valid));
  }

  /// The number of rows, all of which have `cells()` cells.
  int64_t parse() {
    int64_t rows = 0;
    for (skip_empty_lines(); from_ < text_.size(); skip_empty_lines()) {
      const int64_t line = line_, count = parse_row();
      if (rows++ == 0) cells_ = count;
      if (count != cells_) {
        throw IoError(fmt::format("{}, line {}: {} cells, but the first row has {}; {}", path_, line, count, cells_,
                                  count < cells_
                                      ? "add the missing ones, or leave the line out"
                                      : fmt::format("put a cell with '{}' in it into double quotes", separator_)));
      }
    }
    text_.resize(to_ == 0 ? 0 : to_ - 1);
    return rows;
  }
  int64_t cells() const { return cells_; }

 private:
  bool at_line_end() const { return text_[from_] == '\n' || text_[from_] == '\r'; }
  void skip_line_end() {
    from_ += text_[from_] == '\r' && from_ + 1 < text_.size() && text_[from_ + 1] == '\n' ? 2 : 1;
    ++line_;
  }
  void skip_empty_lines() {
    while (from_ < text_.size() && at_line_end()) skip_line_end();
  }

  /// Parses a row and returns the number of its cells.
  int64_t parse_row() {
    for (int64_t cells = 1;; ++cells) {
      if (from_ < text_.size() && text_[from_] == '"')
        parse_quoted();
      else
        while (from_ < text_.size() && text_[from_] != separator_ && !at_line_end()) text_[to_++] = text_[from_++];
      const bool is_last = from_ == text_.size() || at_line_end();
      if (from_ < text_.size() && is_last) skip_line_end();
      if (from_ < text_.size() && !is_last) ++from_;
      if (to_ < text_.size()) text_[to_] = kCellEnd;
      ++to_;
      if (is_last) return cells;
    }
  }

  void parse_quoted() {
    const int64_t line = line_;
    for (++from_; from_ < text_.size(); ++from_) {
      if (text_[from_] == '"') {
        ++from_;  // to the second of two quotes, or past the one that ends the cell
        const bool is_end = from_ == text_.size() || text_[from_] != '"';
        if (is_end && (from_ == text_.size() || text_[from_] == separator_ || at_line_end())) return;
        if (is_end) {
          throw IoError(
              fmt::format("{}, line {}: text follows the quote that ends a cell; inside of a cell, quotes "
                          "are doubled",
                          path_, line_));
        }
      }
      if (at_line_end() && text_.compare(from_, 2, "\r\n") != 0) ++line_;
      text_[to_++] = text_[from_];
    }
    throw IoError(fmt::format("{}, line {}: a cell begins with a quote and has none at its end", path_, line));
  }

  std::string& text_;
  char separator_;
  const std::string& path_;
  size_t from_ = 0, to_ = 0;
  int64_t line_ = 1, cells_ = 0;
};

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The text as a number of type T; if it is none, `why` becomes the reason.
template <class T>
std::optional<T> parse_number(std::string_view text, std::string& why) {
  using Parsed = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const bool has_plus = text.starts_with('+') && !text.starts_with("+-");
  const std::string_view digits = text.substr(has_plus ? 1 : 0);
  Parsed value{};
  const auto [end, error] = detail::from_chars(digits, value);
  const bool is_whole = end == digits.data() + digits.size() && !digits.empty();
  bool fits = error != std::errc::result_out_of_range;
  if constexpr (std::is_floating_point_v<T>)
    fits = fits && (std::abs(value) <= std::numeric_limits<T>::max() || !std::isfinite(value));
  if (error != std::errc::invalid_argument && is_whole && fits) return static_cast<T>(value);
  if (is_whole && error != std::errc::invalid_argument)
    why = fmt::format("is beyond the range of {}", name_of(dtype_of<T>));
  else if (std::is_integral_v<T>)
    why = "is not a whole number; read the column as float32, its texts or its categories";
  else if (text.find(',') != std::string_view::npos)
    why = "is not a number; write the decimal point as '.', and nothing between thousands";
  else
    why =
        "is not a number; if it stands for a missing value, add it to CsvOptions::missing; texts() and categories() "
        "take any cell";
  return std::nullopt;
}

}  // namespace

/// Calls `use(row, place, cell)` for the cells of the columns `names`, row by row. `place` is an index into `names`.
template <class Use>
void Table::for_each_cell(const std::vector<std::string>& names, const Use& use) const {
  std::vector<std::vector<size_t>> places(names_.size());  // of each column of the file
  for (size_t place = 0; place < names.size(); ++place) {
    const auto count = std::ranges::count(names_, names[place]);
    if (count != 1) {
      throw IndexError(fmt::format("{} has {} '{}'; its columns are '{}'{}", path_,
                                   count == 0 ? "no column" : "several columns", shortened(names[place]),
                                   shortened(fmt::format("{}", fmt::join(names_, "', '"))),
                                   names_.size() > 1 ? "" : "; is CsvOptions::separator right?"));
    }
    places[static_cast<size_t>(std::ranges::find(names_, names[place]) - names_.begin())].push_back(place);
  }
  std::string_view left = cells_;
  for (int64_t row = 0; row < rows_; ++row) {
    for (const std::vector<size_t>& wanted : places) {
      const std::string_view cell = left.substr(0, left.find(kCellEnd));
      left.remove_prefix(std::min(cell.size() + 1, left.size()));
      for (const size_t place : wanted) use(row, place, cell);
    }
  }
}

void Table::refuse(int64_t row, const std::string& column, const std::string& what) const {
  throw IoError(fmt::format("{}, row {}, column '{}': {}", path_, row + 1, shortened(column), what));
}

template <class T>
Tensor Table::numbers(const std::vector<std::string>& names) const {
  Tensor out = Tensor::empty({rows_, std::ssize(names)}, dtype_of<T>);
  T* to = out.mutable_data<T>().data();
  for_each_cell(names, [&](int64_t row, size_t place, std::string_view whole) {
    const std::string_view cell = without_spaces(whole);
    T& value = to[static_cast<size_t>(row) * names.size() + place];
    if (std::ranges::find(options_.missing, cell) != options_.missing.end()) {
      if (!std::is_floating_point_v<T>) {
        refuse(row, names[place], "no value, and integers have no NaN; fill it in, or read the column as float32");
      }
      value = std::numeric_limits<T>::quiet_NaN();
      return;
    }
    std::string why;
    const std::optional<T> number = parse_number<T>(cell, why);
    if (!number) refuse(row, names[place], fmt::format("'{}' {}", shortened(cell), why));
    value = *number;
  });
  return out;
}

Tensor Table::columns(const std::vector<std::string>& names, DType dtype, Where where) const {
  const Call call("Table::columns", where);
  switch (dtype) {
    case DType::float32: return numbers<float>(names);
    case DType::float64: return numbers<double>(names);
    case DType::int32: return numbers<int32_t>(names);
    case DType::int64: return numbers<int64_t>(names);
    default: break;
  }
  throw DTypeError(
      fmt::format("columns are float32, float64, int32 or int64, not {}; convert them with to()", name_of(dtype)));
}

Tensor Table::column(const std::string& name, DType dtype, Where where) const {
  const Call call("Table::column", where);
  return columns({name}, dtype).reshape({rows_});
}

std::vector<std::string> Table::texts(const std::string& name, Where where) const {
  const Call call("Table::texts", where);
  std::vector<std::string> all;
  for_each_cell({name}, [&](int64_t, size_t, std::string_view cell) { all.emplace_back(cell); });
  return all;
}

std::vector<std::vector<std::string>> Table::texts() const {
  std::vector<std::vector<std::string>> rows(static_cast<size_t>(rows_));
  std::string_view rest = cells_;
  for (std::vector<std::string>& row : rows) {
    row.reserve(names_.size());
    for (size_t column = 0; column < names_.size(); ++column) {
      const std::string_view cell = rest.substr(0, rest.find(kCellEnd));
      row.emplace_back(cell);
      rest.remove_prefix(std::min(cell.size() + 1, rest.size()));  // the last cell has no end
    }
  }
  return rows;
}

Categories Table::categories(const std::string& name, const std::vector<std::string>& names, Where where) const {
  const Call call("Table::categories", where);
  Categories result{Tensor::empty({rows_}, DType::int64), names};
  if (names.empty()) {
    std::set<std::string_view> found;
    for_each_cell({name}, [&](int64_t, size_t, std::string_view cell) { found.insert(cell); });
    result.names.assign(found.begin(), found.end());
  }
  const detail::ClassNumbers classes(result.names);
  int64_t* to = result.indices.mutable_data<int64_t>().data();
  for_each_cell({name}, [&](int64_t row, size_t, std::string_view cell) {
    if (std::ranges::find(options_.missing, without_spaces(cell)) != options_.missing.end()) {
      refuse(row, name, "no value; fill it in, or take it for a class of its own with CsvOptions::missing = {}");
    }
    const std::optional<int64_t> number = classes.find(cell);
    if (!number) {
      refuse(row, name, fmt::format("'{}' is {}; add it to the names", shortened(cell), classes.none_of_them()));
    }
    to[row] = *number;
  });
  return result;
}

Table read_csv(const std::filesystem::path& path, const CsvOptions& options, Where where) {
  const Call call("read_csv", where);
  if (options.separator == '"' || options.separator == '\n' || options.separator == '\r') {
    throw ValueError("a quote or the end of a line cannot be the separator");
  }
  std::string text = detail::read_file(path);
  Table table;
  table.path_ = path.string();
  table.options_ = options;
  CsvParser parser(text, options.separator, table.path_);
  table.rows_ = parser.parse() - (options.header ? 1 : 0);
  if (table.rows_ < 0 || parser.cells() == 0) throw IoError(fmt::format("{} is empty", table.path_));
  std::string_view cells = text;
  for (int64_t i = 0; i < parser.cells(); ++i) {
    const std::string_view cell = cells.substr(0, cells.find(kCellEnd));
    table.names_.push_back(options.header ? std::string(cell) : fmt::to_string(i));
    if (options.header) cells.remove_prefix(std::min(cell.size() + 1, cells.size()));
  }
  text.erase(0, text.size() - cells.size());
  table.cells_ = std::move(text);
  return table;
}

}  // namespace linnet::nn
