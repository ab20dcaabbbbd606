#include "support/run_folder.h"

#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/atomic_file.h>

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw IoError(fmt::format("cannot read {}; is it the --out folder of a training run?", path.string()));
  return text.str();
}

void replace_text(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), std::ssize(text));
  file.commit();
}

nlohmann::json to_json(const Metrics& m) {
  nlohmann::json json{{"step", m.step},
                      {"train_loss", m.train_loss},
                      {"val_loss", m.val_loss},
                      {"lr", m.lr},
                      {"ms_per_step", m.ms_per_step},
                      {"tokens_per_second", m.tokens_per_second},
                      {"peak_bytes", m.peak_bytes}};
  if (m.accuracy) json["accuracy"] = *m.accuracy;
  return json;
}

}  // namespace

RunFolder::RunFolder(const Settings& settings, const std::string& data_name) : path_(settings.out) {
  const bool has_run = fs::exists(path_ / "config.json");
  if (settings.resume) {
    if (!has_run) throw IoError(fmt::format("--resume: {} holds no run to go on with", path_.string()));
    return;
  }
  if (has_run) {
    throw IoError(fmt::format("--out {} holds a run already; choose another folder, go on with --resume, or remove it",
                              path_.string()));
  }
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw IoError(fmt::format("--out: cannot make {}: {}", path_.string(), error.message()));
  nlohmann::json config{{"settings", examples::to_json(settings)}, {"data", data_name}, {"build", build_info()}};
  replace_text(path_ / "config.json", config.dump(2) + "\n");
}

void RunFolder::log(const Metrics& metrics) {
  std::ofstream file(path_ / "metrics.jsonl", std::ios::app);
  file << to_json(metrics).dump() << "\n";
  file.flush();
  if (!file) throw IoError(fmt::format("cannot write {}; is the disk full?", (path_ / "metrics.jsonl").string()));
}

void RunFolder::rewind(int64_t step) {
  std::istringstream lines(read_text(path_ / "metrics.jsonl"));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_discarded() && json.at("step").get<int64_t>() <= step) kept += line + "\n";
  }
  replace_text(path_ / "metrics.jsonl", kept);
}

void RunFolder::write_text(const std::string& name, const std::string& text) const { replace_text(path_ / name, text); }

Settings read_config(const fs::path& folder, std::string* data_name) {
  const fs::path path = folder / "config.json";
  try {
    const auto json = nlohmann::json::parse(read_text(path));
    if (data_name != nullptr) *data_name = json.at("data").get<std::string>();
    return settings_from_json(json.at("settings"));
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("{} is damaged: {}", path.string(), error.what()));
  }
}

}  // namespace linnet::examples
