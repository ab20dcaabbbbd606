/// Trainers under mpirun: any number of processes gives the bits of one. Also wrong ways to start them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <linnet/core/distributed.h>

#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/every_program.h"
#include "tests/examples/run/kills.h"
#include "tests/examples/run/ranks.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

/// With $LINNET_RANKS set, runs are longer and have more ranks.
bool whole() { return std::getenv("LINNET_RANKS") != nullptr; }
std::vector<int> counts_of_ranks(int few) { return whole() ? std::vector{2, 4, 8} : std::vector{few}; }
Arguments steps(const std::string& few) { return {"--steps", whole() ? "50" : few}; }

const Arguments kShard{"--shard-optimizer"};

/// The size of a process's part of the optimizer's state in a run's output, as a number without its unit.
double optimizer_state_of(const Ended& ended) {
  const std::string before = "optimizer state        at most ";
  const size_t at = ended.out.find(before);
  REQUIRE(at != std::string::npos);
  return std::stod(ended.out.substr(at + before.size()));
}

/// Checks that two runs have the same model, losses and results of evaluations, bit for bit.
void check_same(const fs::path& run, const fs::path& expected) {
  for (const char* const name : {"model.safetensors", "train_loss.csv"}) {
    CHECK(read_bytes(run / name) == read_bytes(expected / name));
  }
  CHECK(results_in(run) == results_in(expected));
  const auto figures = [](const fs::path& folder) {
    nlohmann::json results = nlohmann::json::parse(read_bytes(folder / "results.json"));
    for (const char* const name : {"ms_per_step", "peak_bytes", "processes"}) results.erase(name);
    return results;
  };
  CHECK(figures(run) == figures(expected));
}

}  // namespace

TEST_CASE("ranks: 1, 2 and 4 processes make the same model") {
  const Workshop shop;
  check_done("train_shakespeare", run_program("train_shakespeare", sharded(shop, "1")));
  for (const int count : {2, 4}) {
    const std::string out = std::to_string(count);
    ::setenv("TERM", "xterm", 1);
    const Ended ended = run_ranks(count, "train_shakespeare", sharded(shop, out));
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    CHECK(ended.out.find("validation, all") == ended.out.rfind("validation, all"));  // only rank 0 prints
    CHECK(ended.out.find('\x1b') == std::string::npos);  // and does not redraw lines in a file
    check_same(shop / out, shop / "1");
  }
}

TEST_CASE("ranks: every mechanism is the same to the bit, causal or not") {
  const Workshop shop;
  const EveryProgram every;
  const auto check = [&](const std::string& task, int few, const Arguments& flags) {
    const auto all = [&](const std::string& out) {
      return flags + Arguments{"--task", task, "--attention", "all", "--shards", "8", "--out", shop / (task + out)};
    };
    check_done(run_program("compare", all("1")));
    for (const int count : counts_of_ranks(few)) {
      CAPTURE(count);
      const std::string out = std::to_string(count);
      const Ended ended = run_ranks(count, "compare", all(out));
      CAPTURE(ended.err);
      REQUIRE(ended.code == 0);
      int mechanisms = 0;
      for (const fs::directory_entry& entry : fs::directory_iterator(shop / (task + "1"))) {
        if (!entry.is_directory()) continue;
        const std::string name = entry.path().filename();
        CAPTURE(name);
        check_same(shop / (task + out + "/" + name), entry.path());
        ++mechanisms;
      }
      CHECK(mechanisms >= 8);
    }
  };
  const Arguments dropout{"--dropout", "0.1", "--attention-dropout", "0.1", "--performer-redraw", "2"};
  check("shakespeare", 4, shop.tiny("x") + Arguments{"--batch", "8", "--accumulate", "2"} + dropout + steps("3"));
  check("own-texts", 2, every.flags("classify", "x") + Arguments{"--context", "32"} + dropout + steps("3"));
}

TEST_CASE("ranks: every program is the same to the bit") {
  const EveryProgram every;
  for (const std::string program : {"train_mnist", "lra", "classify", "summarise"}) {
    CAPTURE(program);
    REQUIRE(run_program(program, every.flags(program, program + "1") + steps("4")).code == 0);
    for (const int count : counts_of_ranks(program == "classify" ? 4 : 2)) {
      CAPTURE(count);
      const std::string out = program + std::to_string(count);
      const Ended ended = run_ranks(count, program, every.flags(program, out) + steps("4"));
      CAPTURE(ended.err);
      REQUIRE(ended.code == 0);
      check_same(every / out, every / (program + "1"));
    }
  }
}

TEST_CASE("ranks: ablations divide each batch, and only one process prints and draws") {
  const Workshop shop;
  const auto flags = [&](const std::string& out) {
    return sharded(shop, out) + Arguments{"--steps", "2", "--seeds", "1", "interaction"};
  };
  const auto table = [](const Ended& ended) {
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    const size_t begin = ended.out.find("interaction  parameters");  // up to the line that names the folder
    CHECK(ended.out.rfind("interaction  parameters") == begin);
    return ended.out.substr(begin, ended.out.find('/', begin) - begin);
  };
  CHECK(table(run_ranks(2, "ablations", flags("two"))) == table(run_program("ablations", flags("one"))));
  check_same(shop / "two/interaction/product-1337", shop / "one/interaction/product-1337");
}

TEST_CASE("ranks: a profile has the time in MPI, and results.json what a step waits for and sends") {
  const Workshop shop;
  const Ended ended =
      run_ranks(2, "train_shakespeare", sharded(shop, "out") + Arguments{"--steps", "20", "--profile"});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(read_bytes(shop / "out/profile.txt").find("messages") != std::string::npos);
  const std::string trace = read_bytes(shop / "out/trace.json");
  CHECK(trace.find("MPI_Isend") != std::string::npos);
  CHECK(trace.find("MPI_Waitall") != std::string::npos);
  const auto results = nlohmann::json::parse(read_bytes(shop / "out/results.json"));
  const nlohmann::json processes = results.at("processes");
  CHECK(processes.at("count") == 2);
  CHECK(processes.at("waited_ms_per_step").get<double>() > 0);
  // 2 (R - 1) / R of the parameters, and some bytes for the loss and for which parameters have a gradient.
  const double sent = processes.at("sent_bytes_per_step"), least = 4 * results.at("parameters").get<double>();
  CHECK(sent >= least);
  CHECK(sent < least + 1000);
}

TEST_CASE("ranks: a finished run that is resumed keeps what its steps measured") {
  const Workshop shop;
  REQUIRE(run_ranks(2, "train_shakespeare", sharded(shop, "out") + Arguments{"--steps", "3"}).code == 0);
  const auto measured = [&] {
    const auto results = nlohmann::json::parse(read_bytes(shop / "out/results.json"));
    return std::pair(results.at("ms_per_step"), results.at("processes"));
  };
  const auto before = measured();
  REQUIRE(run_program("train_shakespeare", {"--resume", "--out", shop / "out"}).code == 0);
  CHECK(measured() == before);
}

TEST_CASE("ranks: with --reduce any-order MPI does not tell how many bytes it sends") {
  const Workshop shop;
  const Ended ended =
      run_ranks(2, "train_shakespeare", sharded(shop, "out") + Arguments{"--steps", "3", "--reduce", "any-order"});
  REQUIRE(ended.code == 0);
  CHECK(ended.out.find("ms for others\n") != std::string::npos);
  const auto processes = nlohmann::json::parse(read_bytes(shop / "out/results.json")).at("processes");
  CHECK(processes.at("count") == 2);
  CHECK_FALSE(processes.contains("sent_bytes_per_step"));
}

TEST_CASE(
    "ranks: a launcher of another MPI than the program's is an error, and no runs that know nothing of others") {
  const Workshop shop;
  const bool is_mpich = describe_mpi().find("mpich") != std::string::npos;
  const std::string others = is_mpich ? "OMPI_COMM_WORLD_SIZE=2" : "PMI_SIZE=2";
  const Arguments command{others, fs::path(LINNET_BIN_DIR) / "train_shakespeare"};
  const Ended ended = run_program("/usr/bin/env", command + sharded(shop, "out"));
  check_fails(ended, "a launcher of MPI started 2 processes, but ");
  CHECK_FALSE(fs::exists(shop / "out"));
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
    ::kill(ranks_of(run.pid()).rbegin()->second, signal);
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
  write_bytes(shop / "out/model.safetensors", "of another");
  says(run_ranks(2, "train_shakespeare", sharded(shop, "out")), 1, "which a run there would replace");
  shop.set_text("");  // all this is known before it is read
  for (const std::string program : {"train_shakespeare", "compare"}) {
    says(run_ranks(2, program, sharded(shop, "other") + Arguments{"--shards", "1"}), 2,
         "--shards 1: 2 processes do not divide it; start at most 1");
  }
}
