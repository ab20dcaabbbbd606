#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace linnet::examples {

/// Scalars as TensorBoard reads them.
class EventFile {
 public:
  /// Starts the file in a run's folder, in place of one of linnet's that is there. Throws IoError when it cannot be
  /// written.
  explicit EventFile(const std::filesystem::path& folder);

  /// Appends the values of some tags at a step. Throws IoError when it cannot, when the disk is full for example.
  void add(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) const;

 private:
  void append(const std::string& event) const;

  std::filesystem::path path_;
};

/// Throws UsageError, saying what to install, when linnet was built without protobuf, and so without event files.
void require_event_files();

}  // namespace linnet::examples
