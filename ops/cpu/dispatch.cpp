#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef LINNET_X86_VARIANTS
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <fmt/format.h>

#include <linnet/core/device/allocator.h>
#include <linnet/core/device/backend.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel/parallel.h>
#include <linnet/ops/cpu/blas.h>

/// The CPU's backend: the kernels of this folder, for the best instruction set that this machine has.

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
void fill_convolution(Backend& table);
void fill_recurrent(Backend& table);
}  // namespace amx
#endif

namespace {

struct InstructionSet {
  const char* name;
  void (*fill_kernels)(Backend& table);
  bool (*supported)();
};

bool always() { return true; }

#ifdef LINNET_X86_VARIANTS
// The levels of the x86-64 psABI, each by its features beyond the level below. CPUID is read directly for features
// that not every compiler's __builtin_cpu_supports knows.

bool has_v3() {
  constexpr unsigned kMovbe = 1U << 22, kF16c = 1U << 29, kLzcnt = 1U << 5, kExtended = 0x80000001;
  unsigned a = 0, b = 0, d = 0, basic = 0, extended = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __get_cpuid(1, &a, &b, &basic, &d) != 0 && (basic & kMovbe) != 0 &&
         (basic & kF16c) != 0 && __get_cpuid(kExtended, &a, &b, &extended, &d) != 0 && (extended & kLzcnt) != 0;
}

bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

/// Whether the processor has AMX tiles of bfloat16 and AVX-512, and Linux lets this process use them. Linux requires
/// a request, because they make the state of a thread 8 KiB larger.
bool may_use_amx() {
  constexpr unsigned kLeaf = 7, kBfloat16 = 1U << 22, kTiles = 1U << 24;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, features = 0;
  return has_v4() && __get_cpuid_count(kLeaf, 0, &a, &b, &c, &features) != 0 && (features & kBfloat16) != 0 &&
         (features & kTiles) != 0 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// The kernels for AVX-512, with matrix products for AMX.
void fill_amx_kernels(Backend& table) {
  v4::fill_kernels(table);
  amx::fill_gemm(table);
  amx::fill_convolution(table);
  amx::fill_recurrent(table);
}

constexpr InstructionSet kChoices[] = {{"amx", fill_amx_kernels, may_use_amx},
                                       {"v4", v4::fill_kernels, has_v4},
                                       {"v3", v3::fill_kernels, has_v3},
                                       {"baseline", baseline::fill_kernels, always}};
#else
constexpr InstructionSet kChoices[] = {{"baseline", baseline::fill_kernels, always}};
#endif

/// The first supported one, unless the environment variable LINNET_ISA names another.
InstructionSet choose_instruction_set() {
  const char* forced = std::getenv("LINNET_ISA");
  for (const InstructionSet& choice : kChoices) {
    if ((forced == nullptr || std::strcmp(forced, choice.name) == 0) && choice.supported()) return choice;
  }
  std::vector<const char*> built, supported;
  for (const InstructionSet& choice : kChoices) {
    built.push_back(choice.name);
    if (choice.supported()) supported.push_back(choice.name);
  }
  throw ValueError(fmt::format(
      "LINNET_ISA={} is not available: this build has kernels for {}, and of these this machine supports {}; unset "
      "LINNET_ISA, or name a supported one",
      forced, fmt::join(built, ", "), fmt::join(supported, ", ")));
}

/// The instruction set of all kernels in this process.
const InstructionSet& instruction_set() {
  static const InstructionSet chosen = choose_instruction_set();
  return chosen;
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::string describe() {
  return fmt::format("CPU with {} kernels, {}, {}", instruction_set().name, describe_threads(), describe_blas());
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
  instruction_set().fill_kernels(table);
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
