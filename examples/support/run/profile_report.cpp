#include "support/run/profile_report.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/format.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

/// Time, calls and bytes of one kernel, called for one op, in a step.
struct Row {
  std::string op, kernel = {};
  bool backward = false;
  double ms = 0, calls = 0, bytes = 0;

  void add(double more_ms, double more_calls, double more_bytes) {
    ms += more_ms;
    calls += more_calls;
    bytes += more_bytes;
  }
  std::string label() const { return op + (backward ? ", backward" : ""); }
};

/// "blocks.*.mlp.fc1" for the layer "blocks.3.mlp.fc1 (Linear 128→512)".
std::string without_number(const std::string& op) {
  static const std::regex number("\\.[0-9]+(?=\\.|$)");
  return std::regex_replace(op.substr(0, op.find(" (")), number, ".*");
}

/// The rows per step, the longest first.
std::vector<Row> rows_of(const ProfiledSteps& steps) {
  std::map<std::tuple<std::string, bool, std::string>, Row> found;  // sums over all steps
  for (const KernelCall& call : steps.calls()) {
    const std::string op = without_number(call.op);
    Row& row = found.try_emplace({op, call.backward, call.kernel}, Row{op, call.kernel, call.backward}).first->second;
    row.add(call.ms, 1, static_cast<double>(call.bytes));
  }
  std::vector<Row> rows;
  const auto n = static_cast<double>(steps.count());
  std::ranges::transform(found, std::back_inserter(rows), [n](const auto& entry) {
    const Row& total = entry.second;
    return Row{total.op, total.kernel, total.backward, total.ms / n, total.calls / n, total.bytes / n};
  });
  std::ranges::sort(rows, std::greater(), &Row::ms);
  return rows;
}

/// The rows of the printed table: small ones are added up in one row, then the totals.
std::vector<Row> table_rows(const ProfiledSteps& steps) {
  constexpr double kLeastShare = 0.001;
  Row others, all{.op = "all kernels"};
  int count = 0;
  std::vector<Row> rows;
  for (const Row& row : rows_of(steps)) {
    all.add(row.ms, row.calls, row.bytes);
    if (row.ms >= kLeastShare * steps.mean_ms()) {
      rows.push_back(row);
    } else {
      others.add(row.ms, row.calls, row.bytes);
      ++count;
    }
  }
  others.op = fmt::format("{} others, each below {} %", count, 100 * kLeastShare);
  if (count > 0) rows.push_back(others);
  rows.push_back(all);
  rows.push_back({.op = "between kernels", .ms = steps.mean_ms() - all.ms});
  return rows;
}

std::string shapes_of(const KernelCall& call) {
  std::string text;
  for (const KernelCall::Operand& operand : call.operands) {
    text += (text.empty() ? "" : " ") + to_string(operand.shape);
  }
  return text;
}

}  // namespace

void ProfiledSteps::add(const std::function<void()>& step) {
  const Profile profile;
  step();
  const double ms = profile.elapsed_ms();
  for (KernelCall call : profile.calls()) {
    call.begin_ms += total_ms_;
    calls_.push_back(std::move(call));
  }
  total_ms_ += ms;
  if (count_++ == 0) calls_of_one_ = std::ssize(calls_);
}

std::string profile_text(const std::string& what, const ProfiledSteps& steps, double floor_ms) {
  const bool has_floor = floor_ms > 0;
  Table table({"op", "kernel", "ms", "calls", "bytes", "GB/s", "of step", "of floor"});
  for (const Row& row : table_rows(steps)) {
    const bool has_bytes = row.bytes > 0;
    table.add_row({row.label(), row.kernel, fmt::format("{:.3f}", row.ms), fmt::format("{:.1f}", row.calls),
                   has_bytes ? format_bytes(static_cast<int64_t>(row.bytes)) : "-",
                   has_bytes ? fmt::format("{:.1f}", row.bytes / row.ms / 1e6) : "-",
                   fmt::format("{:.1f} %", 100 * row.ms / steps.mean_ms()),
                   has_floor ? fmt::format("{:.2f}", row.ms / floor_ms) : "-"});
  }
  return fmt::format("{}, {} profiled steps: {:.3f} ms each{}\n{}", what, steps.count(), steps.mean_ms(),
                     has_floor ? fmt::format(", their matrix products alone {:.3f} ms", floor_ms)
                               : ", the GPU waited for at each kernel",
                     table.str());
}

nlohmann::json profile_json(const ProfiledSteps& steps) {
  nlohmann::json json = nlohmann::json::array();
  for (const Row& row : rows_of(steps)) {
    json.push_back({{"op", row.op},
                    {"kernel", row.kernel},
                    {"backward", row.backward},
                    {"ms", row.ms},
                    {"calls", row.calls},
                    {"bytes", row.bytes}});
  }
  return json;
}

std::string trace_json(const std::vector<KernelCall>& calls) {
  nlohmann::json events = nlohmann::json::array();
  for (const KernelCall& call : calls) {
    events.push_back({{"name", call.kernel},
                      {"cat", call.backward ? "backward" : "forward"},
                      {"ph", "X"},
                      {"ts", 1e3 * call.begin_ms},  // microseconds
                      {"dur", 1e3 * call.ms},
                      {"pid", 0},
                      {"tid", 0},
                      {"args", {{"op", call.op}, {"shapes", shapes_of(call)}, {"bytes", call.bytes}}}});
  }
  return nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

void write_profile(const std::filesystem::path& folder, const std::string& text, const ProfiledSteps& steps) {
  replace_file(folder / "profile.txt", text);
  replace_file(folder / "trace.json", trace_json(steps.calls()));
}

}  // namespace linnet::examples
