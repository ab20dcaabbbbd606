#include "support/bench/timing.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

namespace linnet::examples {
namespace {

/// Runs the work at least `least` times, and more until `seconds` have passed. Returns the milliseconds of each run.
std::vector<double> times_of(const std::function<void()>& work, std::ptrdiff_t least, double seconds) {
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (std::ssize(times) < least || milliseconds_since(begin) < 1e3 * seconds) {
    const Clock::time_point start = Clock::now();
    work();
    times.push_back(milliseconds_since(start));
  }
  return times;
}

Timing summary_of_rounds(const std::vector<Timing>& rounds) {
  std::vector<double> medians;
  std::ranges::transform(rounds, std::back_inserter(medians), &Timing::median_ms);
  return {median(medians), std::ranges::min(rounds, {}, &Timing::least_ms).least_ms,
          std::ranges::max(rounds, {}, &Timing::most_ms).most_ms};
}

}  // namespace

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
  constexpr int kWarmUp = 2, kLeast = 3;
  for (int i = 0; i < kWarmUp; ++i) work();
  return summary(times_of(work, kLeast, seconds));
}

std::vector<Timing> measure_in_rounds(const std::vector<Work>& works) {
  constexpr int kLeastRounds = 3;
  constexpr double kRounds = 10;  // planned: each lasts a tenth of all seconds
  double seconds = 0;
  for (const Work& work : works) seconds += work.seconds;
  std::vector<std::vector<Timing>> rounds(works.size());  // for each work
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < kLeastRounds || milliseconds_since(begin) < 1e3 * seconds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      works[i].run();  // warms the caches up, which hold the data of the work before
      rounds[i].push_back(summary(times_of(works[i].run, 1, works[i].seconds / kRounds)));
    }
  }
  std::vector<Timing> result;
  std::ranges::transform(rounds, std::back_inserter(result), summary_of_rounds);
  return result;
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
