#include <cstdlib>
#include <cstring>

#include <alloca.h>
#include <sys/resource.h>
#include <unistd.h>

/// OpenBLAS reserves about 130 MiB of address space for each of its threads while it is loaded, and retries without
/// end when it gets none. Under a limit on address space (`ulimit -v`) a program would thus hang before `main`. The
/// function here checks the limit before any library is initialised.

namespace {

/// Measured: a program with one OpenBLAS thread needs 193 MiB.
constexpr rlim_t kLeast = rlim_t{208} << 20;
constexpr char kMessage[] =
    ": the limit on address space (ulimit -v) is below 208 MiB, which OpenBLAS needs to be loaded; raise it, for "
    "example by ulimit -v unlimited\n";

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // stderr is closed
}

/// Restarts the program with one OpenBLAS thread, unless the user has set a number. linnet does not need OpenBLAS's
/// threads: it calls OpenBLAS from threads of its own.
void start_with_one_thread(char** arguments, char** environment) {
  static char setting[] = "OMP_NUM_THREADS=1";
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (std::strncmp(environment[count], setting, sizeof setting - 2) == 0) return;
  }
  auto** changed = static_cast<char**>(alloca((count + 2) * sizeof(char*)));
  std::memcpy(changed, environment, count * sizeof(char*));
  changed[count] = setting;
  changed[count + 1] = nullptr;
  execve("/proc/self/exe", arguments, changed);  // if it fails, the program goes on unchanged
}

[[gnu::no_sanitize_address]] void check_address_space(int, char** arguments, char** environment) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (limit.rlim_cur < kLeast) {
    say(arguments[0]);
    say(kMessage);
    _exit(1);
  }
  start_with_one_thread(arguments, environment);
}

// The loader calls this before it initialises libraries. Exceptions do not work yet: an error prints and exits.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = check_address_space;

}  // namespace
