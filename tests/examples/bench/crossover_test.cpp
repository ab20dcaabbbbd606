/// The search of `bench crossover`.

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/child_program.h"

using linnet::test::Ended;
using linnet::test::run_program;

TEST_CASE("bench crossover --to: lengths up to it are found, also beyond the last power of two") {
  const auto committed = [](const std::string& most) {
    const Ended ended = run_program("bench", {"--json", "--seconds", "0.001", "crossover", "--mechanisms", "fastmax2",
                                              "--head-dims", "16", "--to", most});
    REQUIRE(ended.code == 0);
    return nlohmann::json::parse(ended.out.substr(0, ended.out.find('\n'))).at("committed");  // from 232 on
  };
  CHECK(committed("250") == 240);
  CHECK(committed("236") == 236);  // the interval ends at --to
  CHECK(committed("231").is_null());
}
