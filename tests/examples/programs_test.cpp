/// What the programs write, and that it depends on the seed alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

const Arguments kMechanisms{"softmax", "fastmax1", "fastmax2", "fastformer"};

/// A data set in data/ beside the project would be found: then there is no stand-in to test, and a line says so.
bool stand_in_hidden(const std::string& data_set) {
  if (!std::filesystem::exists(std::filesystem::path(LINNET_SOURCE_DIR) / "data" / data_set)) return false;
  std::printf("SKIPPED: data/%s takes the stand-in's place\n", data_set.c_str());
  return true;
}

void check_done(const Ended& ended) {
  CHECK(ended.code == 0);
  CHECK(ended.err == "");
}

/// Where there is no data, of which one line on stderr tells.
void check_done_with(const std::string& stand_in, const Ended& ended) {
  CHECK(ended.code == 0);
  CHECK(ended.err.ends_with("taking " + stand_in + " instead\n"));
  CHECK(std::ranges::count(ended.err, '\n') == 1);
}

/// The same for a program that finds its text, but no digits.
void check_done(const std::string& program, const Ended& ended) {
  program == "train_mnist" ? check_done_with("drawn digits", ended) : check_done(ended);
}

std::vector<nlohmann::json> metrics_of(const std::filesystem::path& folder) {
  std::istringstream lines(read_bytes(folder / "metrics.jsonl"));
  std::vector<nlohmann::json> metrics;
  for (std::string line; std::getline(lines, line);) metrics.push_back(nlohmann::json::parse(line));
  return metrics;
}

/// Does what a program that was interrupted says: runs the command that goes on with it.
Ended go_on(const Ended& interrupted) {
  const std::string mark = "go on with: ";
  const size_t begin = interrupted.err.find(mark);
  REQUIRE(begin != std::string::npos);
  return run_program("/bin/sh", {"-c", interrupted.err.substr(begin + mark.size())});
}

/// Waits until a file of the run has so many lines.
void wait_for_lines(ChildProgram& run, const std::filesystem::path& path, std::ptrdiff_t lines) {
  while (run.running() && (!std::filesystem::exists(path) || std::ranges::count(read_bytes(path), '\n') < lines)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// A program that heeds Ctrl-C, even where this process was started to ignore it, in the background of a script for
/// example: programs keep that.
ChildProgram start_interruptible(const std::string& program, const Arguments& flags) {
  struct Heeding {
    Heeding() = default;
    ~Heeding() { std::signal(SIGINT, before); }
    void (*before)(int) = std::signal(SIGINT, SIG_DFL);
  };
  const Heeding heeding;
  return {program, flags};
}

/// Interrupts a run in its middle, goes on with it, and expects what an uninterrupted one wrote.
void check_resume(const std::string& program, const Workshop& shop, const Arguments& flags, int signal = SIGINT) {
  check_done(program, run_program(program, flags + Arguments{"--out", shop / "whole"}));
  {
    ChildProgram run = start_interruptible(program, flags + Arguments{"--out", shop / "parts"});
    wait_for_lines(run, shop / "parts/metrics.jsonl", 3);
    run.interrupt(signal);
    const Ended ended = run.wait();
    CHECK(ended.code == 130);
    CHECK(contains(ended.err, "\nstopping after this step, with a checkpoint; a second interrupt ends it at once\n"));
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

/// That the weights after 50 steps are the same on any number of threads.
void check_threads(const std::string& program, const Arguments& flags) {
  for (const std::string& attention : kMechanisms) {
    CAPTURE(attention);
    // Wide enough for work to be divided among threads.
    const Arguments wide{"--attention", attention,      "--steps", "50",        "--width",
                         "64",          "--eval-every", "50",      "--dropout", "0.1"};
    const linnet::test::TemporaryFolder folder;
    const auto model = [&](const std::string& threads) {
      const Arguments run = flags + wide + Arguments{"--out", folder / threads, "--threads", threads};
      check_done(program, run_program(program, run));
      return read_bytes(folder / threads / "model.safetensors");
    };
    const std::string expected = model("1");
    CHECK(model("2") == expected);
    CHECK(model("4") == expected);
  }
}

}  // namespace

TEST_CASE("train_shakespeare writes all that an output folder holds, and nothing else") {
  const Workshop shop;
  const Ended ended = run_program("train_shakespeare", shop.tiny("run") + Arguments{"--attention", "fastmax2"});
  check_done(ended);
  CHECK(contains(ended.out, "fastmax2 on " + Workshop::kTextName + ": 1 layers, 2 heads, width 16, 20 steps"));
  CHECK(names_in(shop / "run") == std::vector<std::string>{"checkpoint.safetensors", "config.json", "loss.png",
                                                           "metrics.jsonl", "model.safetensors", "samples.txt",
                                                           "train_loss.csv"});

  const auto config = nlohmann::json::parse(read_bytes(shop / "run/config.json"));
  CHECK(config["settings"]["attention"] == "fastmax2");
  CHECK(config["settings"]["steps"] == 20);
  CHECK(config["settings"]["seed"] == 1337);
  CHECK(config["data"] == Workshop::kTextName);
  CHECK(contains(config["build"], "OpenBLAS"));

  const auto metrics = metrics_of(shop / "run");
  REQUIRE(metrics.size() == 3);
  for (size_t i = 0; i < metrics.size(); ++i) {
    CHECK(metrics[i]["step"] == 10 * i);
    for (const char* name : {"val_loss", "lr", "seconds", "ms_per_step", "tokens_per_second", "peak_bytes"}) {
      CHECK(metrics[i].at(name).is_number());
    }
    CHECK(metrics[i].contains("train_loss"));
    CHECK(metrics[i].at("accuracy").is_null());
  }
  CHECK(metrics[2]["val_loss"] < metrics[0]["val_loss"]);
  const std::string losses = read_bytes(shop / "run/train_loss.csv");
  CHECK(losses.starts_with("step,loss\n1,"));
  CHECK(std::ranges::count(losses, '\n') == 21);
  CHECK(metrics[0]["seconds"] == 0);
  // Half of 20 steps took the median or longer.
  CHECK(1e3 * metrics[2]["seconds"].get<double>() >= 10 * metrics[2]["ms_per_step"].get<double>());
  CHECK(metrics[2]["lr"].get<double>() == doctest::Approx(1e-4));
  CHECK(metrics[2]["peak_bytes"] > 0);

  const Safetensors model = read_safetensors(shop / "run/model.safetensors");
  CHECK(model.tensors.at("tok.weight").shape()[1] == 16);
  CHECK(model.metadata.contains("vocabulary"));
  CHECK(Picture(shop / "run/loss.png").width() > 1000);
  CHECK(read_bytes(shop / "run/samples.txt").size() == 502);  // a new line, 500 characters, a new line
}

TEST_CASE("a training run whose output nobody reads any more goes on to its end") {
  const Workshop shop;
  std::string command = std::string(LINNET_BIN_DIR) + "/train_shakespeare";
  for (const std::string& flag : shop.tiny("run") + Arguments{"--steps", "400"}) command += " " + flag;
  const Ended ended = run_program("/bin/sh", {"-c", "{ " + command + "; echo $? >&2; } | head -n 1"});
  CHECK(ended.err == "0\n");
  CHECK(std::filesystem::exists(shop / "run/loss.png"));
}

TEST_CASE("train_mnist: the same for images, without a text") {
  const Workshop shop;
  if (stand_in_hidden("mnist")) return;
  const Ended ended = run_program("train_mnist", shop.tiny_images("run"));
  check_done_with("drawn digits", ended);
  CHECK(contains(ended.out, "accuracy"));
  CHECK(names_in(shop / "run") == std::vector<std::string>{"checkpoint.safetensors", "config.json", "loss.png",
                                                           "metrics.jsonl", "model.safetensors", "train_loss.csv"});
  CHECK(nlohmann::json::parse(read_bytes(shop / "run/config.json"))["data"] == "drawn digits (stand-in)");
  const auto metrics = metrics_of(shop / "run");
  REQUIRE(metrics.size() == 3);
  for (const auto& line : metrics) {
    CHECK(line["accuracy"] >= 0);
    CHECK(line["accuracy"] <= 1);
  }
}

TEST_CASE("without data the stand-in is used, and said so") {
  const Workshop shop;
  if (stand_in_hidden("tinyshakespeare")) return;
  Arguments flags = shop.tiny("run");
  flags.erase(flags.begin(), flags.begin() + 2);  // --data
  const Ended ended = run_program("train_shakespeare", flags);
  check_done_with("the sources of linnet", ended);
  CHECK(contains(ended.out, "softmax on linnet's own sources (stand-in)"));
  CHECK(nlohmann::json::parse(read_bytes(shop / "run/config.json"))["data"] == "linnet's own sources (stand-in)");
}

TEST_CASE("a run that was interrupted and resumed is the uninterrupted one, to the bit") {
  for (const std::string& attention : kMechanisms) {
    CAPTURE(attention);
    const Workshop shop;
    const Arguments flags{"--attention", attention,   "--steps", "800",          "--accumulate",
                          "2",           "--dropout", "0.1",     "--eval-every", "50"};
    check_resume("train_shakespeare", shop, shop.tiny("run") + flags);
  }
}

TEST_CASE("interrupted and resumed: the same for images, past the end of an epoch") {
  const Workshop shop;
  if (stand_in_hidden("mnist")) return;
  const Arguments flags{"--positions", "sinusoidal", "--steps",      "60", "--batch",   "250", "--accumulate", "2",
                        "--patch",     "7",          "--eval-every", "5",  "--dropout", "0.1"};
  check_resume("train_mnist", shop, shop.tiny_images("run") + flags);
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
  // No file may grow beyond 100 KiB, which metrics.jsonl would: 512 lines of 200 bytes and more.
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
  CHECK(names_in(shop / "run").size() == 7);
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
  // Of two that go on at once, one does.
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

TEST_CASE("train_shakespeare counts its steps in epochs where --epochs says so") {
  const Workshop shop;
  Arguments flags = shop.tiny("run") + Arguments{"--batch", "60", "--epochs", "2"};  // of 5,400 / (60 · 16) steps
  flags.erase(std::ranges::find(flags, "--steps"), std::ranges::find(flags, "--steps") + 2);
  const Ended warmup = run_program("train_shakespeare", flags);
  CHECK(warmup.code == 2);
  CHECK(contains(warmup.err, "--warmup 100 leaves nothing of the 10 steps of --epochs 2; make it shorter"));
  CHECK_FALSE(std::filesystem::exists(shop / "run"));
  check_done(run_program("train_shakespeare", flags + Arguments{"--warmup", "2"}));
  CHECK(metrics_of(shop / "run").back()["step"] == 10);
  const auto config = nlohmann::json::parse(read_bytes(shop / "run/config.json"));
  CHECK(config["settings"]["epochs"] == 2);
  CHECK(config["settings"]["steps"] == 0);
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
  // Its folder has a space, as the command that is printed must bear.
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
  CHECK_FALSE(contains(resumed.out, "  0.0  "));  // milliseconds a step, of a run that had none to make
  CHECK(read_bytes(shop / "my runs/softmax/model.safetensors") == first);
  CHECK(metrics_of(shop / "my runs/softmax").size() == steps);
  CHECK(std::filesystem::exists(shop / "my runs/fastformer/model.safetensors"));
  CHECK(Picture(shop / "my runs/compare.png").width() > 1000);

  const Ended other = run_program("compare", flags + Arguments{"--resume", "--width", "32"});
  CHECK(other.code == 2);
  CHECK(contains(other.err, "my runs/softmax has width 16, not 32; give the flags that it began with"));
}

TEST_CASE("the number of threads changes no bit in 50 steps, for any mechanism") {
  const Workshop shop;
  check_threads("train_shakespeare", shop.tiny("run") + Arguments{"--context", "64", "--batch", "12"});
}

TEST_CASE("the number of threads: the same for images") {
  const Workshop shop;
  if (stand_in_hidden("mnist")) return;
  check_threads("train_mnist", shop.tiny_images("run") + Arguments{"--patch", "4"});
}

TEST_CASE("sample goes on from a prompt; without temperature it is the same for every seed") {
  const Workshop shop;
  for (const std::string& attention : kMechanisms) {
    CAPTURE(attention);
    check_done(run_program("train_shakespeare", shop.tiny(attention) + Arguments{"--attention", attention}));
    const auto sample = [&](const Arguments& flags) {
      const Ended ended =
          run_program("sample", Arguments{shop / attention, "--prompt", "to be", "--tokens", "40"} + flags);
      check_done(ended);
      CHECK(ended.out.starts_with("to be"));
      CHECK(ended.out.size() == 5 + 40 + 1);
      return ended.out;
    };
    CHECK(sample({"--seed", "1"}) == sample({"--seed", "1"}));
    CHECK(sample({"--seed", "1"}) != sample({"--seed", "2"}));
    CHECK(sample({"--temperature", "0", "--seed", "1"}) == sample({"--temperature", "0", "--seed", "2"}));
    CHECK(sample({"--top-k", "1"}) == sample({"--temperature", "0"}));
  }
}

TEST_CASE("sample takes prompts longer than the context, and contexts of one character") {
  const Workshop shop;
  check_done(run_program("train_shakespeare", shop.tiny("run") + Arguments{"--context", "1"}));
  const std::string prompt = "to be, or not to be: that is the question.";
  for (const std::string& p : {prompt, prompt.substr(0, 1)}) {
    const Ended ended = run_program("sample", {shop / "run", "--prompt", p, "--tokens", "20"});
    check_done(ended);
    CHECK(ended.out.size() == p.size() + 21);
  }
}

TEST_CASE("sample writes on far past the context, with positions that have no end") {
  const Workshop shop;
  for (const std::string positions : {"none", "sinusoidal", "rotary"}) {
    CAPTURE(positions);
    check_done(run_program("train_shakespeare",
                           shop.tiny(positions) + Arguments{"--attention", "fastmax2", "--positions", positions}));
    const Ended ended = run_program("sample", {shop / positions, "--prompt", "to be", "--tokens", "1000"});
    check_done(ended);
    CHECK(ended.out.size() == 5 + 1000 + 1);
  }
}

TEST_CASE("sample writes characters as it makes them") {
  const Workshop shop;
  check_done(run_program("train_shakespeare", shop.tiny("run")));
  // Ten million take hours, which `head` does not wait for.
  const Ended ended = run_program("/bin/sh", {"-c", "\"$0\" \"$1\" --prompt 'to be' --tokens 10000000 | head -c 20",
                                              std::filesystem::path(LINNET_BIN_DIR) / "sample", shop / "run"});
  check_done(ended);
  CHECK(ended.out.starts_with("to be"));
  CHECK(ended.out.size() == 20);
}

TEST_CASE("compare prints one table, and a folder for each mechanism") {
  const Workshop shop;
  const Ended ended = run_program("compare", shop.tiny("all"));
  check_done(ended);
  for (const std::string& attention : kMechanisms) {
    CHECK(contains(ended.out, "\n" + attention));
    CHECK(std::filesystem::exists(shop / ("all/" + attention) / "model.safetensors"));
  }
  for (const char* column : {"attention", "val loss", "ms/step", "tokens/s", "parameters", "peak memory"}) {
    CHECK(contains(ended.out, column));
  }
  CHECK(contains(ended.out,
                 Workshop::kTextName +
                     ", preset nanogpt-cpu, batch 4, context 16, heads 2, layers 1, width 16, 20 steps, seed 1337"));
  CHECK(Picture(shop / "all/compare.png").width() > 1000);
  CHECK(Picture(shop / "all/compare-seconds.png").width() > 1000);
}

TEST_CASE("own_attention: a registered mechanism has its flag, its settings and its row beside linnet's own") {
  const Workshop shop;
  const Arguments decay{"--attention", "decay", "--decay", "80"};
  const Ended trained = run_program("own_attention", shop.tiny("run") + decay);
  check_done(trained);
  CHECK(nlohmann::json::parse(read_bytes(shop / "run/config.json"))["settings"]["decay"] == 80);
  const auto refused = [&](const Arguments& flags, const std::string& part) {
    const Ended ended = run_program("own_attention", shop.tiny("other") + flags);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, part));
  };
  refused({"--decay", "80"}, "--decay 80 does not apply to --attention softmax");
  refused({"--attention", "decay", "--decay", "0"}, "--decay 0: must be from 1 to 100");
  refused({"--attention", "decay", "--positions", "rotary"},
          "--positions rotary does not apply to --attention decay");
  const Ended table = run_program(
      "own_attention", Arguments{"compare"} + shop.tiny("all") + Arguments{"--attention", "softmax,decay"});
  check_done(table);
  CHECK(contains(table.out, "\ndecay "));
  CHECK(std::filesystem::exists(shop / "all/compare.png"));
}

TEST_CASE("every program has --help and --version") {
  const Arguments programs{"train_shakespeare", "train_mnist", "sample", "compare",
                           "attention_maps",    "ablations",   "bench",  "recommend"};
  for (const std::string& program : programs) {
    CAPTURE(program);
    const Ended help = run_program(program, {"--help"});
    check_done(help);
    for (const char* flag : {"--version", "--seed", "--threads", "--device", "--precision"})
      CHECK(contains(help.out, flag));
    const Ended version = run_program(program, {"--version"});
    check_done(version);
    CHECK(contains(version.out, "linnet"));
  }
  CHECK(contains(run_program("train_shakespeare", {"--help"}).out, "1337"));          // the defaults
  CHECK_FALSE(contains(run_program("train_mnist", {"--help"}).out, "--steps INT="));  // it counts epochs
  for (const std::string program : {"train_text", "train_mnist", "compare", "attention_maps"}) {
    CAPTURE(program);
    const std::string help = run_program(program, {"--help"}).out;
    CHECK(contains(help, "$LINNET_DATA, " LINNET_SOURCE_DIR "/data, data/ here"));
    CHECK(contains(help, "the first of "));
  }
  CHECK(contains(run_program("sample", {"--help"}).out, "the --out folder of train_text or train_shakespeare"));
  CHECK(contains(run_program("attention_maps", {"--help"}).out, "maps.png, or figure4.png with --figure"));
}
