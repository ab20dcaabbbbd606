#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string_view>

#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <linnet/core/error.h>

#include "support/settings/program.h"

/// The functions that libFuzzer calls, and the limit on memory.

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace linnet::fuzz {
namespace {

std::atomic<int64_t> live_bytes{0}, peak_bytes{0};

void count_malloc(const volatile void* /*memory*/, size_t bytes) {
  const int64_t now = live_bytes += static_cast<int64_t>(bytes);
  if (now > peak_bytes) peak_bytes = now;
}

void count_free(const volatile void* memory) {
  if (memory != nullptr) live_bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(memory));
}

}  // namespace

bool accepted = false;

MemoryUse::MemoryUse() : before_(live_bytes) { peak_bytes = before_; }
int64_t MemoryUse::live() const { return live_bytes - before_; }
void MemoryUse::check(Bytes input, int64_t read) const {
  const int64_t most = 2 * std::max(static_cast<int64_t>(input.size()), read) + memory_allowance;
  if (peak_bytes - before_ <= most) return;
  std::fprintf(stderr, "an input of %zu bytes took %lld bytes of memory; at most %lld may be\n", input.size(),
               static_cast<long long>(peak_bytes - before_), static_cast<long long>(most));
  std::abort();
}

int64_t most_in_tensors(Bytes safetensors) {
  constexpr int64_t kColons = 4, kTensor = 512;  // after its name, dtype, shape and offsets; its handle
  const auto colons = std::count(safetensors.begin(), safetensors.end(), uint8_t{':'});
  return 4 * static_cast<int64_t>(safetensors.size()) + colons / kColons * kTensor;
}

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

/// libFuzzer's mutations and one more, which repeats a piece, as in files made to waste memory or to nest deeply.
/// Half of the time, the piece is a part of the input.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  constexpr size_t kOneIn = 20, kLongest = 6;
  constexpr std::array<std::string_view, 8> kPieces{"[", "]", "{\"a\":", "[[],", "1,", "\n", " ", "a"};
  std::minstd_rand random(seed);
  const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  if (size == 0 || below(kOneIn) > 0) return LLVMFuzzerMutate(data, size, most);
  const size_t begin = below(size), length = std::min(size_t{1} << below(kLongest + 1), size - begin);
  std::string piece(reinterpret_cast<const char*>(data) + begin, length);
  if (below(2) > 0) piece = kPieces[below(kPieces.size())];
  const size_t count = std::min(size_t{1} << below(std::bit_width(most)), (most - size) / piece.size());
  const size_t added = count * piece.size();
  std::memmove(data + begin + added, data + begin, size - begin);
  for (size_t i = 0; i < added; ++i) data[begin + i] = static_cast<uint8_t>(piece[i % piece.size()]);
  return size + added;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  linnet::fuzz::accepted = false;
  try {
    linnet::fuzz::run({data, size});
    linnet::fuzz::accepted = size > 0;
  } catch (const linnet::Error&) {
  } catch (const linnet::examples::UsageError&) {
  } catch (const CLI::Error&) {
  }
  if (linnet::fuzz::accepted && std::getenv("LINNET_FUZZ_ACCEPTED") != nullptr) std::fputs("ACCEPTED\n", stderr);
  return 0;
}
