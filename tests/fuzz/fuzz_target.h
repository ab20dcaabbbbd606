#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace linnet::fuzz {

using Bytes = std::span<const uint8_t>;

/// What a target does with an input; each file of this folder defines it once. Errors that users see may come out
/// (linnet::Error, and those of command lines); any other exception is a finding.
void run(Bytes input);

/// What `run` may have live at a time, beyond what was live before: `factor` times the input's size, and 16 MiB.
extern const int64_t memory_factor;

/// The input as a file, which lies in memory and goes with the object.
class File {
 public:
  explicit File(Bytes content);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::filesystem::path path() const;

 private:
  int descriptor_;
};

/// A folder of this process, which files can be written to. Emptied when the object goes.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, Bytes content) const;

 private:
  std::filesystem::path path_;
};

/// The input as text.
inline std::string text_of(Bytes input) { return {input.begin(), input.end()}; }

}  // namespace linnet::fuzz
