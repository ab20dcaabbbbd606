#include "support/format.h"

#include <doctest/doctest.h>

#include <limits>

namespace linnet::examples::test {

TEST_CASE("format: bytes") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(1024 * 1024 - 1) == "1.0 MiB");  // not "1024.0 KiB"
  CHECK(format_bytes(int64_t{5} << 30) == "5.0 GiB");
  CHECK(format_bytes(-2048) == "-2.0 KiB");
  CHECK(format_bytes(std::numeric_limits<int64_t>::max()) == "8.0 EiB");
}

TEST_CASE("format: counts") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(-1003854) == "-1,003,854");
  CHECK(format_count(std::numeric_limits<int64_t>::min()) == "-9,223,372,036,854,775,808");
  CHECK(group_thousands("12345.678901") == "12,345.678901");
}

TEST_CASE("format: durations") {
  CHECK(format_duration(0) == "0:00:00");
  CHECK(format_duration(59.6) == "0:01:00");
  CHECK(format_duration(3723) == "1:02:03");
  CHECK(format_duration(360000) == "100:00:00");
  CHECK(format_duration(-1) == "-:--:--");
  CHECK(format_duration(std::numeric_limits<double>::infinity()) == "-:--:--");
  CHECK(format_duration(std::numeric_limits<double>::quiet_NaN()) == "-:--:--");
}

TEST_CASE("format: widths count letters, not bytes") {
  CHECK(display_width("größer · →") == 10);
  CHECK(shorten("größer", 6) == "größer");
  CHECK(shorten("größer als", 8) == "größe...");
  CHECK(shorten("größer", 4) == "größ");
  CHECK(shorten("größer", 0) == "");
  CHECK(shorten("größer", -3) == "");
}

}  // namespace linnet::examples::test
