#include "support/timing.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace linnet::examples {

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Timing summary(const std::vector<double>& times_ms) {
  if (times_ms.empty()) return {};
  const auto [least, most] = std::minmax_element(times_ms.begin(), times_ms.end());
  return {median(times_ms), *least, *most};
}

Timing measure(const std::function<void()>& work, double seconds) {
  constexpr int kWarmUp = 2;
  constexpr std::ptrdiff_t kLeast = 3;
  for (int i = 0; i < kWarmUp; ++i) work();
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (std::ssize(times) < kLeast || milliseconds_since(begin) < 1e3 * seconds) {
    const Clock::time_point start = Clock::now();
    work();
    times.push_back(milliseconds_since(start));
  }
  return summary(times);
}

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace linnet::examples
