#include "support/texts/malformed_lines.h"

#include <cstdio>

#include <fmt/format.h>

#include <linnet/core/error.h>

#include "support/format.h"

namespace linnet::examples {

void MalformedLines::add(const std::string& place, const std::string& why) {
  constexpr int64_t kShown = 5;
  const std::string message = fmt::format("{}: {}", place, why);
  if (strict_) throw IoError(message);
  if (++count_ <= kShown) fmt::print(stderr, "{}; left out\n", message);
}

void MalformedLines::report(const std::string& data) const {
  if (count_ == 0) return;
  fmt::print(stderr, "{}: left out {} malformed {}; --strict ends at the first\n", data, format_count(count_),
             count_ == 1 ? "text" : "texts");
}

}  // namespace linnet::examples
