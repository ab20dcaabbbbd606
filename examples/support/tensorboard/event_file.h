#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace linnet::examples {

/// Writes scalars to an event file, which TensorBoard reads.
class EventFile {
 public:
  /// Creates the file in a run's folder and removes an earlier one of linnet's. Throws IoError when it cannot be
  /// written.
  explicit EventFile(const std::filesystem::path& folder);

  /// Appends the values that some tags had at a step, `seconds_ago`. Throws IoError when it cannot, for example on a
  /// full disk.
  void add(int64_t step, const std::vector<std::pair<std::string, double>>& scalars, double seconds_ago = 0) const;

 private:
  void append(const std::string& event) const;

  std::filesystem::path path_;
};

/// Throws UsageError, saying what to install, if linnet was built without protobuf and so without event files.
void require_event_files();

}  // namespace linnet::examples
