#include <linnet/core/files/system_calls.h>

#include <fcntl.h>
#include <unistd.h>

namespace linnet::detail {

bool write_all(int descriptor, const void* data, int64_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, next, static_cast<size_t>(bytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    next += written;
    bytes -= written;
  }
  return true;
}

int flush_folder(const std::filesystem::path& folder) {
  const char* const path = folder.empty() ? "." : folder.c_str();
  const int descriptor = uninterrupted([&] { return ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  int why = descriptor < 0 ? errno : 0;
  if (descriptor >= 0) {
    if (uninterrupted([&] { return ::fsync(descriptor); }) != 0) why = errno;
    ::close(descriptor);
  }
  return why == EIO || why == ENOSPC || why == EDQUOT ? why : 0;
}

}  // namespace linnet::detail
