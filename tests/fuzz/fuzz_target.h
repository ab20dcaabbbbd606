#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string>

namespace linnet::fuzz {

using Bytes = std::span<const uint8_t>;

/// Runs a target with an input; each *_fuzz.cpp defines this function. It may throw errors that users see
/// (linnet::Error, and those of command lines); any other exception is a finding.
void run(Bytes input);

/// The bytes of memory that reading may take in addition to memory in proportion to the input. For most targets they
/// are fewer than the 16 MiB that users are promised, so that small inputs already show what large ones would do.
extern const int64_t memory_allowance;

/// Whether something was read of this input: `checked` or `run` came to its end. With LINNET_FUZZ_ACCEPTED set, the
/// program prints ACCEPTED after each such input, so that run.sh can see whether the seeds reach the code behind the
/// first checks.
extern bool accepted;

/// The memory that the process has allocated since the construction.
class MemoryUse {
 public:
  MemoryUse();
  int64_t live() const;
  /// Ends the process if there was ever more than twice the larger of the input and the `read` bytes of its content,
  /// and the allowance.
  void check(Bytes input, int64_t read) const;

 private:
  int64_t before_;
};

/// Returns `read()`, which reads the input, and checks its memory. `before_fault` is the most content that is read of
/// an input before it is refused.
template <class Read>
auto checked(Bytes input, Read&& read, int64_t before_fault = 0) {
  const MemoryUse use;
  try {
    auto result = read();
    use.check(input, use.live());
    accepted = true;
    return result;
  } catch (...) {
    use.check(input, before_fault);
    throw;
  }
}

/// Returns `f()`, which must succeed once an input was accepted. Ends the process if it throws.
template <class F>
auto must(F&& f) {
  try {
    return f();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "an input was accepted, and then: %s\n", error.what());
    std::abort();
  }
}

/// The most bytes that the tensors of this safetensors file take. Elements of 8 bits become four times as wide, and a
/// tensor without elements has a handle and a name.
int64_t most_in_tensors(Bytes safetensors);

/// The input as a file in memory, which is removed with the object.
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

/// A folder of this process for files. It is emptied when the object is destroyed.
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
