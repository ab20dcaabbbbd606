#pragma once

#include <cstdio>
#include <cstdlib>

namespace linnet::examples {

/// Ends a chapter with status 1 unless `fact` is true, so that no page says what its program does not show.
inline void check(bool fact, const char* sentence) {
  if (fact) return;
  std::fprintf(stderr, "not true here: %s\n", sentence);
  std::exit(1);
}

}  // namespace linnet::examples
