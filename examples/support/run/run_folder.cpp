#include "support/run/run_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/format.h"
#include "support/ranks.h"
#include "support/run/checkpoint.h"
#include "support/run/results.h"
#include "support/settings/program.h"
#include "support/tasks/data_sets.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

const std::string kMetrics = "metrics.jsonl", kLosses = "train_loss.csv", kLossesHeader = "step,loss\n";

std::string read_text(const fs::path& path, int64_t most = std::numeric_limits<int64_t>::max()) {
  return linnet::detail::read_file(path, most, "is it the --out folder of a training run?");
}

/// The folder's config.json.
///
/// Throws: IoError if it cannot be read; json::exception if it is not JSON, or longer or deeper than a run's.
nlohmann::json config_in(const fs::path& folder) {
  return linnet::detail::parse_json(read_text(folder / "config.json", linnet::detail::kMaxJsonTree + 1));
}

/// Calls `use(line)` for each complete line. An incomplete last line was being written when the run was killed.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    use(text.substr(0, end));
  }
}

/// Rewrites the file with `header` and the lines that `parse` accepts, and returns their values. It parses these
/// lines twice, so that it allocates memory for the values only once their number is known.
template <class Parse>
auto rewind_lines(const fs::path& path, const std::string& header, const Parse& parse) {
  std::string text =
      fs::exists(path) ? read_text(path) : "";  // an older run, or one that was killed at its start, has no file
  int64_t count = 0;
  char* end = text.data();
  for_each_line(text, [&](std::string_view line) {
    if (!parse(line)) return;
    ++count;
    end = std::copy(line.begin(), line.end(), end);
    *end++ = '\n';
  });
  text.resize(static_cast<size_t>(end - text.data()));
  replace_file(path, header + text);
  std::vector<typename decltype(parse(text))::value_type> result;
  result.reserve(static_cast<size_t>(count));
  for_each_line(text, [&](std::string_view line) { result.push_back(*parse(line)); });
  return result;
}

nlohmann::json to_json(const Metrics& m) {
  nlohmann::json json{{"step", m.step},
                      {"train_loss", m.train_loss},
                      {"val_loss", m.val_loss},
                      {"accuracy", nullptr},
                      {"lr", m.lr},
                      {"seconds", m.seconds},
                      {"ms_per_step", m.ms_per_step},
                      {"tokens_per_second", m.tokens_per_second},
                      {"peak_bytes", m.peak_bytes}};
  if (m.accuracy) json["accuracy"] = *m.accuracy;
  for (const auto& [name, value] : m.measures) json["measures"][name] = value;
  return json;
}

Metrics metrics_from_json(const nlohmann::json& json) {
  // JSON has null instead of numbers that are not finite.
  const auto number = [&](const char* name) {
    return json.at(name).is_null() ? std::nan("") : linnet::detail::value_of<double>(json, name);
  };
  Metrics m{.step = linnet::detail::value_of<int64_t>(json, "step"),
            .train_loss = number("train_loss"),
            .val_loss = number("val_loss"),
            .lr = number("lr"),
            .seconds = number("seconds"),
            .ms_per_step = number("ms_per_step"),
            .tokens_per_second = number("tokens_per_second"),
            .peak_bytes = linnet::detail::value_of<int64_t>(json, "peak_bytes")};
  if (json.contains("accuracy") && !json["accuracy"].is_null()) m.accuracy = number("accuracy");
  m.measures = measures_of(json);
  return m;
}

/// The metrics in a line. Nothing for a malformed line, which a run may leave if it is killed while it writes.
std::optional<Metrics> metrics_in(std::string_view line) {
  if (!line.starts_with('{')) return std::nullopt;
  try {
    return metrics_from_json(linnet::detail::parse_json(std::string(line)));
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

/// The metrics with the names that TensorBoard shows.
std::vector<std::pair<std::string, double>> scalars(const Metrics& m) {
  std::vector<std::pair<std::string, double>> scalars{{"loss/validation", m.val_loss},
                                                      {"lr", m.lr},
                                                      {"speed/ms_per_step", m.ms_per_step},
                                                      {"speed/tokens_per_second", m.tokens_per_second},
                                                      {"peak_bytes", static_cast<double>(m.peak_bytes)}};
  if (!std::isnan(m.train_loss)) scalars.emplace_back("loss/train", m.train_loss);  // nan before training
  if (m.accuracy) scalars.emplace_back("accuracy/validation", *m.accuracy);
  for (const auto& [name, value] : m.measures) scalars.emplace_back(name + "/validation", value);
  return scalars;
}

bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored);
}

/// The files that the run will write, except config.json, which holds_run looks for, and event files, whose names are
/// always new.
std::vector<std::string> results_of(const Settings& s) {
  std::vector<std::string> names{"checkpoint.safetensors", kMetrics, kLosses,
                                 "model.safetensors",      kResults, "loss.png"};
  if (const TaskKind kind = kind_of(s.task); kind == TaskKind::text || kind == TaskKind::summaries) {
    names.emplace_back("samples.txt");
  }
  if (s.profile) names.insert(names.end(), {"profile.txt", "trace.json"});
  return names;
}

/// Whether the file may come from a run that was killed before it wrote config.json. Such a run leaves a checkpoint
/// of step 0, empty metrics, and losses with only the header.
bool is_left_from_before(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  if (path.filename() == kMetrics) return fs::is_empty(path, ignored);
  if (path.filename() == kLosses) return read_text(path) == kLossesHeader;
  return path.filename() == "checkpoint.safetensors" && is_first_checkpoint(path);
}

/// A machine as build_info describes it, without the reason for the number of threads.
std::string machine_in(std::string build) {
  constexpr std::string_view kThreads = " threads";
  for (size_t at = 0; (at = build.find(kThreads, at)) != std::string::npos;) {
    at += kThreads.size();
    const size_t end = build.find(')', at);
    if (build.compare(at, 2, " (") == 0 && end != std::string::npos) build.erase(at, end + 1 - at);
  }
  return build;
}

/// The machines in "build" of config.json: a text, or a list for a run that went on with another machine or number of
/// threads.
std::vector<std::string> machines_in(const nlohmann::json& config) {
  auto builds = config.is_object() ? config.value("build", nlohmann::json()) : nlohmann::json();
  if (builds.is_string()) builds = nlohmann::json::array({builds});
  std::vector<std::string> machines;
  if (!builds.is_array()) return machines;
  for (const auto& build : builds) {
    if (build.is_string()) machines.push_back(machine_in(build.get<std::string>()));
  }
  return machines;
}

/// Adds a machine to those in "build" of config.json, unless it is there, or it is not known who began the run.
void add_machine(nlohmann::json& config, const std::string& build) {
  const std::vector<std::string> machines = machines_in(config);
  if (machines.empty() || std::ranges::find(machines, machine_in(build)) != machines.end()) return;
  if (config["build"].is_string()) config["build"] = nlohmann::json::array({config["build"]});
  config["build"].push_back(build);
}

/// The absolute path of --data, so that the run can be resumed from any folder.
std::string data_path(const Settings& settings) { return fs::weakly_canonical(settings.data).string(); }

/// Whether a resumed run goes on with its stand-in. Data that --data names in another place are taken or refused.
bool keeps_stand_in(const Settings& stored, const fs::path& given) {
  return stored.began_with_stand_in && (given.empty() || fs::weakly_canonical(given) == stored.data);
}

/// The text of config.json. Bytes of a path that are not UTF-8 are replaced; a resumed run then needs --data.
std::string text_of(const nlohmann::json& config) {
  return config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void check_is_free(const Settings& settings) {
  check_folder(settings.out);
  if (holds_run(settings.out)) {
    throw IoError(fmt::format("--out {} holds a run already; choose another folder, or go on with it by --resume",
                              settings.out.string()));
  }
  std::error_code ignored;
  for (const std::string& name : results_of(settings)) {
    if (!fs::exists(settings.out / name, ignored) || is_left_from_before(settings.out / name)) continue;
    throw IoError(
        fmt::format("--out {} has no config.json, but a {}, which a run there would replace; choose another folder, "
                    "or move that file away",
                    settings.out.string(), name));
  }
}

namespace {

/// Takes from the stored settings what no flag of a resumed run gives.
void take_from(const Settings& stored, Settings& settings) {
  settings.bytes |= stored.bytes;  // older runs use bytes without having the flag
  settings.began_with_stand_in = keeps_stand_in(stored, settings.data);
}

void settle_on_first_rank(Settings& settings) {
  const FolderLock nobody_has_it(settings.out);
  settings.resume = settings.resume && holds_run(settings.out);
  if (!settings.resume) return check_is_free(settings);
  const Settings stored = read_config(settings.out);
  take_from(stored, settings);
  const nlohmann::json now = examples::to_json(settings);
  const nlohmann::json before = examples::to_json(stored);
  nlohmann::json all = before;
  all.update(now);
  for (const auto& item : all.items()) {
    const auto value_in = [&](const nlohmann::json& json) { return json.value(item.key(), nlohmann::json()); };
    if (value_in(now) == value_in(before)) continue;
    throw UsageError(fmt::format("--resume: the run in {} has {} {}, not {}; give the flags that it began with",
                                 settings.out.string(), item.key(), value_in(before).dump(), value_in(now).dump()));
  }
}

}  // namespace

void settle_run(Settings& settings) {
  on_first_rank([&] { settle_on_first_rank(settings); });
  settings.resume = of_first_rank(settings.resume);
  if (settings.resume && !is_first_rank()) take_from(read_config(settings.out), settings);
}

void check_any_began(const std::vector<Settings>& runs, const Settings& common) {
  if (!common.resume || std::ranges::any_of(runs, &Settings::resume)) return;
  throw UsageError(
      fmt::format("--resume: none of the runs is in --out {}; name the folder that they began in, or leave --resume "
                  "out",
                  common.out.string()));
}

void check_pictures(const Settings& common, const std::vector<std::string>& names) {
  if (common.resume) return;
  on_first_rank([&] {
    std::error_code ignored;
    for (const std::string& name : names) {
      if (!fs::exists(common.out / name, ignored)) continue;
      throw IoError(
          fmt::format("--out {} has the picture {} of other runs, which these would replace; choose another folder, "
                      "or move that file away",
                      common.out.string(), name));
    }
  });
}

RunFolder::RunFolder(const Settings& settings, const std::string& data_name, const std::string& note)
    : path_(settings.out), tensorboard_(settings.tensorboard) {
  if (!settings.resume) make_folder(path_);
  lock_.emplace(path_);
  if (settings.resume) {
    if (!holds_run(path_)) throw IoError(fmt::format("--resume: {} holds no run to go on with", path_.string()));
    std::string before;
    read_config(path_, &before);
    if (!same_data(before, data_name)) {
      throw IoError(
          fmt::format("--resume: the run in {} learns from {}, but there is {}{}; name its file or folder with "
                      "--data",
                      path_.string(), before, data_name,
                      settings.data.empty() ? "" : fmt::format(" in {}", data_path(settings))));
    }
    auto config = config_in(path_);
    config["settings"].update({{"steps", settings.steps}, {"epochs", settings.epochs}});
    config["data"] = data_name;
    if (!settings.data.empty()) config["data_path"] = data_path(settings);
    config_ = text_of(config);
    build_ = build_info(device_of(settings));
    return;
  }
  check_is_free(settings);
  nlohmann::json config{
      {"settings", examples::to_json(settings)}, {"data", data_name}, {"build", build_info(device_of(settings))}};
  if (!note.empty()) config["note"] = note;
  if (!settings.data.empty()) config["data_path"] = data_path(settings);
  config_ = text_of(config);
}

void RunFolder::require_room(int64_t bytes) const {
  const auto free = static_cast<int64_t>(fs::space(path_).available);
  if (free >= bytes) return;
  throw IoError(
      fmt::format("--out {}: its disk has {} left, and the run writes up to {}; free some space or choose "
                  "another folder",
                  path_.string(), format_bytes(free), format_bytes(bytes)));
}

void RunFolder::begin() {
  replace_file(path_ / kMetrics, "");
  replace_file(path_ / kLosses, kLossesHeader);
  replace_file(path_ / "config.json", config_);
  if (tensorboard_) events_.emplace(path_);
}

void RunFolder::go_on(bool left) {
  std::error_code ignored;
  for (const char* const name : {"model.safetensors", kResults}) {
    if (left) fs::remove(path_ / name, ignored);
  }
  if (left) {
    auto config = linnet::detail::parse_json(config_);
    add_machine(config, build_);
    config_ = text_of(config);
  }
  if (read_text(path_ / "config.json") != config_) replace_file(path_ / "config.json", config_);
}

void RunFolder::log(const Metrics& metrics) {
  append(path_ / kMetrics, to_json(metrics).dump() + "\n");
  if (events_) events_->add(metrics.step, scalars(metrics));
}

void RunFolder::flush() const {
  for (const std::string& name : {kMetrics, kLosses}) {
    if (fs::exists(path_ / name)) flush_to_disk(path_ / name);  // an older run has no losses
  }
}

void RunFolder::log(const StepLoss& loss) { append(path_ / kLosses, fmt::format("{},{}\n", loss.step, loss.loss)); }

std::vector<StepLoss> RunFolder::rewind_losses(int64_t step) {
  return rewind_lines(path_ / kLosses, kLossesHeader, [&](std::string_view line) -> std::optional<StepLoss> {
    StepLoss at;
    const char* const end = line.data() + line.size();
    const auto [comma, error] = std::from_chars(line.data(), end, at.step);
    if (error != std::errc() || comma == end || *comma != ',' || at.step > step) return std::nullopt;
    const auto [rest, loss_error] = std::from_chars(comma + 1, end, at.loss);
    return loss_error == std::errc() && rest == end ? std::optional(at) : std::nullopt;
  });
}

std::vector<Metrics> read_metrics(const fs::path& folder) {
  std::vector<Metrics> all;
  for_each_line(read_text(folder / kMetrics), [&](std::string_view line) {
    if (const auto metrics = metrics_in(line)) all.push_back(*metrics);
  });
  return all;
}

std::vector<Metrics> RunFolder::rewind(int64_t step) {
  auto metrics = rewind_lines(path_ / kMetrics, "", [&](std::string_view line) {
    const auto m = metrics_in(line);
    return m && m->step <= step ? m : std::nullopt;
  });
  if (tensorboard_) {
    events_.emplace(path_);
    // The resumed run goes on from the last one, so the earlier ones are so many seconds of training ago.
    for (const Metrics& m : metrics) events_->add(m.step, scalars(m), metrics.back().seconds - m.seconds);
  }
  return metrics;
}

void RunFolder::write_text(const std::string& name, const std::string& text) const {
  replace_file(path_ / name, text);
}

Settings read_config(const fs::path& folder, std::string* data_name) {
  const fs::path path = folder / "config.json";
  try {
    const auto json = config_in(folder);
    if (!json.is_object() || !json.contains("settings") || !json.contains("data")) {
      throw IoError(
          fmt::format("{} is not the file of a training run of linnet, which has \"settings\" and \"data\"; name the "
                      "--out folder of a run",
                      path.string()));
    }
    const auto data = json.at("data").get<std::string>();
    if (data_name != nullptr) *data_name = data;
    Settings settings = settings_from_json(json.at("settings"));
    if (json.contains("data_path")) settings.data = json["data_path"].get<std::string>();
    settings.began_with_stand_in = is_stand_in(data);
    validate(settings);
    return settings;
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("{} is damaged: {}; {}", path.string(), linnet::detail::message_of(error), kRemedy));
  } catch (const UsageError& error) {
    throw IoError(
        fmt::format("{} is damaged, or of another version of linnet: {}; {}", path.string(), error.what(), kRemedy));
  }
}

std::vector<std::string> machines_of(const fs::path& folder) { return machines_in(config_in(folder)); }

void settle_data(const fs::path& folder, const fs::path& given, Settings& settings) {
  settings.began_with_stand_in = keeps_stand_in(settings, given);
  if (!given.empty()) settings.data = given;
  std::error_code ignored;
  if (!given.empty() || settings.data.empty() || fs::exists(settings.data, ignored)) return;
  throw IoError(fmt::format("the run in {} learned from {}, which is gone; give its new path with --data",
                            folder.string(), settings.data.string()));
}

}  // namespace linnet::examples
