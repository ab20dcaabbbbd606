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
#include <linnet/core/files/csv_rows.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/data/class_numbers.h>
#include <linnet/nn/data/from_chars.h>

namespace linnet::nn {
namespace {

using detail::shortened;

constexpr char kCellEnd = '\0';

/// Throws IoError if the text of `path` is not UTF-8.
void check_is_text(const std::string& text, const std::string& path) {
  const size_t zero = text.find('\0');
  if (zero != std::string::npos) {
    throw IoError(fmt::format("{}: byte {} is 0, so it is not UTF-8 text; save it as UTF-8", path, zero));
  }
  const size_t valid = detail::utf8_bytes(text);
  if (valid < text.size()) throw IoError(fmt::format("{}: byte {} is not UTF-8; save it as UTF-8", path, valid));
}

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
  check_is_text(text, table.path_);
  size_t end = 0;  // of the cells. They are moved to the front of the text, where each takes less than it did before.
  int64_t count = 0;
  for (detail::CsvRows row(text, options.separator); row.next(); ++count) {
    const std::vector<std::string_view>& cells = row.cells();
    if (!row.fault().empty()) {
      throw IoError(fmt::format("{}, line {}: {}", table.path_, row.line(), row.fault()));
    }
    if (count == 0) {
      table.names_.reserve(cells.size());
      for (size_t i = 0; i < cells.size(); ++i)
        table.names_.push_back(options.header ? std::string(cells[i]) : fmt::to_string(i));
      if (options.header) continue;
    }
    if (cells.size() != table.names_.size()) {
      throw IoError(
          fmt::format("{}, line {}: {} cells, but the first row has {}; {}", table.path_, row.line(), cells.size(),
                      table.names_.size(),
                      cells.size() < table.names_.size()
                          ? "add the missing ones, or leave the line out"
                          : fmt::format("put a cell with '{}' in it into double quotes", options.separator)));
    }
    for (const std::string_view cell : cells) {
      std::ranges::copy(cell, text.begin() + static_cast<std::ptrdiff_t>(end));
      end += cell.size();
      if (end < text.size()) text[end] = kCellEnd;
      ++end;
    }
  }
  if (count == 0) throw IoError(fmt::format("{} is empty", table.path_));
  table.rows_ = count - (options.header ? 1 : 0);
  text.resize(end == 0 ? 0 : end - 1);
  table.cells_ = std::move(text);
  return table;
}

}  // namespace linnet::nn
