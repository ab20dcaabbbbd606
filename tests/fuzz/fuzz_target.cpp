#include "tests/fuzz/fuzz_target.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <linnet/core/error.h>

#include "support/settings/program.h"

/// What libFuzzer calls, and the limit on memory.

namespace linnet::fuzz {
namespace {

constexpr int64_t kAllowance = int64_t{16} << 20;

std::atomic<int64_t> live{0}, peak{0};

void count_malloc(const volatile void* /*memory*/, size_t bytes) {
  const int64_t now = live += static_cast<int64_t>(bytes);
  if (now > peak) peak = now;
}

void count_free(const volatile void* memory) {
  if (memory != nullptr) live -= static_cast<int64_t>(__sanitizer_get_allocated_size(memory));
}

}  // namespace

File::File(Bytes content) : descriptor_(memfd_create("linnet-fuzz", MFD_CLOEXEC)) {
  const auto size = static_cast<ssize_t>(content.size());
  if (descriptor_ < 0 || write(descriptor_, content.data(), content.size()) != size) {
    throw std::runtime_error("no file in memory");
  }
}
File::~File() { close(descriptor_); }
std::filesystem::path File::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

Folder::Folder() : path_("/dev/shm/linnet-fuzz-" + std::to_string(getpid())) {
  std::filesystem::create_directories(path_);
}
Folder::~Folder() { std::filesystem::remove_all(path_); }
void Folder::write(const std::string& name, Bytes content) const {
  std::ofstream(path_ / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

}  // namespace linnet::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  __sanitizer_install_malloc_and_free_hooks(linnet::fuzz::count_malloc, linnet::fuzz::count_free);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace linnet::fuzz;
  const int64_t before = live;
  peak = before;
  try {
    run({data, size});
  } catch (const linnet::Error&) {
  } catch (const linnet::examples::UsageError&) {
  } catch (const CLI::Error&) {
  }
  const int64_t most = memory_factor * static_cast<int64_t>(size) + kAllowance;
  if (peak - before > most) {
    std::fprintf(stderr, "an input of %zu bytes took %lld bytes of memory; at most %lld may be\n", size,
                 static_cast<long long>(peak - before), static_cast<long long>(most));
    std::abort();
  }
  return 0;
}
