#pragma once

#include <filesystem>
#include <memory>
#include <random>

#include "tests/support/disk/file_calls.h"
#include "tests/support/disk/folder_contents.h"

namespace linnet::test {

/// Which of the unflushed changes survive a loss of power. Flushed changes always survive.
enum class Left {
  nothing,
  names,       ///< new and replaced names, but no bytes
  bytes,       ///< bytes, but no names
  everything,  ///< as if the process had been killed
  some         ///< random writes, or the beginnings of them, with zeros in place of others, and some names
};
constexpr Left kAllLeft[] = {Left::nothing, Left::names, Left::bytes, Left::everything, Left::some};

/// Simulates a folder on a disk that loses its power. It is told of each call that changes the folder, and knows
/// which contents are possible afterwards. As in POSIX, the bytes of a file are safe once the file was flushed, and
/// its name once the folder was. Unflushed changes of a folder's names survive in the order in which they were made.
class Disk {
 public:
  /// Begins with the folder as it is now, all of it flushed.
  explicit Disk(std::filesystem::path folder);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// Throws std::logic_error if it was not told of an earlier call.
  void make(const FileCall& call);
  FolderContents contents(Left left, std::mt19937_64& random) const;

 private:
  struct Node;
  Node& node_at(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
  std::unique_ptr<Node> root_;
};

}  // namespace linnet::test
