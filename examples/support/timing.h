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

/// The most memory that this process has had resident, in bytes (VmHWM of Linux; 0 where there is no such figure).
int64_t resident_bytes();

}  // namespace linnet::examples
