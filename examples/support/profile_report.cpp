#include "support/profile_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/format.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

struct Total {
  double ms = 0;
  int64_t calls = 0, bytes = 0;
};

std::string shapes_of(const KernelCall& call) {
  std::string text;
  for (const KernelCall::Operand& operand : call.operands) {
    text += (text.empty() ? "" : " ") + to_string(operand.shape);
  }
  return text;
}

}  // namespace

std::string profile_table(const std::vector<KernelCall>& calls, int64_t steps, double step_ms, double floor_ms) {
  std::map<std::string, Total> totals;
  Total sum;
  for (const KernelCall& call : calls) {
    Total& total = totals[call.kernel + (call.backward ? ", backward" : "")];
    for (Total* t : {&total, &sum}) {
      t->ms += call.ms;
      ++t->calls;
      t->bytes += call.bytes;
    }
  }
  std::vector<std::pair<std::string, Total>> rows(totals.begin(), totals.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  rows.emplace_back("all kernels", sum);
  const auto n = static_cast<double>(steps);
  rows.emplace_back("between kernels", Total{step_ms * n - sum.ms, 0, 0});

  Table table({"kernel", "ms", "calls", "bytes", "GB/s", "of step", "of floor"});
  for (const auto& [name, total] : rows) {
    const bool has_bytes = total.bytes > 0;
    table.add_row({name, fmt::format("{:.3f}", total.ms / n),
                   fmt::format("{:.1f}", static_cast<double>(total.calls) / n),
                   has_bytes ? format_bytes(total.bytes / steps) : "-",
                   has_bytes ? fmt::format("{:.1f}", static_cast<double>(total.bytes) / total.ms / 1e6) : "-",
                   fmt::format("{:.1f} %", 100 * total.ms / n / step_ms),
                   floor_ms > 0 ? fmt::format("{:.2f}", total.ms / n / floor_ms) : "-"});
  }
  return table.str();
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

}  // namespace linnet::examples
