#include <algorithm>

#include <fmt/format.h>

#include <linnet/nn/module.h>

namespace linnet::nn {

namespace {

using Row = std::vector<std::string>;

/// The number with commas: `1,234,567`.
std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

/// The number of columns of a UTF-8 text on a terminal. It counts code points, which is right for the texts here.
int64_t width_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

/// A table of the rows, with the last column aligned to the right.
std::string format_table(const std::vector<Row>& rows) {
  std::vector<int64_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string table;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(static_cast<size_t>(widths[i] - width_of(row[i])), ' ');
      table += i + 1 < row.size() ? row[i] + padding + "  " : padding + row[i] + "\n";
    }
  }
  return table;
}

}  // namespace

void Module::add_summary_rows(std::vector<Row>& rows, const std::string& path) const {
  std::vector<std::string> tensors;
  int64_t count = 0;
  for (const Slot& slot : slots_) {
    tensors.push_back(slot.name + " " + to_string(slot.tensor.shape()));
    if (slot.is_parameter) count += slot.tensor.numel();
  }
  if (!tensors.empty() || !kind_.empty()) {
    rows.push_back(
        {path, kind_, fmt::format("{}", fmt::join(tensors, ", ")), tensors.empty() ? "" : with_commas(count)});
  }
  for (const Module* child : children_) {
    child->add_summary_rows(rows, path.empty() ? child->name_ : path + "." + child->name_);
  }
}

std::string Module::summary() const {
  std::vector<Row> rows = {{"name", "kind", "tensors", "parameters"}};
  add_summary_rows(rows, "");
  int64_t total = 0, trained = 0, bytes = 0;
  for (const Tensor& parameter : parameters()) {
    total += parameter.numel();
    trained += parameter.requires_grad() ? parameter.numel() : 0;
    bytes += parameter.numel() * size_of(parameter.dtype());
  }
  return format_table(rows) + fmt::format("{} parameters, {} of them trained, {} bytes\n", with_commas(total),
                                          with_commas(trained), with_commas(bytes));
}

}  // namespace linnet::nn
