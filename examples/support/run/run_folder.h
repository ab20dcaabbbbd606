#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/settings/settings.h"
#include "support/tensorboard/event_file.h"

namespace linnet::examples {

/// One line of metrics.jsonl.
struct Metrics {
  int64_t step = 0;
  double train_loss = 0;
  double val_loss = 0;
  std::optional<double> accuracy = {};
  double lr = 0;
  double seconds = 0;  ///< of training so far, evaluations aside
  double ms_per_step = 0;
  double tokens_per_second = 0;
  int64_t peak_bytes = 0;
};

/// One line of train_loss.csv: the loss of a single step's batch.
struct StepLoss {
  int64_t step = 0;
  double loss = 0;
};

/// The folder is this process's alone until the object goes, by a lock that leaves no file in it. Where it cannot
/// be locked, as on some network file systems, everybody has it.
class FolderLock {
 public:
  /// Throws IoError while another run has it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Where a run writes: config.json, metrics.jsonl, model.safetensors, checkpoint.safetensors, samples.txt, loss.png,
/// and an event file when settings.tensorboard.
class RunFolder {
 public:
  /// Makes the folder, or opens it when settings.resume. Throws IoError when it cannot be made, when it holds a run
  /// already, or files that this one would replace, or when there is none to resume, or one on other data; and while
  /// a run is under way in it.
  RunFolder(const Settings& settings, const std::string& data_name);

  const std::filesystem::path& path() const { return path_; }
  /// Throws IoError when the disk has less room.
  void require_room(int64_t bytes) const;
  /// Makes the folder hold a run, by config.json: call it once there is a checkpoint to go on from.
  void begin();
  /// Of a run to go on with: has config.json hold how long it is to be now, and what and where its data are now.
  /// Where it has steps `left`, the weights of an earlier end go, which are not this run's.
  void go_on(bool left);
  void log(const Metrics& metrics);
  void log(const StepLoss& loss);
  /// Returns when all that was logged is on the disk.
  void flush() const;
  /// Forgets metrics of steps after `step`, which a resumed run makes again, and returns the others.
  std::vector<Metrics> rewind(int64_t step);
  /// The same for the losses of single steps.
  std::vector<StepLoss> rewind_losses(int64_t step);
  void write_text(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
  std::string config_;
  bool tensorboard_;
  std::optional<EventFile> events_;
};

/// For a program of several runs, before it begins with the first. Throws IoError where RunFolder would; with
/// settings.resume UsageError when the run has other settings, and clears it when there is none.
void settle_run(Settings& settings);

/// Once all `runs` are settled: throws UsageError when common.resume asks to go on, and none of them has begun.
void check_any_began(const std::vector<Settings>& runs, const Settings& common);

/// Ends the messages about a file of a run that cannot be read. The file may not be ours, so none advises to remove
/// it.
inline constexpr const char* kRemedy = "train anew, into another folder";

/// The settings and the data set's name that a run folder's config.json holds; settings.data is where --data said
/// that they are, empty when it did not.
Settings read_config(const std::filesystem::path& folder, std::string* data_name = nullptr);

/// Where the data of the run in `folder` are: `given` by --data, or else where its settings say. Throws IoError when
/// nothing is there any more.
std::filesystem::path data_of(const std::filesystem::path& folder, const Settings& stored,
                              const std::filesystem::path& given);

}  // namespace linnet::examples
