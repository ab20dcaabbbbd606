#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <linnet/linnet.h>

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

  Checkpoint(std::filesystem::path folder, nn::Module& model, nn::Optimizer& optimizer,
             std::map<std::string, std::string> metadata);

  /// Replaces the folder's checkpoint.safetensors, atomically.
  void save(const Position& position) const;
  /// Puts everything back and returns how far the run was. Throws IoError or ValueError, naming the file and what to
  /// do, when it cannot be read or is not of this run.
  Position load() const;

 private:
  std::filesystem::path path_;
  nn::Module& model_;
  nn::Optimizer& optimizer_;
  std::map<std::string, std::string> metadata_;
};

/// Whether the file is the checkpoint that a run writes before its first step; not when it is none at all.
bool is_first_checkpoint(const std::filesystem::path& path);

}  // namespace linnet::examples
