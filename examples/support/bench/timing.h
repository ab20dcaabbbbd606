#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace linnet::examples {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin);

/// The middle one of the values, the upper of two; 0 of none.
double median(std::vector<double> values);

/// Times of some work that was done several times, in milliseconds.
struct Timing {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

Timing summary(const std::vector<double>& times_ms);

/// Does the work twice to warm up, then at least three times, and more often until `seconds` have gone by.
Timing measure(const std::function<void()>& work, double seconds = 1);

/// Some work that can be done again and again, and for how many seconds to measure it, about.
struct Work {
  std::function<void()> run;
  double seconds = 1;
};

/// Measures several works a little at a time, in rounds, so that what slows the machine down for a while slows all of
/// them: the median of the rounds' medians of each, and the least and the most of all its times. At least three
/// rounds, in each of which a work is done once to warm up and then at least once.
std::vector<Timing> measure_in_rounds(const std::vector<Work>& works);

/// The most memory that this process has had resident, in bytes (VmHWM of Linux; 0 where there is no such figure).
int64_t resident_bytes();

}  // namespace linnet::examples
