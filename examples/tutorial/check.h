#pragma once

#include <cstdio>
#include <cstdlib>

namespace linnet::examples {

/// Ends a chapter with status 1 unless `fact` is true, so that a chapter's text says only what its program confirms.
inline void check(bool fact, const char* sentence) {
  if (fact) return;
  std::fprintf(stderr, "not true here: %s\n", sentence);
  std::exit(1);
}

}  // namespace linnet::examples
