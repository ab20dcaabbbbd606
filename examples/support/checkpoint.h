#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <linnet/linnet.h>

namespace linnet::examples {

/// Everything a run needs to go on as if it had never stopped: weights, optimizer, generator and step. (Batches and
/// learning rates are functions of the step.)
class Checkpoint {
 public:
  Checkpoint(std::filesystem::path folder, nn::Module& model, nn::Optimizer& optimizer,
             std::map<std::string, std::string> metadata);

  /// Replaces the folder's checkpoint.safetensors, atomically.
  void save(int64_t step) const;
  /// Puts everything back and returns the step. Throws IoError or ValueError when the file is not of this run.
  int64_t load() const;

 private:
  std::filesystem::path path_;
  nn::Module& model_;
  nn::Optimizer& optimizer_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace linnet::examples
