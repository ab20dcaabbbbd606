#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace linnet::examples {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin);

/// The middle value, or the upper one of the two in the middle; 0 if there are no values.
double median(std::vector<double> values);

/// Statistics of the times of repeated work, in milliseconds.
struct Timing {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

Timing summary(const std::vector<double>& times_ms);

/// Times the work: two runs to warm up, then at least three, and more until `seconds` have passed.
Timing measure(const std::function<void()>& work, double seconds = 1);

/// Work that can be repeated, and about how many seconds to measure it for.
struct Work {
  std::function<void()> run;
  double seconds = 1;
};

/// Measures several works in at least three rounds, so that a machine that is slow for a while slows all of them. In
/// each round every work runs once to warm up and then at least once. Returns for each work the median of the rounds'
/// medians, and the least and the most of all its times.
std::vector<Timing> measure_in_rounds(const std::vector<Work>& works);

/// Peak resident memory of this process in bytes: VmHWM of Linux, 0 on other systems.
int64_t resident_bytes();

}  // namespace linnet::examples
