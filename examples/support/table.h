#pragma once

#include <string>
#include <vector>

namespace linnet::examples {

/// A table for people: columns as wide as their widest cell, numbers to the right, text to the left.
///
///     Table table({"attention", "val loss"});
///     table.add_row({"softmax", "1.886"});
///     fmt::print("{}", table.str());
class Table {
 public:
  explicit Table(std::vector<std::string> columns);

  /// Adds a row of one cell per column; throws std::runtime_error on any other number of cells.
  void add_row(std::vector<std::string> cells);

  /// The header, a rule and the rows, each ended by a newline. A column is numeric when all its cells start like a
  /// number ("12.3 ms", "-0.5", "1.5 GiB"), not counting empty cells, "-" and "n/a".
  std::string str() const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace linnet::examples
