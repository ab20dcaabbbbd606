#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

/// AddressSanitizer calls this in builds with it. A failed allocation then gives a null pointer, as without it: a
/// test requests more memory than there is.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): its name for it
  return "allocator_may_return_null=1";
}
