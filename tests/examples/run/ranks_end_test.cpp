/// How trainers under mpirun end together when one of them is killed, or rank 0's disk is full, and how they resume.

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>
#include <iterator>

#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/kills.h"
#include "tests/examples/run/ranks.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSoon{10};
const Arguments kLonger{"--steps", "500", "--checkpoint-every", "10"};  // longer than a test needs to stop a run

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool is_gone(pid_t process) { return ::kill(process, 0) != 0; }

/// Checks that a run and all its ranks end soon.
Ended end_soon(ChildProgram& run, const std::map<int, pid_t>& ranks) {
  const Clock::time_point last = Clock::now() + kSoon;
  Ended ended = run.wait();
  for (const auto& [rank, process] : ranks) {
    while (!is_gone(process) && Clock::now() < last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CAPTURE(rank);
    CHECK(is_gone(process));
  }
  CHECK(Clock::now() < last);
  return ended;
}

/// Starts a run in the folder `out` and calls `stop(launcher, ranks)` in its middle. Then two ranks resume it, and
/// must end with the bits of a run that was not stopped. Returns how the first run ended.
Ended check_stopped(const Workshop& shop, const std::string& out,
                    const std::function<void(pid_t launcher, const std::map<int, pid_t>& ranks)>& stop) {
  const std::string whole = "whole";
  if (!fs::exists(shop / whole)) done("train_shakespeare", sharded(shop, whole) + kLonger);
  // Writing beyond a file's limit is then an error, as on a full disk, and not a signal.
  const Arguments no_signal{"-c", "trap '' XFSZ; exec \"$@\"", "sh", fs::path(LINNET_BIN_DIR) / "train_shakespeare"};
  ChildProgram run(LINNET_MPIRUN, launch(4, "/bin/sh", no_signal + (sharded(shop, out) + kLonger)));
  const std::map<int, pid_t> ranks = wait_for_ranks(run, 4);
  REQUIRE(ranks.size() == 4);
  wait_for_progress(run, shop / out);
  stop(run.pid(), ranks);
  Ended stopped = end_soon(run, ranks);
  CAPTURE(stopped.err);
  CHECK(step_in(shop / out) > 0);
  REQUIRE_FALSE(fs::exists(shop / (out + "/model.safetensors")));
  const Ended ended = run_ranks(2, "train_shakespeare", {"--out", shop / out, "--resume"});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(read_bytes(shop / (out + "/model.safetensors")) == read_bytes(shop / (whole + "/model.safetensors")));
  CHECK(results_in(shop / out) == results_in(shop / whole));
  return stopped;
}

bool has_pending_sigterm(pid_t process) {
  const std::string field = "ShdPnd:";  // signals to the process, in hexadecimal
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field))
      return (std::stoull(line.substr(field.size()), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
  }
  return false;
}

/// Ctrl-C to the launcher. Open MPI's sends SIGCONT to the ranks at once and SIGTERM a second later. The ranks are
/// stopped until then, so that the run cannot end before.
void interrupt(pid_t launcher, const std::map<int, pid_t>& ranks) {
  ::kill(launcher, SIGINT);
  const Clock::time_point last = Clock::now() + kSoon;
  for (const auto& [rank, process] : ranks) {
    while (!is_gone(process) && !has_pending_sigterm(process) && Clock::now() < last) {
      for (const auto& [other, each] : ranks) ::kill(each, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  for (const auto& [rank, process] : ranks) ::kill(process, SIGCONT);
}

/// Restores the effect of SIGINT, which child processes would ignore if this process was started to ignore it.
class Heeding {
 public:
  Heeding() = default;
  ~Heeding() { std::signal(SIGINT, before_); }
  Heeding(const Heeding&) = delete;
  Heeding& operator=(const Heeding&) = delete;

 private:
  void (*before_)(int) = std::signal(SIGINT, SIG_DFL);
};

}  // namespace

TEST_CASE("ranks: one of them killed at random moments ends all, and other numbers go on to the same bits") {
  const Workshop shop;
  const auto command = [](int start, const Arguments& flags) {
    return std::pair{std::string(LINNET_MPIRUN), launch(start % 2 == 0 ? 4 : 2, "train_shakespeare", flags)};
  };
  const auto kill = [](ChildProgram& run, std::mt19937_64& random) {
    const std::map<int, pid_t> ranks = ranks_of(run.pid());
    if (ranks.empty()) {  // before they start, or when they have ended
      (void)run.wait();
      return false;
    }
    const auto which = static_cast<ptrdiff_t>(random() % ranks.size());
    ::kill(std::next(ranks.begin(), which)->second, SIGKILL);
    const Ended ended = end_soon(run, ranks);
    const bool under_way = ended.code != 0;
    CAPTURE(ended.err);
    if (under_way) CHECK(contains(ended.out + ended.err, "signal 9"));
    return under_way;
  };
  const int kills = wanted_kills(3);
  const Arguments flags =
      shop.tiny("run") +
      Arguments{"--batch",      "8",  "--shards",           "8", "--dropout", "0.1",
                "--eval-every", "40", "--checkpoint-every", "7", "--steps",   std::to_string(100 * kills)};
  const uint64_t seed = kill_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  CHECK(check_killed(shop / "", {"train_shakespeare", flags, "", command, kill}, kills, random) > 0);
}

TEST_CASE("ranks: SIGTERM to one of them, or Ctrl-C to their launcher, ends all, and the run goes on") {
  const Workshop shop;
  const Ended one = check_stopped(shop, "one", [](pid_t, const auto& ranks) { ::kill(ranks.at(2), SIGTERM); });
  CHECK(one.code != 0);
  CHECK(contains(one.err, "go on with: "));
  const Heeding heeding;
  check_stopped(shop, "all", interrupt);
}

TEST_CASE("ranks: a full disk of rank 0 ends all with its message, and the run goes on") {
  const Workshop shop;
  const auto fill = [](pid_t, const std::map<int, pid_t>& ranks) {
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    REQUIRE(::prlimit(ranks.at(0), RLIMIT_FSIZE, &limit, nullptr) == 0);
  };
  const Ended ended = check_stopped(shop, "full", fill);
  CHECK(ended.code != 0);
  CHECK(contains(ended.err, "File too large; "));
  CHECK(contains(ended.err, "; then go on with: "));
}
