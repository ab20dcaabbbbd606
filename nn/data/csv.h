#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <linnet/core/tensor.h>

namespace linnet::nn {

/// Options of `read_csv`.
struct CsvOptions {
  char separator = ',';  ///< the character between cells; ';' and '\t' are also usual
  bool header = true;    ///< the first row names the columns; otherwise they are "0", "1", …
  /// The cells that mean a missing value, without spaces around them.
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"};
};

/// A column of categories.
struct Categories {
  Tensor indices;                  ///< [rows], int64: the class of each row
  std::vector<std::string> names;  ///< the names of the classes
};

/// A table with named columns, read from a CSV file.
///
///     const nn::Table table = nn::read_csv("houses.csv");
///     Tensor x = table.columns({"rooms", "area"});  // [rows, 2]
///     Tensor y = table.column("price");             // [rows]
///     const auto [city, cities] = table.categories("city");
///
/// Another file must number the classes in the same way, even if it does not have all of them:
///
///     const nn::Categories train = nn::read_csv("train.csv").categories("city");
///     const nn::Categories test = nn::read_csv("test.csv").categories("city", train.names);
///
/// Cost: a call takes one pass over the text of the table.
/// Throws: every member throws IndexError for a column that does not exist, or whose name two columns have; IoError,
/// with row (from 1 on) and column, for a cell that it cannot convert.
class Table {
 public:
  int64_t rows() const { return rows_; }                            ///< without the header
  const std::vector<std::string>& names() const { return names_; }  ///< of the columns

  /// Columns of numbers. The decimal mark is a point in every locale. Missing numbers are NaN.
  ///
  /// Shapes: [rows]; `columns` [rows, names].
  /// Dtypes: float32, float64, int32, int64. Integers must not be missing.
  /// Throws: DTypeError for another dtype.
  Tensor column(const std::string& name, DType dtype = DType::float32, Where where = {}) const;
  Tensor columns(const std::vector<std::string>& names, DType dtype = DType::float32, Where where = {}) const;

  /// The cells as they are in the file, also missing ones.
  std::vector<std::string> texts(const std::string& name, Where where = {}) const;
  /// The cells of all columns as they are in the file, row by row.
  std::vector<std::vector<std::string>> texts() const;
  /// A column of classes, numbered in the order of their names. No cell may be missing. If `names` are given, they
  /// are the classes, in their order, as in pandas' `Categorical(values, categories=names)`, which takes other cells
  /// for missing ones.
  ///
  /// Throws: IoError for a cell that is none of the names; ValueError for a name that is given twice.
  Categories categories(const std::string& name, const std::vector<std::string>& names = {}, Where where = {}) const;

 private:
  friend Table read_csv(const std::filesystem::path& path, const CsvOptions& options, Where where);
  template <class Use>
  void for_each_cell(const std::vector<std::string>& names, const Use& use) const;
  [[noreturn]] void refuse(int64_t row, const std::string& column, const std::string& what) const;
  template <class T>
  Tensor numbers(const std::vector<std::string>& names) const;

  std::string path_;
  CsvOptions options_;
  std::vector<std::string> names_;
  int64_t rows_ = 0;
  std::string cells_;  // row by row, with a byte 0 after each but the last
};

/// Reads a CSV file as RFC 4180 describes it: a cell in double quotes may contain separators, line ends and doubled
/// quotes. Lines end with LF, CR LF or CR. Empty lines and a byte order mark are skipped.
///
/// Cost: one pass over the file; in memory, its size and about 50 bytes per column.
/// Throws: IoError, with the line, for a row with more or fewer cells than the first one, for a quoted cell without
/// an end, and for text after its closing quote; IoError for a file that is missing, empty or not UTF-8 text;
/// ValueError for a separator that is a quote or a line end.
Table read_csv(const std::filesystem::path& path, const CsvOptions& options = {}, Where where = {});

}  // namespace linnet::nn
