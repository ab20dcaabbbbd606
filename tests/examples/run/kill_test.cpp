/// Programs that are killed at any moment: the files on the disk must be complete, and a resumed run must end as one
/// that was never stopped.

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/examples/run/every_program.h"
#include "tests/examples/run/kills.h"

using namespace linnet::examples::test;
using linnet::test::ChildProgram;

TEST_CASE(
    "a run killed at random moments and resumed each time is the uninterrupted one, to the bit, whatever trains") {
  const EveryProgram every;
  const auto kill = [](ChildProgram& run, std::mt19937_64&) {
    const bool under_way = run.running();
    run.kill();
    (void)run.wait();
    return under_way;
  };
  const uint64_t seed = kill_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Arguments names = EveryProgram::kNames;
  std::ranges::shuffle(names, random);  // if there are fewer kills than programs, the first programs are killed
  const int kills = wanted_kills(6), count = static_cast<int>(names.size());
  int under_way = 0;
  for (int i = 0; i < count; ++i) {
    const std::string& name = names[static_cast<size_t>(i)];
    CAPTURE(name);
    const int share = kills / count + (i < kills % count ? 1 : 0);
    if (share == 0) continue;
    const auto command = [&](int, const Arguments& flags) { return std::pair{name, flags}; };
    const Arguments flags = every.flags(name, "run") + Arguments{"--eval-every",
                                                                 "40",
                                                                 "--checkpoint-every",
                                                                 "7",
                                                                 "--dropout",
                                                                 "0.1",
                                                                 "--accumulate",
                                                                 "2",
                                                                 "--steps",
                                                                 std::to_string(100 * share)};
    under_way +=
        check_killed(every / name, {name, flags, EveryProgram::first_run(name), command, kill}, share, random);
  }
  CHECK(under_way > 0);
}
