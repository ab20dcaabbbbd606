#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

/// What AddressSanitizer asks for in builds with it: that memory that cannot be had is a null pointer there too,
/// since a test asks for some.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): its name for it
  return "allocator_may_return_null=1";
}
