#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <linnet/linnet.h>

#include "support/run/best_weights.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// The checkpoint.safetensors in a run's folder: weights, optimizer, generator and position. (Batches and learning
/// rates depend only on the step.)
class Checkpoint {
 public:
  struct Position {
    int64_t step = 0;     ///< steps done
    double loss_sum = 0;  ///< sum over the steps since the last evaluation
    int64_t loss_count = 0;
    /// Of training since the last evaluation, 0 at a finished run's end. None in the checkpoints of older versions.
    std::optional<double> seconds = 0;
  };

  /// The checkpoint refers to the model, the optimizer, the position and the best weights, which may be null.
  Checkpoint(const std::filesystem::path& folder, nn::Module& model, nn::ZeroRedundancyOptimizer& optimizer,
             Position& position, std::map<std::string, std::string> metadata, BestWeights* best = nullptr);

  /// Replaces the file, atomically. All ranks make the call, and rank 0 writes.
  void save() const;
  /// Restores everything. An error, even a lack of memory, leaves everything unchanged.
  ///
  /// Throws: IoError if the file cannot be read; ValueError if it belongs to another run. The message names the
  /// file and says what to do.
  void load();

 private:
  /// The part of the file with Position::seconds. It is a tensor, since a file must have every number, and older ones
  /// lack this one.
  class Seconds {
   public:
    explicit Seconds(std::optional<double>& seconds) : seconds_(seconds) {}
    TensorMap state() const;
    void load_state(const TensorMap& state);

   private:
    std::optional<double>& seconds_;
  };

  Seconds seconds_;
  nn::Checkpoint all_;
};

/// Whether the file is the checkpoint that a run writes before its first step. False for any other file.
bool is_first_checkpoint(const std::filesystem::path& path);

/// The number of steps that the run in `folder` has made, from its checkpoint. Throws IoError if that cannot be read.
int64_t steps_done(const std::filesystem::path& folder);

/// The weights of the run in a folder: the final ones, or else those of its checkpoint.
class RunWeights {
 public:
  /// Throws IoError if the folder has neither file, or if the file cannot be read.
  RunWeights(const std::filesystem::path& folder, const Settings& settings);

  const std::filesystem::path& path() const { return path_; }
  /// The file's metadata.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The step of the checkpoint; none if the weights are final.
  const std::optional<int64_t>& step() const { return step_; }
  /// Copies the weights into `model`. If they come from a checkpoint, a line on stderr says so. Throws
  /// IoError if they cannot be read, ValueError if they belong to another model.
  void load_into(nn::Module& model) const;

 private:
  std::filesystem::path path_;
  std::optional<int64_t> step_;
  std::string notice_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace linnet::examples
