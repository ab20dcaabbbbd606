#include "support/summaries/report.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "support/run/run_folder.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

/// A row of table 6 of Wu et al. 2021.
struct PublishedSummaries {
  std::string name;
  std::array<double, 3> news, papers;  // and R-L of CNN/DailyMail and of PubMed
};

const std::vector<PublishedSummaries> kPublished{{"Transformer", {38.52, 16.04, 35.87}, {34.26, 11.88, 31.64}},
                                                 {"Longformer", {37.89, 15.46, 35.19}, {36.92, 14.34, 33.75}},
                                                 {"BigBird", {38.31, 15.78, 35.60}, {37.73, 14.99, 34.51}},
                                                 {"Linformer", {37.96, 15.58, 35.34}, {37.22, 14.48, 34.02}},
                                                 {"Linear Transformer", {37.24, 14.87, 34.64}, {36.43, 13.80, 33.21}},
                                                 {"Poolingformer", {38.58, 16.16, 36.17}, {37.82, 15.15, 34.63}},
                                                 {"Fastformer", {38.54, 16.22, 36.21}, {38.09, 15.44, 34.81}}};

std::string percent(double value) { return fmt::format("{:.2f}", value); }

/// The cells of, R-L and R-Lsum, whose names have the prefix in the measures.
std::vector<std::string> rouge_cells(const Measures& measures, const std::string& prefix) {
  std::vector<std::string> cells;
  for (const char* const name : {"R-1", "R-2", "R-L", "R-Lsum"}) {
    const auto found = std::ranges::find(measures, prefix + name, &Measures::value_type::first);
    if (found != measures.end()) cells.push_back(percent(found->second));
  }
  return cells;
}

}  // namespace

std::string summary_table(const Settings& s, const TrainingResult& result) {
  std::vector<std::string> cells = rouge_cells(result.full.measures, "");
  if (cells.empty()) return "";
  Table table({"ROUGE, F1 in %", "R-1", "R-2", "R-L", "R-Lsum"});
  const auto add = [&](const std::string& name, std::vector<std::string> row) {
    row.insert(row.begin(), name);
    row.resize(5, "");
    table.add_row(row);
  };
  add(fmt::format("{}, this run", s.attention), cells);
  add("first three sentences", rouge_cells(result.full.measures, "first 3 "));
  for (const auto& [name, news, papers] : kPublished) {
    std::vector<std::string> row;
    for (const double value : s.task == "pubmed" ? papers : news) row.push_back(percent(value));
    add(name + ", published", row);
  }
  std::string data;
  read_config(s.out, &data);
  return fmt::format(
      "{}this run and the first three sentences: {}\npublished: {}, by Wu et al. 2021, table 6, which does not say "
      "which ROUGE-L it prints\n",
      table.str(), data, s.task == "pubmed" ? "PubMed" : "CNN/DailyMail");
}

}  // namespace linnet::examples
