/// Trainers under mpirun: the bits of one process for any number of them, and how they end together.

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
namespace fs = std::filesystem;

namespace {

const std::string kBin = LINNET_BIN_DIR;

/// The arguments of mpirun, which may have more processes than processors, and be run by root in a container.
Arguments launch(int count, const std::string& program, const Arguments& flags) {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  return Arguments{"-np", std::to_string(count), kBin + "/" + program} + flags;
}

Ended run_ranks(int count, const std::string& program, const Arguments& flags) {
  return run_program(LINNET_MPIRUN, launch(count, program, flags));
}

/// Flags of a run with everything that could depend on ranks: dropout, micro-batches, clipping.
Arguments sharded(const Workshop& shop, const std::string& out) {
  return shop.tiny(out) + Arguments{"--batch", "8", "--shards", "8", "--dropout", "0.1", "--accumulate", "2"};
}

/// The processes that `parent` started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::ifstream file("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

const Arguments kShard{"--shard-optimizer"};

/// What a run says that a process has of the optimizer's state, as a number without its unit.
double optimizer_state_of(const Ended& ended) {
  const std::string before = "optimizer state        at most ";
  const size_t at = ended.out.find(before);
  REQUIRE(at != std::string::npos);
  return std::stod(ended.out.substr(at + before.size()));
}

/// Waits until the run's checkpoint is of a later step than its first.
void wait_for_progress(ChildProgram& run, const fs::path& folder) {
  const auto steps = [&] {
    if (!fs::exists(folder / "config.json")) return 0L;
    return std::stol(read_safetensors(folder / "checkpoint.safetensors").metadata.at("step"));
  };
  while (run.running() && steps() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

TEST_CASE("ranks: 1, 2 and 4 processes make the same model") {
  const Workshop shop;
  check_done("train_shakespeare", run_program("train_shakespeare", sharded(shop, "1")));
  const std::string expected = read_bytes(shop / "1/model.safetensors");
  for (const int count : {2, 4}) {
    const std::string out = std::to_string(count);
    const Ended ended = run_ranks(count, "train_shakespeare", sharded(shop, out));
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    CHECK(ended.out.find("validation, all") == ended.out.rfind("validation, all"));  // rank 0 alone prints
    CHECK(read_bytes(shop / (out + "/model.safetensors")) == expected);
    CHECK(read_bytes(shop / (out + "/train_loss.csv")) == read_bytes(shop / "1/train_loss.csv"));
  }
}

TEST_CASE("ranks: every causal mechanism is the same to the bit with 4 processes") {
  const Workshop shop;
  const auto flags = [&](const std::string& out) {
    return sharded(shop, out) + Arguments{"--attention", "all", "--attention-dropout", "0.1", "--steps", "3"};
  };
  check_done("compare", run_program("compare", Arguments{"--task", "shakespeare"} + flags("1")));
  const Ended ended = run_ranks(4, "compare", Arguments{"--task", "shakespeare"} + flags("4"));
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  int mechanisms = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(shop / "1")) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    CAPTURE(name);
    CHECK(read_bytes(shop / ("4/" + name + "/model.safetensors")) == read_bytes(entry.path() / "model.safetensors"));
    ++mechanisms;
  }
  CHECK(mechanisms >= 8);
}

TEST_CASE("ranks: after SIGKILL or SIGTERM of one, another number goes on to the same bits") {
  const Workshop shop;
  const Arguments longer{"--steps", "200", "--checkpoint-every", "10"};
  check_done("train_shakespeare", run_program("train_shakespeare", sharded(shop, "whole") + longer));
  const std::string expected = read_bytes(shop / "whole/model.safetensors");
  for (const int signal : {SIGKILL, SIGTERM}) {
    CAPTURE(signal);
    const std::string out = "run" + std::to_string(signal);
    {
      ChildProgram run(LINNET_MPIRUN, launch(4, "train_shakespeare", sharded(shop, out) + longer));
      wait_for_progress(run, shop / out);
      const std::vector<pid_t> ranks = children_of(run.pid());
      REQUIRE(ranks.size() == 4);
      const auto begin = std::chrono::steady_clock::now();
      ::kill(ranks[2], signal);
      const Ended ended = run.wait();
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
      CHECK(ended.code != 0);
      CHECK(ended.err.find(signal == SIGTERM ? "go on with: " : "signal 9") != std::string::npos);
    }
    REQUIRE_FALSE(fs::exists(shop / (out + "/model.safetensors")));
    const Ended ended = run_ranks(2, "train_shakespeare", {"--out", shop / out, "--resume"});
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    CHECK(read_bytes(shop / (out + "/model.safetensors")) == expected);
  }
}

TEST_CASE(
    "ranks: --shard-optimizer divides the optimizer's state, and changes no bit of the model or the checkpoint") {
  const Workshop shop;
  check_done("train_shakespeare", run_program("train_shakespeare", sharded(shop, "alone") + kShard));
  check_done("train_shakespeare", run_program("train_shakespeare", sharded(shop, "1")));
  const auto files_of = [&](const std::string& out) {
    return read_bytes(shop / (out + "/model.safetensors")) + read_bytes(shop / (out + "/checkpoint.safetensors"));
  };
  const std::string expected = files_of("1");
  CHECK(files_of("alone") == expected);
  double whole = 0;
  for (const int count : {2, 4}) {
    for (const bool divides : {false, true}) {
      const std::string out = std::to_string(count) + (divides ? "-shard" : "");
      const Ended ended =
          run_ranks(count, "train_shakespeare", sharded(shop, out) + (divides ? kShard : Arguments{}));
      CAPTURE(ended.err);
      REQUIRE(ended.code == 0);
      CHECK(files_of(out) == expected);
      const double state = optimizer_state_of(ended);
      if (!divides) whole = state;
      CHECK((divides ? state < 1.3 * whole / count : state == whole));
    }
  }
}

TEST_CASE("ranks: a run with --shard-optimizer goes on with any number of processes, and without it") {
  const Workshop shop;
  const Arguments longer{"--steps", "200", "--checkpoint-every", "10"};
  check_done("train_shakespeare", run_program("train_shakespeare", sharded(shop, "whole") + longer));
  const std::string expected = read_bytes(shop / "whole/model.safetensors");
  const auto stop = [&](int count, const std::string& out, const Arguments& flags, int signal) {
    ChildProgram run(LINNET_MPIRUN, launch(count, "train_shakespeare", sharded(shop, out) + longer + flags));
    wait_for_progress(run, shop / out);
    ::kill(children_of(run.pid()).back(), signal);
    CHECK(run.wait().code != 0);
    REQUIRE_FALSE(fs::exists(shop / (out + "/model.safetensors")));
  };
  const auto check_goes_on = [&](int count, const std::string& out, const Arguments& flags) {
    const Ended ended = run_ranks(count, "train_shakespeare", Arguments{"--out", shop / out, "--resume"} + flags);
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    CHECK(read_bytes(shop / (out + "/model.safetensors")) == expected);
  };
  stop(4, "fewer", kShard, SIGKILL);
  check_goes_on(2, "fewer", kShard);
  stop(2, "without", kShard, SIGTERM);
  check_goes_on(1, "without", {});
  stop(2, "more", {}, SIGKILL);
  check_goes_on(4, "more", kShard);
}

TEST_CASE("ranks: bad starts end all of them, with the reason") {
  const Workshop shop;
  const auto two = [&](const Arguments& first, const Arguments& second) {
    Arguments all = launch(1, "train_shakespeare", sharded(shop, "out") + first);
    for (const std::string& word : Arguments{":"} + launch(1, "train_shakespeare", sharded(shop, "out") + second)) {
      all.push_back(word);
    }
    return run_program(LINNET_MPIRUN, all);
  };
  const auto says = [](const Ended& ended, int code, const std::string& text) {
    CAPTURE(ended.err);
    CHECK(ended.code == code);
    const size_t at = ended.err.find(text);
    CHECK(at != std::string::npos);
    CHECK(ended.err.find(text, at + 1) == std::string::npos);  // once
  };
  says(two({"--lr", "0.001"}, {"--lr", "0.002"}), 1,
       "rank 1 has lr 0.002, and rank 0 has 0.001; start all ranks with");
  says(two({}, {"--shard-optimizer"}), 1, "rank 1 has shard_optimizer true, and rank 0 has false");
  says(two({}, {"--data", "/nonexistent"}), 1, "rank 1: ");
  says(run_ranks(4, "train_shakespeare", sharded(shop, "out") + Arguments{"--shards", "2"}), 2,
       "--shards 2: 4 processes do not divide it; start at most 2, or take more shards, such as 4");
  says(run_ranks(2, "train_shakespeare", sharded(shop, "out") + Arguments{"--lr", "fast"}), 2, "--lr");
  CHECK_FALSE(fs::exists(shop / "out/config.json"));
  fs::create_directories(shop / "out");
  linnet::test::write_bytes(shop / "out/model.safetensors", "of another");
  says(run_ranks(2, "train_shakespeare", sharded(shop, "out")), 1, "which a run there would replace");
}
