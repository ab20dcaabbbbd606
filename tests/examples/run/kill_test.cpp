/// Programs that are killed: whatever the moment, what is on the disk is whole, and a resumed run ends as one that
/// was never stopped.

#include <doctest/doctest.h>

#include "tests/examples/run/kills.h"

using namespace linnet::examples::test;
using linnet::test::ChildProgram;

TEST_CASE("a run killed at random moments and resumed each time is the uninterrupted one, to the bit") {
  const Workshop shop;
  const auto command = [](int, const Arguments& flags) { return std::pair{std::string("train_shakespeare"), flags}; };
  const auto kill = [](ChildProgram& run, std::mt19937_64&) {
    const bool under_way = run.running();
    run.kill();
    (void)run.wait();
    return under_way;
  };
  check_killed(shop, {"--dropout", "0.1", "--accumulate", "2"}, 6, {command, kill});
}
