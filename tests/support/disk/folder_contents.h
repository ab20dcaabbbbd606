#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/support/files.h"

namespace linnet::test {

/// What a folder holds, by paths from it.
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

/// Writes it into an empty folder.
inline void write_contents(const std::filesystem::path& folder, const FolderContents& contents) {
  for (const auto& name : contents.folders) std::filesystem::create_directories(folder / name);
  for (const auto& [name, bytes] : contents.files) write_bytes(folder / name, bytes);
}

/// Whether the name is one that a file or folder has while it is written.
inline bool is_temporary(const std::filesystem::path& name) { return name.extension() == ".tmp"; }

}  // namespace linnet::test
