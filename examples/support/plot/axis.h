#pragma once

#include <string>
#include <vector>

namespace linnet::examples {

struct Tick {
  double value;
  std::string label;  ///< empty for the small ticks between the decades of a logarithmic axis
};

/// The range of a picture's axis, linear or logarithmic.
struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;

  /// The position of `value` between `low` (0) and `high` (1).
  double fraction(double value) const;

  /// Ticks at round numbers (1, 2 or 5 times a power of ten) within the range, at most about `count` with
  /// labels.
  std::vector<Tick> ticks(int count) const;
};

/// Whether an axis can show this value: finite, not extremely large, and positive on a logarithmic axis.
bool can_show(double value, bool log);

/// The axis that covers all values that it can show, with a `margin` (a fraction of the range) on both sides. If all
/// values are equal, they are in the middle. Without values, the range is a default one.
Axis fit_axis(const std::vector<double>& values, bool log, double margin);

}  // namespace linnet::examples
