#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/files.h"
#include "support/settings/settings.h"
#include "support/tasks/task.h"
#include "support/tensorboard/event_file.h"

namespace linnet::examples {

/// One line of metrics.jsonl.
struct Metrics {
  int64_t step = 0;
  double train_loss = 0;
  double val_loss = 0;
  std::optional<double> accuracy = {};
  Measures measures = {};
  double lr = 0;
  double seconds = 0;  ///< of training so far, without evaluations
  double ms_per_step = 0;
  double tokens_per_second = 0;
  int64_t peak_bytes = 0;
};

/// One line of train_loss.csv: the loss of a single step's batch.
struct StepLoss {
  int64_t step = 0;
  double loss = 0;
};

/// The file of a run's Results.
constexpr const char* kResults = "results.json";

/// The folder that a run writes to: config.json, metrics.jsonl, model.safetensors, checkpoint.safetensors,
/// results.json, samples.txt, loss.png, and an event file if settings.tensorboard.
class RunFolder {
 public:
  /// Creates the folder, or opens it if settings.resume. Throws IoError if it cannot be created, if it already holds
  /// a run or files that this run would replace, if it holds no run to resume or one on other data, or while another
  /// run writes to it. config.json of a new run contains `note`, unless that is empty.
  RunFolder(const Settings& settings, const std::string& data_name, const std::string& note = "");

  const std::filesystem::path& path() const { return path_; }
  /// Throws IoError if the disk has less free space.
  void require_room(int64_t bytes) const;
  /// Starts the logs and writes config.json, which makes the folder a run. Call it after the first checkpoint, so
  /// that every run can be resumed.
  void begin();
  /// Updates config.json of a resumed run: its length, and the name and path of its data. If steps are `left`, it
  /// adds this machine to those that computed the run, and deletes model.safetensors and results.json, which the
  /// longer run replaces at its end.
  void go_on(bool left);
  void log(const Metrics& metrics);
  void log(const StepLoss& loss);
  /// Waits until everything logged is on the disk.
  void flush() const;
  /// Drops the metrics of steps after `step`, which a resumed run repeats, and returns the others.
  std::vector<Metrics> rewind(int64_t step);
  /// Does the same with the losses of single steps.
  std::vector<StepLoss> rewind_losses(int64_t step);
  void write_text(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
  std::string config_;
  std::string build_;  // of a resumed run's further steps
  bool tensorboard_;
  std::optional<EventFile> events_;
};

/// Throws IoError if a new run would replace another run or other files, or could not write to its folder. Files of a
/// run that was killed before it wrote config.json may be replaced.
void check_is_free(const Settings& settings);

/// A program with several runs calls it for each of them before the first one trains. Throws IoError as RunFolder
/// would. With settings.resume, it throws UsageError if the run has other settings. If there is no run, it sets
/// settings.resume to false.
void settle_run(Settings& settings);

/// Call it after settle_run for all `runs`. Throws UsageError if common.resume is set and none of them has begun.
void check_any_began(const std::vector<Settings>& runs, const Settings& common);

/// Call it after settle_run for all `runs`, with the names of the pictures in common.out that show all of them.
/// Throws IoError if new runs would replace one.
void check_pictures(const Settings& common, const std::vector<std::string>& names);

/// Reads the settings and the data set's name from a run folder's config.json. settings.data is the path that --data
/// gave, or empty; settings.began_with_stand_in says whether the data stand in for a set.
Settings read_config(const std::filesystem::path& folder, std::string* data_name = nullptr);

/// The machines that computed the run in `folder`, in the order of its steps, as build_info described them in
/// config.json: "linnet 0.2.0; CPU with v4 kernels, 2 threads, …", without the reason for the number of threads.
/// Empty if config.json does not have them. Throws as read_config.
std::vector<std::string> machines_of(const std::filesystem::path& folder);

/// The metrics of the run in `folder`. Throws IoError if they cannot be read.
std::vector<Metrics> read_metrics(const std::filesystem::path& folder);

/// Sets where the run in `folder`, whose settings were read, finds its data: in `given` by --data, or else where they
/// were. Throws IoError if nothing is there any more.
void settle_data(const std::filesystem::path& folder, const std::filesystem::path& given, Settings& settings);

}  // namespace linnet::examples
