#include "tests/support/file_calls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <mutex>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace linnet::test {
namespace {

struct Failure {
  FileCall call;
  int error;
  int times;
};

struct Record {
  std::filesystem::path folder;
  std::vector<FileCall> calls;
  std::vector<Failure> failures;
  size_t longest_write = std::numeric_limits<size_t>::max();
};

constinit std::atomic<bool> recording{false};  // constinit: open and write are called before constructors run
std::mutex mutex;
Record record;

bool is_below_folder(const std::filesystem::path& path) {
  return std::mismatch(record.folder.begin(), record.folder.end(), path.begin(), path.end()).first ==
         record.folder.end();
}

/// Records a call. Returns the error with which FileCalls::fail makes it fail, or 0.
int record_call(const char* name, const std::filesystem::path& path) {
  const std::lock_guard lock(mutex);
  if (!is_below_folder(path)) return 0;
  record.calls.push_back({name, path});
  for (Failure& failure : record.failures) {
    if (failure.times == 0 || failure.call != record.calls.back()) continue;
    --failure.times;
    return failure.error;
  }
  return 0;
}

/// The path of an open file; empty if it has none.
std::filesystem::path path_of(int descriptor) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored);
}

/// The most bytes that one write to the file may take.
size_t longest_write(int descriptor) {
  const std::lock_guard lock(mutex);
  return is_below_folder(path_of(descriptor)) ? record.longest_write : std::numeric_limits<size_t>::max();
}

/// Makes the call, or fails as FileCalls::fail says: sets errno and returns -1.
template <class Call>
auto call_or_fail(const char* name, const std::filesystem::path& path, const Call& call) {
  if (const int error = record_call(name, path); error != 0) {
    errno = error;
    return static_cast<decltype(call())>(-1);
  }
  return call();
}

}  // namespace

FileCalls::FileCalls(std::filesystem::path folder) {
  const std::lock_guard lock(mutex);
  record = {.folder = std::filesystem::canonical(folder), .calls = {}, .failures = {}};
  recording = true;
}

FileCalls::~FileCalls() { recording = false; }

void FileCalls::fail(const FileCall& call, int error, int times) {
  const std::lock_guard lock(mutex);
  record.failures.push_back({call, error, times});
}

void FileCalls::shorten_writes(size_t bytes) {
  const std::lock_guard lock(mutex);
  record.longest_write = bytes;
}

std::vector<FileCall> FileCalls::all() const {
  const std::lock_guard lock(mutex);
  return record.calls;
}

}  // namespace linnet::test

// Symbol interposition: a program's definitions of these functions replace those of the C library, also for the
// shared libraries that the program loads. They make the system calls themselves.

extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const auto call = [&] { return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode)); };
  return linnet::test::recording ? linnet::test::call_or_fail("open", path, call) : call();
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  const auto call = [&](size_t count) { return static_cast<ssize_t>(syscall(SYS_write, descriptor, data, count)); };
  if (!linnet::test::recording) return call(bytes);
  const size_t count = std::min(bytes, linnet::test::longest_write(descriptor));
  return linnet::test::call_or_fail("write", linnet::test::path_of(descriptor), [&] { return call(count); });
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_ftruncate, descriptor, bytes)); };
  if (!linnet::test::recording) return call();
  return linnet::test::call_or_fail("ftruncate", linnet::test::path_of(descriptor), call);
}

int fsync(int descriptor) {
  const auto call = [&] { return static_cast<int>(syscall(SYS_fsync, descriptor)); };
  if (!linnet::test::recording) return call();
  return linnet::test::call_or_fail("fsync", linnet::test::path_of(descriptor), call);
}

int rename(const char* from, const char* to) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)); };
  return linnet::test::recording ? linnet::test::call_or_fail("rename", to, call) : call();
}

int unlink(const char* path) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0)); };
  return linnet::test::recording ? linnet::test::call_or_fail("unlink", path, call) : call();
}

}  // extern "C"
