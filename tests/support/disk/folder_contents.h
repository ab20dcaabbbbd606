#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/support/files.h"

namespace linnet::test {

/// The folders and files in a folder, by their relative paths.
struct FolderContents {
  std::set<std::filesystem::path> folders;
  std::map<std::filesystem::path, std::string> files;  ///< their bytes

  auto operator<=>(const FolderContents&) const = default;
};

inline FolderContents contents_of(const std::filesystem::path& folder) {
  FolderContents contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::filesystem::path name = entry.path().lexically_relative(folder);
    entry.is_directory() ? void(contents.folders.insert(name))
                         : void(contents.files[name] = read_bytes(entry.path()));
  }
  return contents;
}

/// Writes the contents into an empty folder.
inline void write_contents(const std::filesystem::path& folder, const FolderContents& contents) {
  for (const auto& name : contents.folders) std::filesystem::create_directories(folder / name);
  for (const auto& [name, bytes] : contents.files) write_bytes(folder / name, bytes);
}

/// Whether a file or folder has this name only while it is written.
inline bool is_temporary(const std::filesystem::path& name) { return name.extension() == ".tmp"; }

}  // namespace linnet::test
