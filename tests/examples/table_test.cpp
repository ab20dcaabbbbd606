#include "support/table.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace linnet::examples::test {

TEST_CASE("table: text to the left, numbers to the right") {
  Table table({"attention", "val loss", "memory", "größe", "note"});
  table.add_row({"softmax", "1.886", "12.5 MiB", "-0.5", "a"});
  table.add_row({"fastmax2", "-", "1.1 GiB", "+12", "2 or b"});
  table.add_row({"fastformer", "nan", "", ".5", "größer"});
  CHECK(table.str() ==
        "attention   val loss    memory  größe  note\n"
        "----------  --------  --------  -----  ------\n"
        "softmax        1.886  12.5 MiB   -0.5  a\n"
        "fastmax2           -   1.1 GiB    +12  2 or b\n"
        "fastformer       nan               .5  größer\n");
}

TEST_CASE("table: a column without a number is one of text") {
  Table table({"a", "loss"});
  CHECK(table.str() == "a  loss\n-  ----\n");
  table.add_row({"x", "-"});
  CHECK(table.str() == "a  loss\n-  ----\nx  -\n");
}

TEST_CASE("table: a row of the wrong length is refused") {
  Table table({"a", "b"});
  CHECK_THROWS_WITH_AS(table.add_row({"1"}),
                       "table: a row of 1 cells in a table of 2 columns; give one cell per column",
                       std::runtime_error);
  CHECK(table.str() == "a  b\n-  -\n");
}

}  // namespace linnet::examples::test
