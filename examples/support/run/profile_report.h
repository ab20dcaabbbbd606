#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <linnet/core/device/profile.h>
#include <nlohmann/json_fwd.hpp>

namespace linnet::examples {

/// Training steps whose kernels were timed. Times count as if each step began when the one before it ended.
class ProfiledSteps {
 public:
  static constexpr int64_t kWarmUp = 10;  ///< steps that programs make before profiling
  static constexpr int64_t kSteps = 10;   ///< steps that programs profile

  /// Runs and profiles one more step.
  void add(const std::function<void()>& step);

  int64_t count() const { return count_; }
  /// Milliseconds of a step, including the time between kernels.
  double mean_ms() const { return total_ms_ / static_cast<double>(count_); }
  const std::vector<KernelCall>& calls() const { return calls_; }
  /// The calls of the first step.
  std::vector<KernelCall> calls_of_one() const { return {calls_.begin(), calls_.begin() + calls_of_one_}; }

 private:
  int64_t count_ = 0;
  double total_ms_ = 0;
  std::vector<KernelCall> calls_;
  std::ptrdiff_t calls_of_one_ = 0;
};

/// A heading with `what`, and a table of where the time went. It has a row for each op and kernel, and separate rows
/// for forward and backward, sorted by time. Columns: milliseconds and calls per step, bytes of the operands, GB/s,
/// the share of the step, and the time as a multiple of the step's floor. (See floor.h; `floor_ms` is 0 on a GPU,
/// which has none.) The same layer of all blocks shares one row. The kernels that take almost no time share another.
std::string profile_text(const std::string& what, const ProfiledSteps& steps, double floor_ms);

/// All rows of that table, including the small ones.
nlohmann::json profile_json(const ProfiledSteps& steps);

/// All calls as JSON that chrome://tracing and Perfetto draw.
std::string trace_json(const std::vector<KernelCall>& calls);

/// Writes `text` to profile.txt in a folder, and the calls to trace.json.
void write_profile(const std::filesystem::path& folder, const std::string& text, const ProfiledSteps& steps);

}  // namespace linnet::examples
