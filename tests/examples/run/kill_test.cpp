/// Programs that are killed: whatever the moment, what is on the disk is whole, and a resumed run ends as one that
/// was never stopped.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

/// Few, so that the suite is quick; $LINNET_KILLS says otherwise.
int kills() {
  const char* wanted = std::getenv("LINNET_KILLS");
  return wanted != nullptr ? std::atoi(wanted) : 6;
}

/// The moments are new in each run of the test, unless $LINNET_KILL_SEED says which.
uint64_t kill_seed() {
  const char* wanted = std::getenv("LINNET_KILL_SEED");
  return wanted != nullptr ? std::stoull(wanted) : std::random_device{}();
}

void check_done(const Ended& ended) {
  CHECK(ended.err == "");
  REQUIRE(ended.code == 0);
}

/// The step of the checkpoint in `folder`, which must be whole if the folder holds a run; -1 if it does not.
int64_t step_in(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) return -1;
  CHECK(nlohmann::json::accept(read_bytes(folder / "config.json")));
  if (fs::exists(folder / "model.safetensors")) CHECK_NOTHROW(read_safetensors(folder / "model.safetensors"));
  return std::stoll(read_safetensors(folder / "checkpoint.safetensors").metadata.at("step"));
}

/// The metrics that do not tell of time and memory.
std::string results_in(const fs::path& folder) {
  std::istringstream lines(read_bytes(folder / "metrics.jsonl"));
  std::string results;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json metrics = nlohmann::json::parse(line);
    for (const char* name : {"seconds", "ms_per_step", "tokens_per_second", "peak_bytes"}) metrics.erase(name);
    results += metrics.dump() + "\n";
  }
  return results;
}

/// How long the program takes to begin with its work, and in all.
struct Pace {
  double start = 0, whole = 0;
};

Pace run_uninterrupted(const Arguments& flags, const fs::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  ChildProgram run("train_shakespeare", flags + Arguments{"--out", folder});
  while (run.running() && !fs::exists(folder / "config.json")) std::this_thread::sleep_for(1ms);
  const double start = seconds();
  check_done(run.wait());
  return {start, seconds()};
}

}  // namespace

TEST_CASE("a run killed at random moments and resumed each time is the uninterrupted one, to the bit") {
  const Workshop shop;
  const fs::path whole = shop / "whole", parts = shop / "parts";
  const std::string steps = std::to_string(100 * kills());
  const Arguments often{"--eval-every", "40", "--checkpoint-every", "7"};
  const Arguments flags =
      shop.tiny("run") + often + Arguments{"--steps", steps, "--dropout", "0.1", "--accumulate", "2"};
  const Pace pace = run_uninterrupted(flags, whole);
  const auto next_flags = [&] {
    return step_in(parts) < 0 ? flags + Arguments{"--out", parts}
                              : Arguments{"--resume", "--out", parts, "--data", shop / "data"};
  };
  // Together the stretches of work last about as long as the whole, so that its beginning, its middle and its last
  // writes are hit.
  const uint64_t seed = kill_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> moment(0.9 * pace.start,
                                                pace.start + 2 * (pace.whole - pace.start) / kills());
  int64_t step = -1;
  int under_way = 0;
  for (int i = 0; i < kills(); ++i) {
    ChildProgram run("train_shakespeare", next_flags());
    std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
    under_way += run.running() ? 1 : 0;
    run.kill();
    (void)run.wait();
    const int64_t reached = step_in(parts);
    CHECK(reached >= step);
    step = reached;
  }
  CHECK(under_way > 0);
  check_done(run_program("train_shakespeare", next_flags()));
  CHECK(names_in(parts) == names_in(whole));  // nothing more that a killed process left
  for (const std::string& name : names_in(whole)) {
    if (name.ends_with("json") || name.ends_with("jsonl")) continue;
    CAPTURE(name);
    CHECK(read_bytes(parts / name) == read_bytes(whole / name));
  }
  CHECK(results_in(parts) == results_in(whole));
}
