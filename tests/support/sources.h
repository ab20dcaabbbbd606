#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace linnet::test {

/// The files below these folders of the project, by their paths from its root, in alphabetical order.
inline std::vector<std::string> files_below(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(LINNET_SOURCE_DIR) / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(LINNET_SOURCE_DIR).string());
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace linnet::test
