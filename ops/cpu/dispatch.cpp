#include <cstdlib>
#include <cstring>
#include <string>

#ifdef LINNET_X86_VARIANTS
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <fmt/format.h>

#include <linnet/core/allocator.h>
#include <linnet/core/backend.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel.h>
#include <linnet/ops/cpu/blas.h>

/// The CPU's backend: the kernels of this folder, compiled for the best instruction set that this machine
/// has.

namespace linnet {
namespace cpu {

void refuse_dtype(DType dtype) {
  throw DTypeError(fmt::format("does not take dtype {} on the CPU; convert with to(DType)", name_of(dtype)));
}

namespace baseline {
void fill_kernels(Backend& table);
}
#ifdef LINNET_X86_VARIANTS
namespace v3 {
void fill_kernels(Backend& table);
}
namespace v4 {
void fill_kernels(Backend& table);
}
namespace amx {
void fill_gemm(Backend& table);
}
#endif

namespace {

struct InstructionSet {
  const char* name;
  void (*fill_kernels)(Backend& table);
  bool supported;
};

#ifdef LINNET_X86_VARIANTS
/// Whether there are AMX's tiles of bfloat16, and Linux lets this process use them: it wants to be asked, since they
/// make the state of a thread 8 KiB larger.
bool may_use_amx() {
  constexpr unsigned kLeaf = 7, kBfloat16 = 1U << 22, kTiles = 1U << 24;  // of CPUID: not every compiler has names
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, features = 0;
  return __get_cpuid_count(kLeaf, 0, &a, &b, &c, &features) != 0 && (features & kBfloat16) != 0 &&
         (features & kTiles) != 0 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// AVX-512, but for the products.
void fill_amx_kernels(Backend& table) {
  v4::fill_kernels(table);
  amx::fill_gemm(table);
}
#endif

/// The first supported one of these, unless the environment variable LINNET_ISA names another.
InstructionSet choose_instruction_set() {
#ifdef LINNET_X86_VARIANTS
  // The levels of the x86-64 psABI, each by the features that its kernels use beyond the level below.
  __builtin_cpu_init();
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const InstructionSet choices[] = {{"amx", fill_amx_kernels, has_v4 && may_use_amx()},
                                    {"v4", v4::fill_kernels, has_v4},
                                    {"v3", v3::fill_kernels, has_v3},
                                    {"baseline", baseline::fill_kernels, true}};
#else
  const InstructionSet choices[] = {{"baseline", baseline::fill_kernels, true}};
#endif
  const char* forced = std::getenv("LINNET_ISA");
  std::string supported;
  for (const InstructionSet& choice : choices) {
    if (!choice.supported) continue;
    if (forced == nullptr || std::strcmp(forced, choice.name) == 0) return choice;
    supported += supported.empty() ? choice.name : std::string(", ") + choice.name;
  }
  throw ValueError(fmt::format("LINNET_ISA={} is not an instruction set of this machine; unset it, or use one of: {}",
                               forced, supported));
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::string describe() {
  return fmt::format("CPU with {} kernels, {} threads, {}", choose_instruction_set().name, num_threads(),
                     describe_blas());
}

void set_precision(Precision precision) {
  if (precision == Precision::float32) return;
  throw DeviceError(
      fmt::format("the CPU has no {} products; compute in float32, or on Device::cuda", name_of(precision)));
}

Backend make_backend() {
  Backend table{};
  table.describe = describe;
  table.allocate = cpu_memory::allocate;
  table.deallocate = cpu_memory::deallocate;
  table.memory_stats = cpu_memory::stats;
  table.reset_peak = cpu_memory::reset_peak;
  table.release_cached = cpu_memory::release_cached;
  table.from_host = copy_bytes;
  table.to_host = copy_bytes;
  table.record = [](const std::function<void()>&) { return std::unique_ptr<RecordedWork>(); };
  table.set_precision = set_precision;
  choose_instruction_set().fill_kernels(table);
  report_threaded_blas();
  return table;
}

}  // namespace

}  // namespace cpu

const Backend& cpu_backend() {
  static const Backend table = cpu::make_backend();
  return table;
}

}  // namespace linnet
