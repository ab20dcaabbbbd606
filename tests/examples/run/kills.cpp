#include "tests/examples/run/kills.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
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

/// How long the program takes until its work begins, and altogether, and its output.
struct Pace {
  double start = 0, whole = 0;
  std::string err;
};

Pace run_uninterrupted(const std::pair<std::string, Arguments>& command, const fs::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  ChildProgram run(command.first, command.second);
  while (run.running() && !fs::exists(folder / "config.json")) std::this_thread::sleep_for(1ms);
  const double start = seconds();
  const Ended ended = run.wait();
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  return {start, seconds(), ended.err};
}

/// The files in a folder and those below it, by their paths from there. (The names of event files have times.)
std::set<fs::path> files_in(const fs::path& folder) {
  std::set<fs::path> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool has_events = entry.path().filename().string().starts_with("events.out.");
    if (entry.is_regular_file() && !has_events) names.insert(entry.path().lexically_relative(folder));
  }
  return names;
}

/// The steps of the checkpoints in a folder and those below it. Each checkpoint must be complete.
std::map<fs::path, int64_t> steps_in(const fs::path& folder) {
  std::map<fs::path, int64_t> steps;
  if (!fs::exists(folder)) return steps;
  for (const fs::path& name : files_in(folder)) {
    if (name.filename() == "config.json") steps[name.parent_path()] = step_in(folder / name.parent_path());
  }
  return steps;
}

/// The numbers in results.json, except times and memory.
nlohmann::json figures_in(const fs::path& folder) {
  nlohmann::json results = nlohmann::json::parse(read_bytes(folder / "results.json"));
  for (const char* const name : {"ms_per_step", "peak_bytes", "processes"}) results.erase(name);
  return results;
}

/// What a program writes to stderr, from "taking …" on if its data stand in for a set: a run that goes on says why in
/// other words than one that begins.
std::string without_reason(const std::string& err) {
  const size_t taking = err.find("taking ");
  return taking == std::string::npos ? err : err.substr(taking);
}

}  // namespace

int wanted_kills(int few) {
  const char* const wanted = std::getenv("LINNET_KILLS");
  return wanted != nullptr ? std::atoi(wanted) : few;
}

uint64_t kill_seed() {
  const char* const wanted = std::getenv("LINNET_KILL_SEED");
  return wanted != nullptr ? std::stoull(wanted) : std::random_device{}();
}

int check_killed(const fs::path& folder, const KilledProgram& program, int kills, std::mt19937_64& random) {
  const fs::path whole = folder / "whole", parts = folder / "parts";
  const Pace pace =
      run_uninterrupted(program.command(0, program.flags + Arguments{"--out", whole}), whole / program.first_run);
  int starts = 0;
  const auto next_command = [&] {
    Arguments flags = program.flags + Arguments{"--out", parts};
    if (!steps_in(parts).empty()) flags.emplace_back("--resume");
    return program.command(starts++, flags);
  };
  // The parts of the work together last about as long as the whole, so that kills hit its beginning, its middle and
  // its last writes.
  const double longest = (pace.whole - pace.start) * std::min(1.0, 2.0 / kills);
  std::uniform_real_distribution<double> moment(0.9 * pace.start, pace.start + longest);
  int under_way = 0;
  for (int i = 0; i < kills; ++i) {
    const std::map<fs::path, int64_t> before = steps_in(parts);
    const auto [name, arguments] = next_command();
    ChildProgram killed(name, arguments);
    std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
    under_way += program.kill(killed, random) ? 1 : 0;
    std::map<fs::path, int64_t> after = steps_in(parts);
    for (const auto& [run, step] : before) {
      CAPTURE(run.string());
      REQUIRE(after.contains(run));
      CHECK(after[run] >= step);
    }
  }
  const auto [name, arguments] = next_command();
  const Ended ended = linnet::test::run_program(name, arguments);
  CHECK(without_reason(ended.err) == without_reason(pace.err));
  REQUIRE(ended.code == 0);
  check_same_runs(parts, whole);  // also: no files are left by a killed process
  return under_way;
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

void check_same_runs(const fs::path& folder, const fs::path& expected) {
  const std::set<fs::path> names = files_in(expected);
  CHECK(files_in(folder) == names);
  for (const fs::path& name : names) {
    CAPTURE(name.string());
    if (name.filename() == "metrics.jsonl") {
      CHECK(results_in((folder / name).parent_path()) == results_in((expected / name).parent_path()));
    } else if (name.filename() == "results.json") {
      CHECK(figures_in((folder / name).parent_path()) == figures_in((expected / name).parent_path()));
    } else if (name.filename() != "config.json" && name.filename() != "compare-seconds.png") {
      CHECK(read_bytes(folder / name) == read_bytes(expected / name));
    }
  }
}

}  // namespace linnet::examples::test
