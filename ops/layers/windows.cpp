#include <linnet/ops/detail/windows.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

void check_at_least(const char* name, const Size2d& size, int64_t least) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto [lower, upper] = std::minmax(size.height, size.width);
  if (lower >= least && upper <= kMost) return;
  const std::string shown =
      lower == upper ? fmt::format("{}", lower) : fmt::format("({}, {})", size.height, size.width);
  throw ValueError(fmt::format("{} must be at {} {}, not {}", name, lower < least ? "least" : "most",
                               lower < least ? least : kMost, shown));
}

int64_t windows(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t reach = dilation * (taps - 1) + 1;
  if (size + padding < reach) {
    throw ShapeError(
        fmt::format("the kernel reaches over {} pixels, but with its padding the input has only {}; take "
                    "a smaller kernel or dilation, or more padding",
                    reach, size + padding));
  }
  return (size + padding - reach) / stride + 1;
}

}  // namespace linnet::detail
