#include <cstdlib>
#include <cstring>
#include <initializer_list>

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

/// Whether OpenBLAS reads its number of threads from this entry of the environment.
bool sets_threads(const char* entry) {
  for (const char* name : {"OMP_NUM_THREADS=", "OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS="}) {
    if (std::strncmp(entry, name, std::strlen(name)) == 0) return true;
  }
  return false;
}

/// Restarts the program with one OpenBLAS thread, unless it has only one already. linnet does not need OpenBLAS's
/// threads: it calls OpenBLAS from threads of its own.
void start_with_one_thread(char** arguments, char** environment) {
  static char setting[] = "OMP_NUM_THREADS=1";
  size_t count = 0, kept = 0, settings = 0;
  while (environment[count] != nullptr) ++count;
  auto** changed = static_cast<char**>(alloca((count + 2) * sizeof(char*)));
  bool has_one = false;
  for (size_t i = 0; i < count; ++i) {
    if (!sets_threads(environment[i])) {
      changed[kept++] = environment[i];
      continue;
    }
    ++settings;
    has_one = std::strcmp(environment[i], setting) == 0;
  }
  if (has_one && settings == 1) return;
  changed[kept++] = setting;
  changed[kept] = nullptr;
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
