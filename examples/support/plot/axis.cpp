#include "support/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "support/format.h"

namespace linnet::examples {
namespace {

// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
double round_up_125(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= value * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

std::string superscript(int number) {
  constexpr std::array<const char*, 10> kDigits = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char c : std::to_string(number)) text += c == '-' ? "⁻" : kDigits[static_cast<size_t>(c - '0')];
  return text;
}

// "2.5×10⁻⁷" with `decimals` digits after the point; a power of ten on its own is "10⁻⁷".
std::string scientific(double value, int decimals) {
  if (value == 0) return "0";
  const std::string text = fmt::format("{:.{}e}", value, decimals);
  const size_t e = text.find('e');
  const std::string power = "10" + superscript(std::stoi(text.substr(e + 1)));
  const std::string mantissa = text.substr(0, e);
  return mantissa == "1" ? power : mantissa + "×" + power;
}

bool needs_power_of_ten(double largest) { return largest >= 1e7 || largest < 1e-3; }

// Labels with just enough digits to tell neighbours `step` apart.
std::string label(double value, double step, bool use_power) {
  const auto exponent = [](double v) { return static_cast<int>(std::floor(std::log10(std::abs(v)) + 1e-9)); };
  if (use_power) return scientific(value, value == 0 ? 0 : std::max(0, exponent(value) - exponent(step)));
  return group_thousands(fmt::format("{:.{}f}", value, std::max(0, -exponent(step))));
}

std::vector<Tick> linear_ticks(const Axis& axis, int count) {
  const double step = round_up_125((axis.high - axis.low) / count);
  const bool use_power = needs_power_of_ten(std::max(std::abs(axis.low), std::abs(axis.high)));
  const double slack = 1e-9 * (axis.high - axis.low);
  std::vector<Tick> ticks;
  for (double i = std::ceil((axis.low - slack) / step); i * step <= axis.high + slack; ++i) {
    const double value = i == 0 ? 0 : i * step;  // no "-0"
    ticks.push_back({value, label(value, step, use_power)});
  }
  return ticks;
}

// Labels every decade, or every second, third, … if there are more than `count`. Between neighbouring decades, 2, 3,
// … 9 have ticks without labels.
std::vector<Tick> decade_ticks(const Axis& axis, int count) {
  const int first = static_cast<int>(std::floor(std::log10(axis.low)));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  const int stride = (last - first) / count + 1;
  const bool use_power = first < -5 || last > 6;
  std::vector<Tick> ticks;
  for (int decade = first; decade <= last; ++decade) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double value = digit * std::pow(10.0, decade);
      if (value < axis.low * (1 - 1e-9) || value > axis.high * (1 + 1e-9)) continue;
      if (digit == 1 && decade % stride == 0) {
        ticks.push_back({value, label(value, value, use_power)});
      } else if (stride == 1) {
        ticks.push_back({value, ""});
      }
    }
  }
  return ticks;
}

// Labels 1, 2 and 5 times a power of ten.
std::vector<Tick> digit_ticks(const Axis& axis) {
  std::vector<Tick> ticks = decade_ticks(axis, std::numeric_limits<int>::max());
  for (Tick& tick : ticks) {
    const double power = std::pow(10.0, std::floor(std::log10(tick.value) + 1e-9));
    const auto digit = std::lround(tick.value / power);
    if (digit == 1 || digit == 2 || digit == 5) tick.label = label(tick.value, power, needs_power_of_ten(axis.high));
  }
  return ticks;
}

}  // namespace

double Axis::fraction(double value) const {
  if (log) return std::log10(value / low) / std::log10(high / low);
  return (value - low) / (high - low);
}

std::vector<Tick> Axis::ticks(int count) const {
  if (!log) return linear_ticks(*this, count);
  const double decades = std::log10(high / low);
  if (decades < 0.7) return linear_ticks(*this, count);  // the range is too short for powers
  return 3 * decades <= count + 2 ? digit_ticks(*this) : decade_ticks(*this, count);
}

bool can_show(double value, bool log) {
  constexpr double kLargest = 1e300;  // leaves space for margins
  return std::abs(value) <= kLargest && (!log || value >= 1 / kLargest);
}

Axis fit_axis(const std::vector<double>& values, bool log, double margin) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : values) {
    if (!can_show(value, log)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return {log ? 1.0 : 0.0, log ? 10.0 : 1.0, log};

  constexpr double kSame = 1e-9;  // ranges below this part of the values are rounding
  const bool same = high - low <= kSame * std::max(std::abs(low), std::abs(high));
  if (log) {
    const double factor = same ? 2 : std::pow(high / low, margin);
    return {low / factor, high * factor, log};
  }
  if (same) {
    const double half = high == 0 ? 1 : 0.1 * std::abs(high);
    return {low - half, high + half, log};
  }
  const double spare = margin * (high - low);
  // A quantity that is never negative (a loss, a time) gets no axis below zero.
  return {low >= 0 ? std::max(0.0, low - spare) : low - spare, high + spare, log};
}

}  // namespace linnet::examples
