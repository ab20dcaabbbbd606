#include "tests/support/disk/file_calls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace linnet::test {
namespace {

namespace fs = std::filesystem;

struct Failure {
  FileCall call;
  int error;
  int times;
};

struct Record {
  fs::path folder;
  std::vector<FileCall> calls;
  std::vector<Failure> failures;
  std::optional<std::pair<size_t, int>> failing_number;  // the number of a call, and its error
  bool interrupts = false;
  size_t longest_write = std::numeric_limits<size_t>::max();
};

constinit std::atomic<bool> recording{false};  // constinit: open and write are called before constructors run
std::mutex mutex;
Record record;

bool is_below_folder(const fs::path& path) {
  return std::mismatch(record.folder.begin(), record.folder.end(), path.begin(), path.end()).first ==
         record.folder.end();
}

/// The error with which FileCalls makes the next call fail, or 0.
int planned_error(const FileCall& call) {
  if (record.failing_number && record.failing_number->first == record.calls.size()) {
    return record.failing_number->second;
  }
  for (Failure& failure : record.failures) {
    if (failure.times == 0 || failure.call != call) continue;
    --failure.times;
    return failure.error;
  }
  static const std::set<std::string> kInterruptible{"open", "write", "ftruncate", "fsync"};
  const bool was_interrupted =
      !record.calls.empty() && record.calls.back() == call && record.calls.back().error == EINTR;
  return record.interrupts && kInterruptible.contains(call.name) && !was_interrupted ? EINTR : 0;
}

/// The path of an open file; empty if it has none.
fs::path path_of(int descriptor) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored);
}

fs::path path_of(const char* path) { return path; }

/// Calls `make(call)`, which may complete `call`, and records the call. If FileCalls makes it fail, sets errno and
/// returns -1 instead.
template <class Make>
auto call_or_fail(FileCall call, const Make& make) {
  const std::lock_guard lock(mutex);
  if (!is_below_folder(call.path)) return make(call);
  call.error = planned_error(call);
  auto result = static_cast<decltype(make(call))>(-1);
  if (call.error == 0 || call.name == "close") result = make(call);
  if (call.error != 0) {
    result = -1;
  } else if (result < 0) {
    call.error = errno;
  }
  const int error = call.error;
  record.calls.push_back(std::move(call));
  if (error != 0) errno = error;
  return result;
}

/// Makes a call that writes at most the given number of bytes from `data`.
template <class Write>
ssize_t write_or_fail(int descriptor, const void* data, size_t bytes, const Write& write) {
  if (!recording) return write(bytes);
  return call_or_fail({"write", path_of(descriptor)}, [&](FileCall& call) {
    const ssize_t written = write(is_below_folder(call.path) ? std::min(bytes, record.longest_write) : bytes);
    if (written > 0) call.data.assign(static_cast<const char*>(data), static_cast<size_t>(written));
    call.offset = ::lseek(descriptor, 0, SEEK_CUR) - std::max<ssize_t>(written, 0);
    return written;
  });
}

/// Makes a call without further data to record.
template <class File, class Call>
int plain_call(const char* name, File file, const Call& call) {
  if (!recording) return call();
  return call_or_fail({name, path_of(file)}, [&](FileCall&) { return call(); });
}

/// Does not flush: flushing is slow, and no test really loses its power.
int flush(int descriptor, long number) {
  const auto call = [&] { return static_cast<int>(syscall(number, descriptor)); };
  if (!recording) return call();
  return call_or_fail({"fsync", path_of(descriptor)},
                      [&](FileCall& flushed) { return is_below_folder(flushed.path) ? 0 : call(); });
}

template <class Truncate>
int truncate_or_fail(const fs::path& path, off_t bytes, const Truncate& truncate) {
  return call_or_fail({"ftruncate", path}, [&](FileCall& call) {
    call.offset = bytes;
    return truncate();
  });
}

}  // namespace

FileCalls::FileCalls(fs::path folder) {
  const std::lock_guard lock(mutex);
  record = {.folder = fs::canonical(folder), .calls = {}, .failures = {}, .failing_number = {}};
  recording = true;
}

FileCalls::~FileCalls() { recording = false; }

void FileCalls::fail(const FileCall& call, int error, int times) {
  const std::lock_guard lock(mutex);
  record.failures.push_back({call, error, times});
}

void FileCalls::fail_number(size_t number, int error) {
  const std::lock_guard lock(mutex);
  record.failing_number = {number, error};
}

void FileCalls::interrupt_each() {
  const std::lock_guard lock(mutex);
  record.interrupts = true;
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

using linnet::test::recording;

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
  const bool changes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_DIRECTORY)) != 0;
  if (!recording || !changes) return call();
  return linnet::test::call_or_fail({"open", path, {}, flags}, [&](linnet::test::FileCall&) { return call(); });
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  return linnet::test::write_or_fail(descriptor, data, bytes, [&](size_t count) {
    return static_cast<ssize_t>(syscall(SYS_write, descriptor, data, count));
  });
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (!recording) return static_cast<ssize_t>(syscall(SYS_writev, descriptor, parts, count));
  std::string all;
  for (int i = 0; i < count; ++i) all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write(descriptor, all.data(), all.size());
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  const auto call = [&](size_t count) {
    return static_cast<ssize_t>(syscall(SYS_pwrite64, descriptor, data, count, offset));
  };
  if (!recording) return call(bytes);
  return linnet::test::call_or_fail({"write", linnet::test::path_of(descriptor)}, [&](linnet::test::FileCall& made) {
    const ssize_t written = call(bytes);
    if (written > 0) made.data.assign(static_cast<const char*>(data), static_cast<size_t>(written));
    made.offset = offset;
    return written;
  });
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_ftruncate, descriptor, bytes)); };
  return recording ? linnet::test::truncate_or_fail(linnet::test::path_of(descriptor), bytes, call) : call();
}

int truncate(const char* path, off_t bytes) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_truncate, path, bytes)); };
  return recording ? linnet::test::truncate_or_fail(path, bytes, call) : call();
}

int fsync(int descriptor) { return linnet::test::flush(descriptor, SYS_fsync); }

int fdatasync(int descriptor) { return linnet::test::flush(descriptor, SYS_fdatasync); }

int close(int descriptor) {
  return linnet::test::plain_call("close", descriptor,
                                  [&] { return static_cast<int>(syscall(SYS_close, descriptor)); });
}

int rename(const char* from, const char* to) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)); };
  if (!recording) return call();
  return linnet::test::call_or_fail({"rename", to, from}, [&](linnet::test::FileCall&) { return call(); });
}

int unlink(const char* path) noexcept {
  return linnet::test::plain_call("unlink", path,
                                  [&] { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0)); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  const auto call = [&] { return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags)); };
  if (!recording) return call();
  const std::filesystem::path above = folder == AT_FDCWD ? "" : linnet::test::path_of(folder);
  return linnet::test::plain_call("unlink", (above / path).c_str(), call);
}

int remove(const char* path) noexcept {
  return linnet::test::plain_call("unlink", path, [&] {
    const auto call = [&](int flags) { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, flags)); };
    const int result = call(0);
    return result < 0 && errno == EISDIR ? call(AT_REMOVEDIR) : result;
  });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return linnet::test::plain_call("mkdir", path,
                                  [&] { return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode)); });
}

}  // extern "C"
