/// The program ablations, which repeats the papers' ablation studies, and its charts.

#include <doctest/doctest.h>

#include <cmath>

#include "support/plot/bar_chart.h"
#include "tests/examples/plot/picture.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;

TEST_CASE("ablations: a table and a chart for each question, the same from the same seed") {
  const Workshop shop;
  const auto run = [&](const std::string& out) {
    const Arguments flags = shop.tiny(out) + Arguments{"--steps", "2", "--eval-every", "2", "--seeds", "2"};
    const Ended ended = run_program("ablations", flags + Arguments{"interaction", "sharing"});
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    return ended.out;
  };
  const std::string out = run("a");
  for (const std::string part : {"product", "concat", "query-value", "+ heads, layers", "± deviation"}) {
    CAPTURE(part);
    CHECK(out.find(part) != std::string::npos);
  }
  CHECK(names_in(shop / "a") == std::vector<std::string>{"interaction", "interaction.png", "sharing", "sharing.png"});
  CHECK(names_in(shop / "a/interaction").size() == 6);
  const auto table = [](const std::string& text) {
    const size_t begin = text.find("interaction  parameters");  // up to the line that names the folder
    return text.substr(begin, text.find('/', begin) - begin);
  };
  CHECK(table(run("b")) == table(out));
}

TEST_CASE("ablations dropout: every kind at every rate, and none; a line for each kind") {
  const Workshop shop;
  const Arguments flags = shop.tiny("a") + Arguments{"--steps", "2", "--eval-every", "2", "--seeds", "1"};
  const Ended ended = run_program("ablations", flags + Arguments{"dropout", "--rates", "0.1,0.5"});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(names_in(shop / "a") == std::vector<std::string>{"dropout", "dropout.png"});
  CHECK(names_in(shop / "a/dropout") ==
        std::vector<std::string>{"none-1337", "quadratic 0.1-1337", "quadratic 0.5-1337", "standard 0.1-1337",
                                 "standard 0.5-1337", "token 0.1-1337", "token 0.5-1337"});
  const std::string config = read_bytes(shop / "a/dropout/token 0.5-1337/config.json");
  for (const std::string part :
       {"\"attention\": \"fastmax2\"", "\"attention_dropout\": 0.5", "\"dropout_kind\": \"token\""}) {
    CAPTURE(part);
    CHECK(contains(config, part));
  }
  for (const std::string part : {"dropout", "none", "quadratic 0.5", "mean validation loss"}) {
    CAPTURE(part);
    CHECK(contains(ended.out, part));
  }
  CHECK(Picture(shop / "a/dropout.png").width() > 1000);
}

TEST_CASE("ablations: what it refuses") {
  const Workshop shop;
  const auto refused = [&](const std::string& program, const Arguments& flags, const std::string& part) {
    const Ended ended = run_program(program, flags);
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(ended.err.find(part) != std::string::npos);
  };
  refused("ablations", shop.tiny("run") + Arguments{"--seeds", "0"}, "--seeds");
  refused("ablations", shop.tiny("run") + Arguments{"--seeds", "1001"},
          "--seeds: 1001 is not a whole number from 1 to 1000");
  refused("ablations", shop.tiny("run") + Arguments{"--task", "speech"},
          "--task speech: must be shakespeare or mnist");
  refused("ablations", shop.tiny("run") + Arguments{"--heads", "3"}, "--width 16 is not a multiple of --heads 3");
  refused("ablations", shop.tiny("run") + Arguments{"--short-conv", "99999999999999999999"},
          "--short-conv: 99999999999999999999 is out of range");
  refused("ablations", shop.tiny("run") + Arguments{"size"}, "size");
  refused("ablations", shop.tiny("run") + Arguments{"sharing", "sharing"}, "sharing is named twice");
  refused("ablations", shop.tiny("run") + Arguments{"sharing,interaction,sharing"}, "sharing is named twice");
  refused("ablations", shop.tiny("run") + Arguments{"sharing", "--rates", "0.1"},
          "--rates does not apply to sharing");
  for (const std::string rates : {"0", "1", "nan", "0.2,0.1", "0.1,0.1"}) {
    refused("ablations", shop.tiny("run") + Arguments{"dropout", "--rates", rates},
            "must rise, above 0 and up to 0.99");
  }
  refused("ablations", shop.tiny("run") + Arguments{"dropout", "--rates", "much"}, "--rates");
  CHECK_FALSE(std::filesystem::exists(shop / "run"));
}

TEST_CASE("bar chart: drawn, or refused and not written") {
  const Workshop shop;
  write_png(BarChart{.title = "bars", .bars = {{"a", 1, 0.1}, {"b", 2, 0}}}, shop / "bars.png");
  CHECK(read_bytes(shop / "bars.png").starts_with("\x89PNG"));
  CHECK_THROWS_WITH(write_png(BarChart{}, shop / "none.png"), doctest::Contains("no bar to draw"));
  CHECK_THROWS_WITH(write_png(BarChart{.bars = {{"a", std::nan(""), 0}}}, shop / "none.png"),
                    doctest::Contains("the bar 'a' is nan"));
  CHECK_FALSE(std::filesystem::exists(shop / "none.png"));
}
