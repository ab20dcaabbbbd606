#pragma once

#include <string>
#include <vector>

namespace linnet::examples {

/// The results of runs that differ only in their seeds. There is at least one run.
struct Spread {
  std::vector<double> values;

  double mean() const;
  /// The sample standard deviation; 0 for a single run.
  double deviation() const;
  /// "37.40", or for several runs "37.40 ± 0.31", with this number of digits after the point.
  std::string text(int digits) const;
};

}  // namespace linnet::examples
