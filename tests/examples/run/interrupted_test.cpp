/// Runs that are interrupted or killed, or whose disk is full. Resumed, they must write the same as uninterrupted
/// runs.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

/// Runs the command that an interrupted program printed to resume it.
Ended go_on(const Ended& interrupted) {
  const std::string mark = "go on with: ";
  const size_t begin = interrupted.err.find(mark);
  REQUIRE(begin != std::string::npos);
  return run_program("/bin/sh", {"-c", interrupted.err.substr(begin + mark.size())});
}

/// Waits until a file of the run has at least this many lines.
void wait_for_lines(ChildProgram& run, const std::filesystem::path& path, std::ptrdiff_t lines) {
  while (run.running() && (!std::filesystem::exists(path) || std::ranges::count(read_bytes(path), '\n') < lines)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// A program that obeys Ctrl-C even if this process ignores it, for example in the background of a script: child
/// processes would inherit that.
ChildProgram start_interruptible(const std::string& program, const Arguments& flags) {
  struct Heeding {
    Heeding() = default;
    ~Heeding() { std::signal(SIGINT, before); }
    void (*before)(int) = std::signal(SIGINT, SIG_DFL);
  };
  const Heeding heeding;
  return {program, flags};
}

/// Interrupts a run in its middle, resumes it, and compares its files with those of an uninterrupted run.
void check_resume(const std::string& program, const Workshop& shop, const Arguments& flags, int signal = SIGINT) {
  check_done(program, run_program(program, flags + Arguments{"--out", shop / "whole"}));
  {
    ChildProgram run = start_interruptible(program, flags + Arguments{"--out", shop / "parts"});
    wait_for_lines(run, shop / "parts/metrics.jsonl", 3);
    run.interrupt(signal);
    const Ended ended = run.wait();
    CHECK(ended.code == 130);
    CHECK(contains(ended.err, "\nstopping after this step; a second interrupt ends it at once\n"));
    CHECK(std::filesystem::exists(shop / "parts/checkpoint.safetensors"));
    CHECK_FALSE(std::filesystem::exists(shop / "parts/model.safetensors"));
    check_done(program, go_on(ended));
  }
  CHECK(read_bytes(shop / "parts/model.safetensors") == read_bytes(shop / "whole/model.safetensors"));
  CHECK(read_bytes(shop / "parts/checkpoint.safetensors") == read_bytes(shop / "whole/checkpoint.safetensors"));

  const auto whole = metrics_of(shop / "whole"), parts = metrics_of(shop / "parts");
  CHECK(read_bytes(shop / "whole/train_loss.csv") == read_bytes(shop / "parts/train_loss.csv"));
  REQUIRE(whole.size() == parts.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(whole[i]["step"] == parts[i]["step"]);
    CHECK(whole[i]["val_loss"] == parts[i]["val_loss"]);
    CHECK(whole[i]["train_loss"] == parts[i]["train_loss"]);
  }
}

}  // namespace

TEST_CASE("a run that was interrupted and resumed is the uninterrupted one, to the bit") {
  for (const std::string& attention : kMechanisms) {
    CAPTURE(attention);
    const Workshop shop;
    const Arguments flags{"--attention", attention,   "--steps", "800",          "--accumulate",
                          "2",           "--dropout", "0.1",     "--eval-every", "50"};
    // New features are drawn in the middle of both parts, and not at the end of the first.
    const Arguments redraw = attention == "performer" ? Arguments{"--performer-redraw", "3"} : Arguments{};
    check_resume("train_shakespeare", shop, shop.tiny("run") + flags + redraw);
  }
}

TEST_CASE("interrupted and resumed: the same for images, past the end of an epoch") {
  if (stand_in_hidden("mnist")) return;
  for (const Arguments& attention : {Arguments{},
                                     {"--attention", "linformer"},
                                     {"--attention", "informer", "--informer-queries", "5"},
                                     {"--attention", "bigbird", "--block", "1"}}) {
    const Workshop shop;
    const Arguments flags{"--positions", "sinusoidal", "--steps",      "60", "--batch",   "250", "--accumulate", "2",
                          "--patch",     "7",          "--eval-every", "5",  "--dropout", "0.1"};
    check_resume("train_mnist", shop, shop.tiny_images("run") + flags + attention);
  }
}

TEST_CASE("SIGTERM is taken as Ctrl-C is") {
  const Workshop shop;
  check_resume("train_shakespeare", shop, shop.tiny("run") + Arguments{"--steps", "400", "--eval-every", "50"},
               SIGTERM);
}

TEST_CASE("interrupted: the command that goes on is whole, whatever the folder's name") {
  const Workshop shop;
  const Arguments flags{"--steps", "100000", "--eval-every", "50", "--resume=false", "--out", shop / "x --resume y"};
  ChildProgram run = start_interruptible("train_shakespeare", shop.tiny("run") + flags);
  wait_for_lines(run, shop / "x --resume y/metrics.jsonl", 3);
  run.interrupt();
  const Ended ended = run.wait();
  REQUIRE(ended.code == 130);
  CHECK(ended.err.ends_with(" --out '" + (shop / "x --resume y").string() + "' --resume\n"));
}

TEST_CASE("a run whose disk is full says how to go on, which it then does") {
  const Workshop shop;
  const Arguments flags{"--steps", "2000", "--eval-every", "1", "--eval-batches", "1"};
  const std::string program = std::filesystem::path(LINNET_BIN_DIR) / "train_shakespeare";
  // No file can grow beyond 100 KiB, and metrics.jsonl would: it has 512 lines of 200 bytes and more.
  const Arguments limited{"-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh", program};
  const Ended ended = run_program("/bin/sh", limited + (shop.tiny("run") + flags));
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "metrics.jsonl': File too large; "));
  check_done(go_on(ended));
}

TEST_CASE("--profile interrupted: the command that goes on leaves it out where it has too few steps left") {
  const Workshop shop;
  const Arguments slow{"--steps", "25", "--eval-every", "1", "--eval-batches", "300", "--profile"};
  ChildProgram run = start_interruptible("train_shakespeare", shop.tiny("run") + slow);
  wait_for_lines(run, shop / "run/metrics.jsonl", 8);
  run.interrupt();
  const Ended ended = run.wait();
  REQUIRE(ended.code == 130);
  check_done(go_on(ended));
  CHECK(std::filesystem::exists(shop / "run/loss.png"));
}

TEST_CASE("a signal that is ignored where a program is started stays ignored") {
  const Workshop shop;
  const Arguments flags = shop.tiny("run") + Arguments{"--steps", "400", "--eval-every", "50"};
  const std::string program = std::filesystem::path(LINNET_BIN_DIR) / "train_shakespeare";
  for (const auto& [name, signal] : {std::pair{"INT", SIGINT}, std::pair{"TERM", SIGTERM}}) {
    CAPTURE(name);
    const Arguments out{"--out", shop / name};
    ChildProgram run("/bin/sh", Arguments{"-c", "trap '' \"$0\"; exec \"$@\"", name, program} + (flags + out));
    wait_for_lines(run, shop / name / "metrics.jsonl", 3);
    run.interrupt(signal);
    check_done(run.wait());
    CHECK(std::filesystem::exists(shop / name / "model.safetensors"));
  }
}

TEST_CASE("a run that was killed before it had begun leaves a folder that another one begins in") {
  const Workshop shop;
  check_done(run_program("train_shakespeare", shop.tiny("run")));
  const std::string model = read_bytes(shop / "run/model.safetensors");
  Safetensors first = read_safetensors(shop / "run/checkpoint.safetensors");
  first.metadata["step"] = "0";
  for (const std::string& name : names_in(shop / "run")) std::filesystem::remove(shop / "run" / name);
  write_bytes(shop / "run/.checkpoint.safetensors.tmp", "half a checkp");
  write_safetensors(shop / "run/checkpoint.safetensors", first);
  write_bytes(shop / "run/metrics.jsonl", "");
  write_bytes(shop / "run/.config.json.tmp", "{");
  check_done(run_program("train_shakespeare", shop.tiny("run")));
  CHECK(metrics_of(shop / "run").size() == 3);
  CHECK(read_bytes(shop / "run/model.safetensors") == model);
  CHECK(names_in(shop / "run").size() == 8);
}

TEST_CASE("a run under way: no other one may go on with it, or begin in its folder") {
  const Workshop shop;
  const std::string says = "a run is under way in --out ";
  const auto refused = [&](const std::string& program, const Arguments& flags) {
    CAPTURE(program);
    const Ended ended = run_program(program, flags);
    CAPTURE(ended.err);
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, says));
    CHECK(contains(ended.err, "; wait for it or end it, or choose another folder\n"));
    CHECK(std::ranges::count(ended.err, '\n') == 1);
  };
  const Arguments flags = shop.tiny("all/fastmax2") + Arguments{"--attention", "fastmax2", "--steps", "1000000"};
  const Arguments resume{"--resume", "--out", shop / "all/fastmax2", "--data", shop / "data"};
  {
    ChildProgram run = start_interruptible("train_shakespeare", flags);
    wait_for_lines(run, shop / "all/fastmax2/metrics.jsonl", 1);
    refused("train_shakespeare", flags);
    refused("train_shakespeare", resume);
    refused("compare", shop.tiny("all") + Arguments{"--steps", "1000000", "--resume"});
    CHECK_FALSE(std::filesystem::exists(shop / "all/softmax"));  // seen before the first mechanism trained
    run.interrupt();
    CHECK(run.wait().code == 130);
  }
  // If two resume at once, only one can.
  ChildProgram one("train_shakespeare", resume), other("train_shakespeare", resume);
  while (one.running() && other.running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ChildProgram& second = one.running() ? other : one;
  CHECK((one.running() || other.running()));
  one.kill();
  other.kill();
  const Ended ended = second.wait();
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, says));
}

TEST_CASE("compare, killed, goes on from its last checkpoint") {
  const Workshop shop;
  const Arguments flags =
      shop.tiny("all") +
      Arguments{"--attention", "softmax", "--steps", "800", "--eval-every", "50", "--checkpoint-every", "10"};
  ChildProgram run("compare", flags);
  wait_for_lines(run, shop / "all/softmax/metrics.jsonl", 3);
  run.kill();
  (void)run.wait();
  const auto checkpoint = read_safetensors(shop / "all/softmax/checkpoint.safetensors");
  CHECK(std::stoll(checkpoint.metadata.at("step")) >= 90);
  check_done(run_program("compare", flags + Arguments{"--resume"}));
  CHECK(metrics_of(shop / "all/softmax").size() == 17);
}

TEST_CASE("compare, interrupted and resumed, trains what is left, and no run again that had ended") {
  const Workshop shop;
  // The folder's name has a space, which the printed command must quote.
  const Arguments flags =
      shop.tiny("my runs") + Arguments{"--attention", "softmax,fastformer", "--steps", "800", "--eval-every", "50"};
  ChildProgram run = start_interruptible("compare", flags);
  while (run.running() && !std::filesystem::exists(shop / "my runs/fastformer/metrics.jsonl")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  run.interrupt();
  const Ended ended = run.wait();
  CHECK(ended.code == 130);
  const std::string first = read_bytes(shop / "my runs/softmax/model.safetensors");
  const size_t steps = metrics_of(shop / "my runs/softmax").size();

  const Ended resumed = go_on(ended);
  check_done(resumed);
  CHECK(contains(resumed.out,
                 Workshop::kTextName +
                     ", preset nanogpt-cpu, batch 4, context 16, heads 2, layers 1, width 16, 800 steps, seed 1337"));
  CHECK_FALSE(contains(resumed.out, "  0.0  "));  // milliseconds a step, when no step was left
  CHECK(read_bytes(shop / "my runs/softmax/model.safetensors") == first);
  CHECK(metrics_of(shop / "my runs/softmax").size() == steps);
  CHECK(std::filesystem::exists(shop / "my runs/fastformer/model.safetensors"));
  CHECK(Picture(shop / "my runs/compare.png").width() > 1000);

  const Ended other = run_program("compare", flags + Arguments{"--resume", "--width", "32"});
  CHECK(other.code == 2);
  CHECK(contains(other.err, "my runs/softmax has width 16, not 32; give the flags that it began with"));
}

TEST_CASE("own_attention compare, interrupted, names a command that goes on") {
  const Workshop shop;
  const Arguments flags =
      shop.tiny("all") + Arguments{"--attention", "decay", "--steps", "800", "--eval-every", "50"};
  ChildProgram run = start_interruptible("own_attention", Arguments{"compare"} + flags);
  wait_for_lines(run, shop / "all/decay/metrics.jsonl", 3);
  run.interrupt();
  const Ended ended = run.wait();
  REQUIRE(ended.code == 130);
  check_done(go_on(ended));
  CHECK(std::filesystem::exists(shop / "all/decay/model.safetensors"));
}
