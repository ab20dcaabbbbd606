#include <linnet/ops/detail/windows.h>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

void check_at_least(const char* name, const Size2d& size, int64_t least) {
  if (size.height >= least && size.width >= least) return;
  const std::string shown =
      size.height == size.width ? fmt::format("{}", size.height) : fmt::format("({}, {})", size.height, size.width);
  throw ValueError(fmt::format("{} must be at least {}, not {}", name, least, shown));
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
