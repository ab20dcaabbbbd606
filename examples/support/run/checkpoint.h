#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// Everything a run needs to go on as if it had never stopped: weights, optimizer, generator and how far it is.
/// (Batches and learning rates are functions of the step.)
class Checkpoint {
 public:
  struct Position {
    int64_t step = 0;     ///< steps done
    double loss_sum = 0;  ///< of the steps since the last evaluation
    int64_t loss_count = 0;
  };

  Checkpoint(const std::filesystem::path& folder, nn::Module& model, nn::Optimizer& optimizer,
             std::map<std::string, std::string> metadata);

  /// Replaces the folder's checkpoint.safetensors, atomically.
  void save(const Position& position) const;
  /// Puts everything back and returns how far the run was. Throws IoError or ValueError, naming the file and what to
  /// do, when it cannot be read or is not of this run. An error, be it for want of memory, leaves everything as it
  /// was.
  Position load() const;

 private:
  std::filesystem::path path_;
  nn::Module& model_;
  nn::Optimizer& optimizer_;
  std::map<std::string, std::string> metadata_;
};

/// Whether the file is the checkpoint that a run writes before its first step; not when it is none at all.
bool is_first_checkpoint(const std::filesystem::path& path);

/// The steps that the run in `folder` has made, by its checkpoint. Throws IoError when that cannot be read.
int64_t steps_done(const std::filesystem::path& folder);

/// The weights of the run in a folder: those that it ended with, or else those of its checkpoint.
class RunWeights {
 public:
  /// Throws IoError when the folder has neither file, or the one that it has cannot be read.
  RunWeights(const std::filesystem::path& folder, const Settings& settings);

  const std::filesystem::path& path() const { return path_; }
  /// The texts beside them.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The step of the checkpoint; none of a run that ended.
  const std::optional<int64_t>& step() const { return step_; }
  /// A line on stderr says when they are a checkpoint's. Throws IoError when they cannot be read, ValueError when
  /// they are another model's.
  void load_into(nn::Module& model) const;

 private:
  std::filesystem::path path_;
  std::optional<int64_t> step_;
  std::string notice_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace linnet::examples
