#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/settings/settings.h"
#include "tests/support/files.h"

namespace linnet::examples::test {

/// A finished run that was written without training.
struct WrittenRun {
  Settings settings;
  std::string data = "listops (9 bytes, crc32 01234567)";
  double accuracy = 0.4;
  double ms_per_step = 10;
  double constant_accuracy = 0.17;
  int64_t processes = 1;
  std::string build = "linnet 0.2.0; CPU with v4 kernels, 2 threads (quota), OpenBLAS";
};

/// The settings of a run of a mechanism with a preset.
inline Settings settings_for(const std::string& task, const std::string& name, const std::string& attention,
                             uint64_t seed = 1) {
  Settings settings = settings_of(attention, preset(task, name));
  settings.seed = seed;
  return settings;
}

/// Writes the files of a run that tables and figures read: config.json, results.json, metrics.jsonl.
inline void write_run(const std::filesystem::path& folder, const WrittenRun& run) {
  std::filesystem::create_directories(folder);
  const nlohmann::json config{{"settings", to_json(run.settings)}, {"data", run.data}, {"build", run.build}};
  nlohmann::json results{{"step", 100},
                         {"loss", 1.5},
                         {"accuracy", run.accuracy},
                         {"constant_accuracy", run.constant_accuracy},
                         {"ms_per_step", run.ms_per_step},
                         {"parameters", 1000},
                         {"peak_bytes", 1 << 20}};
  if (run.processes > 1) results["processes"] = {{"count", run.processes}, {"waited_ms_per_step", 0.5}};
  std::string metrics;
  for (const int step : {0, 100}) {
    const nlohmann::json line{{"step", step},
                              {"train_loss", nullptr},
                              {"val_loss", 2 - 0.005 * step},
                              {"accuracy", run.accuracy},
                              {"lr", 0.001},
                              {"seconds", 0.01 * step},
                              {"ms_per_step", run.ms_per_step},
                              {"tokens_per_second", 1},
                              {"peak_bytes", 1 << 20}};
    metrics += line.dump() + "\n";
  }
  linnet::test::write_bytes(folder / "config.json", config.dump());
  linnet::test::write_bytes(folder / "results.json", results.dump());
  linnet::test::write_bytes(folder / "metrics.jsonl", metrics);
}

}  // namespace linnet::examples::test
