#pragma once

#include <filesystem>
#include <memory>
#include <random>

#include "tests/support/disk/file_calls.h"
#include "tests/support/disk/folder_contents.h"

namespace linnet::test {

/// What the loss of power leaves of the changes that were not flushed. What was flushed is there in every case.
enum class Left {
  nothing,
  names,       ///< new and replaced names, but no bytes
  bytes,       ///< bytes, but no names
  everything,  ///< as if the process had been killed
  some         ///< random writes, or the beginnings of them, with zeros in place of others, and some names
};
constexpr Left kAllLeft[] = {Left::nothing, Left::names, Left::bytes, Left::everything, Left::some};

/// A folder on a disk that loses its power. It is told of each call that changes the folder, and knows what may be
/// there afterwards: the bytes of a file are safe once the file was flushed, and its name once the folder was, as
/// POSIX has it. Of a folder's names, those that were changed first are left first.
class Disk {
 public:
  /// As the folder is now, all of it flushed.
  explicit Disk(std::filesystem::path folder);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// Throws std::logic_error where an earlier call was not told.
  void make(const FileCall& call);
  FolderContents contents(Left left, std::mt19937_64& random) const;

 private:
  struct Node;
  Node& node_at(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
  std::unique_ptr<Node> root_;
};

}  // namespace linnet::test
