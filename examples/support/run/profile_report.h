#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <linnet/core/device/profile.h>
#include <nlohmann/json_fwd.hpp>

namespace linnet::examples {

/// Training steps whose kernels were timed, as if each had begun when the one before it ended.
class ProfiledSteps {
 public:
  static constexpr int64_t kWarmUp = 10;  ///< steps before them, as programs do it
  static constexpr int64_t kSteps = 10;   ///< as many are profiled

  /// Does one more step.
  void add(const std::function<void()>& step);

  int64_t count() const { return count_; }
  /// Of a step, its kernels and what is between them.
  double mean_ms() const { return total_ms_ / static_cast<double>(count_); }
  const std::vector<KernelCall>& calls() const { return calls_; }
  /// Those of the first step.
  std::vector<KernelCall> calls_of_one() const { return {calls_.begin(), calls_.begin() + calls_of_one_}; }

 private:
  int64_t count_ = 0;
  double total_ms_ = 0;
  std::vector<KernelCall> calls_;
  std::ptrdiff_t calls_of_one_ = 0;
};

/// Where the time of the steps of `what` went, a heading and a table with a row for each op and kernel, forward and
/// backward apart, the longest first: milliseconds and calls a step, bytes of the operands, the rate at which they
/// were read and written, the share of the step, and the time as a multiple of the step's floor (see floor.h; 0 on a
/// GPU, which has none). Layers at the same place of several blocks share a row, and so do those of next to no time.
std::string profile_text(const std::string& what, const ProfiledSteps& steps, double floor_ms);

/// All rows of that table.
nlohmann::json profile_json(const ProfiledSteps& steps);

/// The calls one by one, as JSON that chrome://tracing and Perfetto draw.
std::string trace_json(const std::vector<KernelCall>& calls);

/// Puts profile.txt, which holds `text`, and trace.json into a folder.
void write_profile(const std::filesystem::path& folder, const std::string& text, const ProfiledSteps& steps);

}  // namespace linnet::examples
