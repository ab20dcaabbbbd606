#include "support/run/results.h"

#include <limits>

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/run/run_folder.h"

namespace linnet::examples {
namespace {

std::filesystem::path results_in(const std::filesystem::path& folder) { return folder / kResults; }

Processes processes_of(const nlohmann::json& json) {
  using linnet::detail::value_of;
  Processes processes{.count = value_of<int64_t>(json, "count"),
                      .waited_ms_per_step = value_of<double>(json, "waited_ms_per_step")};
  if (json.contains("sent_bytes_per_step"))
    processes.sent_bytes_per_step = value_of<double>(json, "sent_bytes_per_step");
  return processes;
}

}  // namespace

Measures measures_of(const nlohmann::json& json) {
  Measures measures;
  if (!json.contains("measures")) return measures;
  for (const auto& item : json["measures"].items()) {
    const double value = item.value().is_null()
                             ? std::numeric_limits<double>::quiet_NaN()
                             : linnet::detail::value_of<double>(json["measures"], item.key().c_str());
    measures.emplace_back(item.key(), value);
  }
  return measures;
}

void write_results(const std::filesystem::path& folder, const Results& r) {
  nlohmann::json json{{"step", r.step},
                      {"loss", r.loss},
                      {"ms_per_step", r.ms_per_step},
                      {"parameters", r.parameters},
                      {"peak_bytes", r.peak_bytes}};
  if (r.accuracy) json["accuracy"] = *r.accuracy;
  if (r.constant_accuracy) json["constant_accuracy"] = *r.constant_accuracy;
  for (const auto& [name, value] : r.measures) json["measures"][name] = value;
  if (const Processes& p = r.processes; p.count > 1) {
    json["processes"] = {{"count", p.count}, {"waited_ms_per_step", p.waited_ms_per_step}};
    if (p.sent_bytes_per_step) json["processes"]["sent_bytes_per_step"] = *p.sent_bytes_per_step;
  }
  replace_file(results_in(folder), json.dump(2) + "\n");
}

std::optional<Results> read_results(const std::filesystem::path& folder) {
  using linnet::detail::value_of;
  const std::filesystem::path path = results_in(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    const auto json =
        linnet::detail::parse_json(linnet::detail::read_file(path, linnet::detail::kMaxJsonTree + 1, kRemedy));
    Results r{.step = value_of<int64_t>(json, "step"),
              .loss = value_of<double>(json, "loss"),
              .ms_per_step = value_of<double>(json, "ms_per_step"),
              .parameters = value_of<int64_t>(json, "parameters"),
              .peak_bytes = value_of<int64_t>(json, "peak_bytes")};
    if (json.contains("accuracy")) r.accuracy = value_of<double>(json, "accuracy");
    if (json.contains("constant_accuracy")) r.constant_accuracy = value_of<double>(json, "constant_accuracy");
    r.measures = measures_of(json);
    if (json.contains("processes")) r.processes = processes_of(json["processes"]);
    return r;
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("{} is damaged: {}; {}", path.string(), linnet::detail::message_of(error), kRemedy));
  }
}

}  // namespace linnet::examples
