/// Loads plugin.so, which is linked with linnet, trains a step with it, and unloads it, many times. The losses must
/// stay the same, and the number of threads must not grow.
#include <dlfcn.h>

#include <filesystem>
#include <iostream>
#include <iterator>

int main() {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  double first_loss = 0;
  std::ptrdiff_t first_threads = 0;
  for (int round = 0; round < 20; ++round) {
    void* const plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) return std::cout << dlerror() << "\n", 1;
    const auto train_step = reinterpret_cast<double (*)(unsigned)>(dlsym(plugin, "train_step"));
    const double loss = train_step(1);
    if (round == 0) {
      first_loss = loss;
      first_threads = threads();
    }
    if (loss != first_loss || threads() != first_threads) {
      return std::cout << "round " << round << ": loss " << loss << ", " << threads() << " threads\n", 1;
    }
    dlclose(plugin);
  }
  std::cout << "loss " << first_loss / 10 << "\n";
}
