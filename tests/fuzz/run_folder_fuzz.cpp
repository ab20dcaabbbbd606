#include <algorithm>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "support/run/run_folder.h"
#include "tests/fuzz/fuzz_target.h"

/// A run's metrics.jsonl and train_loss.csv, which are the input before and after its first byte 0. A resumed run
/// reads them and keeps only the lines that it can read, so that it reads the same from what it wrote back.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{6} << 20;  // nlohmann's tree of the longest line that is parsed

void run(Bytes input) {
  const Folder folder;
  examples::Settings settings = examples::preset("shakespeare", "nanogpt-cpu");
  settings.out = folder.path();
  settings.resume = true;
  const nlohmann::json config{{"settings", examples::to_json(settings)}, {"data", "text"}};
  const std::string config_text = config.dump();
  folder.write("config.json", {reinterpret_cast<const uint8_t*>(config_text.data()), config_text.size()});
  const auto zero = static_cast<size_t>(std::find(input.begin(), input.end(), 0) - input.begin());
  const Bytes metrics_file = input.first(zero), losses_file = input.subspan(std::min(zero + 1, input.size()));
  folder.write("metrics.jsonl", metrics_file);
  folder.write("train_loss.csv", losses_file);
  examples::RunFolder run(settings, "text");
  const auto metrics = checked(metrics_file, [&] { return run.rewind(100); });
  const auto losses = checked(losses_file, [&] { return run.rewind_losses(100); });
  if (run.rewind(100).size() != metrics.size() || run.rewind_losses(100).size() != losses.size()) std::abort();
  for (const auto& each : metrics) {
    if (each.step > 100) std::abort();
  }
}

}  // namespace linnet::fuzz
