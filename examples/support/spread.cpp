#include "support/spread.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace linnet::examples {

double Spread::mean() const {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Spread::deviation() const {
  if (values.size() < 2) return 0;
  const double center = mean();
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::string Spread::text(int digits) const {
  const std::string center = fmt::format("{:.{}f}", mean(), digits);
  return values.size() < 2 ? center : fmt::format("{} ± {:.{}f}", center, deviation(), digits);
}

}  // namespace linnet::examples
