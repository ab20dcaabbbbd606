#include "tests/examples/run/kills.h"

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <linnet/core/files/safetensors.h>

namespace linnet::examples::test {
namespace {

using namespace std::chrono_literals;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
namespace fs = std::filesystem;

uint64_t kill_seed() {
  const char* wanted = std::getenv("LINNET_KILL_SEED");
  return wanted != nullptr ? std::stoull(wanted) : std::random_device{}();
}

/// How long the program takes to begin with its work, and in all.
struct Pace {
  double start = 0, whole = 0;
};

void check_end(const Ended& ended) {
  CHECK(ended.err == "");
  REQUIRE(ended.code == 0);
}

Pace run_uninterrupted(const std::pair<std::string, Arguments>& command, const fs::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  ChildProgram run(command.first, command.second);
  while (run.running() && !fs::exists(folder / "config.json")) std::this_thread::sleep_for(1ms);
  const double start = seconds();
  check_end(run.wait());
  return {start, seconds()};
}

}  // namespace

void check_killed(const Workshop& shop, const Arguments& more, int few, const KilledRun& run) {
  const char* const wanted = std::getenv("LINNET_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : few;
  const fs::path whole = shop / "whole", parts = shop / "parts";
  const Arguments often{"--eval-every", "40", "--checkpoint-every", "7", "--steps", std::to_string(100 * kills)};
  const Arguments flags = shop.tiny("run") + often + more;
  const Pace pace = run_uninterrupted(run.command(0, flags + Arguments{"--out", whole}), whole);
  int starts = 0;
  const auto next_command = [&] {
    return run.command(starts++, step_in(parts) < 0 ? flags + Arguments{"--out", parts}
                                                    : Arguments{"--resume", "--out", parts, "--data", shop / "data"});
  };
  // Together the stretches of work last about as long as the whole, so that its beginning, its middle and its last
  // writes are hit.
  const uint64_t seed = kill_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> moment(0.9 * pace.start, pace.start + 2 * (pace.whole - pace.start) / kills);
  int64_t step = -1;
  int under_way = 0;
  for (int i = 0; i < kills; ++i) {
    const auto [program, arguments] = next_command();
    ChildProgram killed(program, arguments);
    std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
    under_way += run.kill(killed, random) ? 1 : 0;
    const int64_t reached = step_in(parts);
    CHECK(reached >= step);
    step = reached;
  }
  CHECK(under_way > 0);
  const auto [program, arguments] = next_command();
  check_end(linnet::test::run_program(program, arguments));
  CHECK(names_in(parts) == names_in(whole));  // nothing more that a killed process left
  for (const std::string& name : names_in(whole)) {
    if (name.ends_with("json") || name.ends_with("jsonl")) continue;
    CAPTURE(name);
    CHECK(read_bytes(parts / name) == read_bytes(whole / name));
  }
  CHECK(results_in(parts) == results_in(whole));
}

int64_t step_in(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) return -1;
  CHECK(nlohmann::json::accept(read_bytes(folder / "config.json")));
  if (fs::exists(folder / "model.safetensors")) CHECK_NOTHROW(read_safetensors(folder / "model.safetensors"));
  return std::stoll(read_safetensors(folder / "checkpoint.safetensors").metadata.at("step"));
}

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

}  // namespace linnet::examples::test
