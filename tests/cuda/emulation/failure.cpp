#include "failure.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <link.h>
#include <sanitizer/common_interface_defs.h>

#include "grid.h"

namespace linnet::emulation {
namespace {

/// Prints the kernel's name by addr2line. Kernels are in unnamed namespaces, so dladdr does not know their names.
void print_name(const void* function) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(function, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return;
  char address[32];
  std::snprintf(address, sizeof address, " %#zx >&2", reinterpret_cast<uintptr_t>(function) - map->l_addr);
  if (std::system((std::string("addr2line -Cf -e ") + info.dli_fname + address).c_str()) != 0) return;
}

void print_place() {
  if (running == nullptr) return;
  std::fprintf(stderr, "emulation: in block %u of %u, thread %u of %u, of the kernel\n", blockIdx.x, gridDim.x,
               threadIdx.x, blockDim.x);
  print_name(running);
}

[[maybe_unused]] const bool sanitizers_too = (__sanitizer_set_death_callback(print_place), true);

}  // namespace

void fail(const char* format, ...) {
  std::fputs("\nemulation: ", stderr);
  va_list list;
  va_start(list, format);
  std::vfprintf(stderr, format, list);
  va_end(list);
  std::fputs("\n", stderr);
  print_place();
  std::abort();
}

}  // namespace linnet::emulation
