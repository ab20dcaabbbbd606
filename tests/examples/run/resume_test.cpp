/// Runs that are stopped and resumed: what programs read from the run's folder, the number of steps, and the path of
/// the data.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include <linnet/core/files/safetensors.h>
#include <nlohmann/json.hpp>

#include "support/run/model_maps.h"
#include "support/run/run_folder.h"
#include "tests/examples/plot/picture.h"
#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::near;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

/// Changes config.json.
template <class Change>
void edit_config(const fs::path& run, Change&& change) {
  nlohmann::json config = config_of(run);
  change(config);
  write_bytes(run / "config.json", config.dump(2));
}

nlohmann::json last_metrics(const fs::path& run) {
  std::istringstream lines(read_bytes(run / "metrics.jsonl"));
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return nlohmann::json::parse(last);
}

std::string step_of_checkpoint(const fs::path& run) {
  return read_safetensors(run / "checkpoint.safetensors").metadata.at("step");
}

/// Runs a program that looks for data in this folder.
Ended run_with_data(const fs::path& data, const std::string& program, const Arguments& flags) {
  const std::string command = "LINNET_DATA=\"$0\" exec " LINNET_BIN_DIR "/" + program + " \"$@\"";
  return run_program("/bin/sh", Arguments{"-c", command, data} + flags);
}

/// Starts or resumes a run, and kills it when it has at least this many evaluations.
void kill_in_the_middle(const Arguments& flags, const fs::path& run, std::ptrdiff_t evaluations) {
  ChildProgram child("train_text", flags);
  const fs::path metrics = run / "metrics.jsonl";
  while (child.running() && (!fs::exists(metrics) || std::ranges::count(read_bytes(metrics), '\n') < evaluations)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(child.running());
  child.kill();
  (void)child.wait();
}

/// A run of a million steps that was killed after some of them.
void leave_unfinished(const Workshop& shop, const std::string& out) {
  const Arguments flags{"--steps", "1000000", "--checkpoint-every", "10", "--warmup", "500000"};
  kill_in_the_middle(shop.tiny(out) + flags, shop / out, 4);
}

}  // namespace

TEST_CASE("a run that was stopped is sampled and drawn by its checkpoint, as a line says") {
  const Workshop shop;
  leave_unfinished(shop, "run");
  const std::string line = "the run in " + (shop / "run").string() +
                           " has no model.safetensors: taking the weights of its checkpoint, step " +
                           step_of_checkpoint(shop / "run") + " of 1000000\n";
  const Ended sample = done("sample", {shop / "run", "--prompt", "to be", "--tokens", "20"});
  CHECK(sample.err == line);
  CHECK(sample.out.starts_with("to be"));
  CHECK(sample.out.size() == 26);
  const Ended maps = done("attention_maps", {shop / "run", "--prompt", "to be", "--out", shop / "maps"});
  CHECK(maps.err == line);
  CHECK(fs::exists(shop / "maps/maps.png"));
}

TEST_CASE("the weights of a checkpoint are the run's: at its end those of model.safetensors") {
  const Workshop shop;
  const fs::path text = shop / "run", images = shop / "images";
  done("train_text", shop.tiny("run") + Arguments{"--attention", "fastmax2"});
  done("train_mnist", shop.tiny_images("images"));
  const Arguments flags{text, "--prompt", "to be", "--tokens", "40"};
  const Ended before = done("sample", flags);
  CHECK(before.err == "");
  const examples::ModelMaps maps = examples::read_maps(text, {.prompt = "to be"}, {});
  CHECK(maps.training.ends_with(", 20 steps"));
  fs::remove(text / "model.safetensors");
  const Ended after = done("sample", flags);
  CHECK(after.out == before.out);
  CHECK(contains(after.err, "step 20 of 20\n"));
  const examples::ModelMaps same = examples::read_maps(text, {.prompt = "to be"}, {});
  CHECK(same.training.ends_with(", 20 steps, at step 20"));
  CHECK(allclose(same.maps.front().weights, maps.maps.front().weights, 0, 0));

  fs::remove(images / "model.safetensors");
  edit_config(images, [](nlohmann::json& config) { config["settings"].update({{"steps", 0}, {"epochs", 2}}); });
  CHECK(contains(done("attention_maps", {images, "--out", shop / "maps"}).err, "step 4 of 2 epochs\n"));

  write_bytes(text / "checkpoint.safetensors", read_bytes(images / "checkpoint.safetensors"));
  check_refused(run_program("sample", flags), 1, "checkpoint.safetensors holds no vocabulary");
  fs::remove(text / "checkpoint.safetensors");
  const std::string neither = " has no weights, neither model.safetensors nor checkpoint.safetensors; ";
  check_refused(run_program("sample", flags), 1, text.string() + neither);
  check_refused(run_program("attention_maps", {text, "--prompt", "to be", "--out", shop / "maps"}), 1,
                text.string() + neither);
}

TEST_CASE("--resume --steps: the run goes on to the new total, which its folder holds from then on") {
  const Workshop shop;
  const fs::path run = shop / "run";
  const Arguments resume{"--resume", "--out", run, "--data", shop / "data"};
  done("train_text", shop.tiny("run"));
  const std::string first = read_bytes(run / "model.safetensors");
  const std::string config = read_bytes(run / "config.json");

  // The same total: nothing changes.
  done("train_text", resume + Arguments{"--steps", "20"});
  CHECK(read_bytes(run / "model.safetensors") == first);
  CHECK(read_bytes(run / "config.json") == config);

  done("train_text", resume + Arguments{"--steps", "40"});
  CHECK(config_of(run)["settings"]["steps"] == 40);
  CHECK(config_of(run)["settings"]["warmup"] == 2);  // a tenth of its first number of steps
  CHECK(last_metrics(run)["step"] == 40);
  CHECK(last_metrics(run)["lr"].get<double>() == near(1e-4, 1e-9));  // the end of the schedule
  CHECK(step_of_checkpoint(run) == "40");
  const std::string longer = read_bytes(run / "model.safetensors");
  CHECK(longer != first);
  const Ended finished = done("train_text", resume);
  CHECK(contains(finished.out, "the run in " + run.string() + " is finished: all of its 40 steps are made; "));
  CHECK(contains(finished.out, "--steps"));
  CHECK(read_bytes(run / "model.safetensors") == longer);

  // Its epochs have 5,400 / (4 · 16) steps.
  const Ended epochs = done("train_text", resume + Arguments{"--epochs", "1"});
  CHECK_FALSE(contains(epochs.out, "is finished"));
  CHECK(last_metrics(run)["step"] == 84);
  CHECK(config_of(run)["settings"]["epochs"] == 1);
  CHECK(config_of(run)["settings"]["steps"] == 0);
  done("train_text", resume + Arguments{"--steps", "90"});
  CHECK(config_of(run)["settings"]["epochs"] == 0);

  const std::string ninety = read_bytes(run / "config.json"), model = read_bytes(run / "model.safetensors");
  check_refused(run_program("train_text", resume + Arguments{"--steps", "89"}), 2,
                "--steps 89: the run in " + run.string() + " has made 90 steps already; name at least as many");
  check_refused(run_program("train_text", resume + Arguments{"--epochs", "1"}), 2,
                "--epochs 1, which is 84 steps: the run in " + run.string() + " has made 90 steps already");
  check_refused(run_program("train_text", resume + Arguments{"--steps", "0"}), 2, "--steps 0: must be at least 1");
  CHECK(read_bytes(run / "config.json") == ninety);
  CHECK(read_bytes(run / "model.safetensors") == model);
  CHECK(contains(run_program("train_text", {"--help"}).out, "over which the schedule"));
}

TEST_CASE("--resume --steps, killed on the way and resumed: as if it had not been, to the bit") {
  const Workshop shop;
  const fs::path whole = shop / "whole", parts = shop / "parts";
  const Arguments flags{"--dropout", "0.1", "--checkpoint-every", "10"};
  const auto longer = [&](const fs::path& run) {
    return Arguments{"--resume", "--out", run, "--data", shop / "data", "--steps", "800"};
  };
  done("train_text", shop.tiny("whole") + flags);
  fs::copy(whole, parts);
  done("train_text", longer(whole));
  kill_in_the_middle(longer(parts), parts, 6);
  CHECK_FALSE(fs::exists(parts / "model.safetensors"));  // the shorter run's weights are not this run's
  CHECK(contains(done("sample", {parts, "--prompt", "to be", "--tokens", "5"}).err, " of 800\n"));
  done("train_text", {"--resume", "--out", parts, "--data", shop / "data"});
  for (const char* name : {"model.safetensors", "checkpoint.safetensors", "train_loss.csv", "config.json"}) {
    CAPTURE(name);
    CHECK(read_bytes(parts / name) == read_bytes(whole / name));
  }
}

TEST_CASE("--resume: a list of numbers among the options comes back, and another list is refused") {
  const Workshop shop;
  const Arguments flags{"--attention", "longformer", "--window",     "2",  "--dilation",         "1,2",
                        "--steps",     "800",        "--eval-every", "50", "--checkpoint-every", "10"};
  done("train_text", shop.tiny("whole") + flags);
  CHECK(config_of(shop / "whole")["settings"]["dilation"] == "1,2");
  kill_in_the_middle(shop.tiny("parts") + flags, shop / "parts", 3);
  const Arguments resume{"--resume", "--out", shop / "parts"};
  check_refused(run_program("train_text", resume + Arguments{"--attention", "longformer", "--dilation", "2,1"}), 2,
                "--dilation \"2,1\": the run in " + (shop / "parts").string() +
                    " keeps what it has, \"1,2\"; leave the flag out");
  done("train_text", resume);
  CHECK(read_bytes(shop / "parts/model.safetensors") == read_bytes(shop / "whole/model.safetensors"));
}

TEST_CASE("--resume --steps of as many as the run has made: it ends there, with an evaluation") {
  const Workshop shop;
  const Arguments flags{"--steps", "1000000", "--checkpoint-every", "7", "--warmup", "0"};
  kill_in_the_middle(shop.tiny("run") + flags, shop / "run", 4);
  const std::string made = step_of_checkpoint(shop / "run");
  done("train_text", {"--resume", "--out", shop / "run", "--steps", made});
  CHECK(last_metrics(shop / "run")["step"] == std::stoll(made));
  CHECK(fs::exists(shop / "run/model.safetensors"));
}

TEST_CASE("--resume: the seconds of steps that were made before the first evaluation's end count") {
  const Workshop shop;
  const fs::path run = shop / "run";
  ChildProgram child("train_text", shop.tiny("run") + Arguments{"--steps", "1000000", "--eval-every", "1000000"});
  while (child.running() && (!fs::exists(run / "metrics.jsonl") || fs::is_empty(run / "metrics.jsonl"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  child.interrupt(SIGTERM);
  REQUIRE(child.wait().code == 130);
  fs::copy(run, shop / "older", fs::copy_options::recursive);
  const Arguments as_made{"--resume", "--steps", step_of_checkpoint(run)};
  done("train_text", as_made + Arguments{"--out", run});
  CHECK(last_metrics(run)["seconds"] > 0.3);
  CHECK(last_metrics(run)["tokens_per_second"] > 0);

  // A checkpoint of an older version does not have them.
  Safetensors checkpoint = read_safetensors(shop / "older/checkpoint.safetensors");
  CHECK(checkpoint.tensors.erase("seconds.unevaluated") == 1);
  std::string& parts = checkpoint.metadata.at("linnet.parts");
  parts.erase(parts.find(".seconds"), 8);
  write_safetensors(shop / "older/checkpoint.safetensors", checkpoint);
  done("train_text", as_made + Arguments{"--out", shop / "older"});
  CHECK(last_metrics(shop / "older")["seconds"] == 0);
}

TEST_CASE("--resume of a finished run writes a damaged results.json anew") {
  const Workshop shop;
  REQUIRE(run_program("train_text", shop.tiny("run")).code == 0);
  const auto results = [&] { return nlohmann::json::parse(read_bytes(shop / "run/results.json")); };
  const nlohmann::json before = results();
  write_bytes(shop / "run/results.json", "{");
  REQUIRE(run_program("train_text", {"--resume", "--out", shop / "run"}).code == 0);
  CHECK(results()["loss"] == before["loss"]);
  CHECK(results()["ms_per_step"] > 0);
}

TEST_CASE("--resume: options of a mechanism that is not the default one may be given again") {
  const Workshop shop;
  REQUIRE(
      run_program("train_text", shop.tiny("run") + Arguments{"--attention", "longformer", "--window", "2"}).code ==
      0);
  const Arguments again{"--resume", "--out", shop / "run"};
  REQUIRE(run_program("train_text", again + Arguments{"--window", "2"}).code == 0);
  const Ended refused = run_program("train_text", again + Arguments{"--window", "4"});
  CHECK(refused.code == 2);
  CHECK(refused.err.find("--window 4: the run in") != std::string::npos);
}

TEST_CASE("--resume with other threads: config.json has both, and a finished run keeps its own") {
  const Workshop shop;
  const fs::path run = shop / "run";
  const Arguments resume{"--resume", "--out", run};
  done("train_text", shop.tiny("run") + Arguments{"--threads", "1"});
  const auto threads_of = [&] {
    std::vector<std::string> threads;
    for (const std::string& machine : examples::machines_of(run)) {
      const size_t end = machine.find(" thread");
      threads.push_back(machine.substr(end - 1, 1));
    }
    return threads;
  };
  const std::string config = read_bytes(run / "config.json");
  done("train_text", resume + Arguments{"--threads", "2"});  // no step is left
  CHECK(read_bytes(run / "config.json") == config);
  done("train_text", resume + Arguments{"--threads", "2", "--steps", "30"});
  CHECK(threads_of() == std::vector<std::string>{"1", "2"});
  done("train_text", resume + Arguments{"--threads", "1", "--steps", "40"});
  CHECK(threads_of() == std::vector<std::string>{"1", "2"});
  done("sample", {run, "--tokens", "1"});
}

TEST_CASE("--resume --steps below the warm-up of the run: exit 2") {
  const Workshop shop;
  leave_unfinished(shop, "run");
  check_refused(
      run_program("train_text", {"--resume", "--out", shop / "run", "--data", shop / "data", "--steps", "400000"}), 2,
      "--steps 400000: the run in " + (shop / "run").string() + " has a warm-up of 500000 steps; name more");
}

TEST_CASE("--resume --steps of fewer than the run has made says so, whatever its warm-up") {
  const Workshop shop;
  done("train_text", shop.tiny("run") + Arguments{"--warmup", "10"});
  check_refused(
      run_program("train_text", {"--resume", "--out", shop / "run", "--steps", "5"}), 2,
      "--steps 5: the run in " + (shop / "run").string() + " has made 20 steps already; name at least as many");
}

TEST_CASE("--resume, where the text has been changed, says what the run learned from, even if it cannot be read") {
  const Workshop shop;
  fs::copy(shop / "data/tinyshakespeare/input.txt", shop / "my.txt");
  done("train_text", shop.tiny("run") + Arguments{"--data", shop / "my.txt"});
  for (const std::string text : {"short", "not UTF-8: \xFF", ""}) {
    CAPTURE(text);
    write_bytes(shop / "my.txt", text);
    check_refused(run_program("train_text", {"--resume", "--out", shop / "run"}), 1,
                  " (the run in " + (shop / "run").string() + " learned from my.txt (6000 bytes, crc32 5bd9502e))");
  }
}

TEST_CASE("--resume finds data that --data named from a link's folder") {
  const Workshop shop;
  fs::create_directories(shop / "texts/deep");
  fs::copy(shop / "data/tinyshakespeare/input.txt", shop / "texts/my.txt");
  fs::create_directory_symlink(shop / "texts/deep", shop / "link");
  done("train_text", shop.tiny("run") + Arguments{"--data", shop / "link/../my.txt"});  // texts/my.txt for the system
  CHECK(done("train_text", {"--resume", "--out", shop / "run"}).err == "");
}

TEST_CASE("--resume finds the data where --data said that they are") {
  const Workshop shop;
  const fs::path run = shop / "run";
  fs::create_directories(shop / "texts");
  fs::copy(shop / "data/tinyshakespeare/input.txt", shop / "texts/my.txt");
  const Arguments resume{"--resume", "--out", run};
  // A path relative to the folder where the program was started; it is resumed in another folder.
  const Arguments flags = shop.tiny("run") + Arguments{"--data", "texts/my.txt"};
  done("/bin/sh", Arguments{"-c", "cd \"$0\" && exec " LINNET_BIN_DIR "/train_text \"$@\"", shop / ""} + flags);
  CHECK(config_of(run)["data_path"] == (shop / "texts/my.txt").string());
  const std::string config = read_bytes(run / "config.json");
  CHECK(done("train_text", resume).err == "");
  CHECK(done("attention_maps", {run, "--out", shop / "maps"}).err == "");
  CHECK(read_bytes(run / "config.json") == config);

  // If the data are gone, both programs say so; a prompt needs no data.
  fs::create_directories(shop / "moved");
  fs::rename(shop / "texts/my.txt", shop / "moved/other.txt");
  const std::string gone = "the run in " + run.string() + " learned from " + (shop / "texts/my.txt").string() +
                           ", which is gone; give its new path with --data";
  check_refused(run_program("train_text", resume), 1, gone);
  check_refused(run_program("attention_maps", {run, "--out", shop / "maps"}), 1, gone);
  done("attention_maps", {run, "--out", shop / "maps", "--prompt", "to be"});

  // A new path and a new name are saved, since the bytes are the same.
  done("attention_maps", {run, "--out", shop / "maps", "--data", shop / "moved/other.txt"});
  done("train_text", resume + Arguments{"--data", shop / "moved/other.txt"});
  CHECK(config_of(run)["data"].get<std::string>().starts_with("other.txt (6000 bytes, crc32 "));
  CHECK(config_of(run)["data_path"] == (shop / "moved/other.txt").string());
  done("train_text", resume);

  // Another text in its place.
  const std::string text = read_bytes(shop / "moved/other.txt");
  write_bytes(shop / "moved/other.txt", std::string(text.rbegin(), text.rend()));
  check_refused(run_program("train_text", resume), 1,
                "--resume: the run in " + run.string() + " learns from other.txt (");
  check_refused(run_program("train_text", resume), 1, "name its file or folder with --data");
  check_refused(run_program("attention_maps", {run, "--out", shop / "maps"}), 1, "learned from other.txt (");
}

TEST_CASE("--resume of runs that do not say where their data are: as before, --data does") {
  const Workshop shop;
  const fs::path run = shop / "run";
  done("train_text", shop.tiny("run"));
  edit_config(run, [](nlohmann::json& config) { CHECK(config.erase("data_path") == 1); });
  const Ended without = run_program("train_text", {"--resume", "--out", run});
  CHECK(without.code == 1);
  CHECK(contains(without.err, " learns from " + Workshop::kTextName + ", but there is "));
  done("train_text", {"--resume", "--out", run, "--data", shop / "data"});
  CHECK(config_of(run)["data_path"] == (shop / "data").string());

  // Without --data, the data are looked for again, and may now be found in another folder.
  Arguments flags = shop.tiny("found");
  flags.erase(flags.begin(), flags.begin() + 2);  // --data
  CHECK(run_with_data(shop / "data", "train_text", flags).code == 0);
  CHECK_FALSE(config_of(shop / "found").contains("data_path"));
  fs::rename(shop / "data", shop / "elsewhere");
  CHECK(run_with_data(shop / "elsewhere", "train_text", {"--resume", "--out", shop / "found"}).code == 0);
}

TEST_CASE("--resume of a run on a stand-in goes on with it, even if the set is there by then") {
  if (stand_in_hidden("tinyshakespeare") || stand_in_hidden("mnist")) return;
  const Workshop shop;
  fs::create_directories(shop / "data/mnist");  // it would be tried, and lacks its files
  fs::create_directories(shop / "data/amazon");
  write_bytes(shop / "data/amazon/reviews_Electronics_5.json", "{}");
  const auto goes_on = [&](const std::string& program, const Arguments& flags, const std::string& set) {
    CAPTURE(program);
    const Ended ended = run_with_data(shop / "data", program, flags);
    CAPTURE(ended.err);
    CHECK(ended.code == 0);
    CHECK(ended.err.starts_with("the run began without " + set + ": taking "));
  };
  Arguments text = shop.tiny("text");
  text.erase(text.begin(), text.begin() + 2);  // --data
  done("train_text", text);
  goes_on("train_text", {"--resume", "--steps", "30", "--out", shop / "text"}, "Tiny Shakespeare");
  goes_on("attention_maps", {shop / "text", "--out", shop / "maps"}, "Tiny Shakespeare");
  done("train_mnist", shop.tiny_images("images"));
  goes_on("train_mnist", {"--resume", "--steps", "6", "--out", shop / "images"}, "MNIST");
  const Arguments all = shop.tiny_images("all") + Arguments{"--task", "mnist", "--attention", "softmax"};
  done("compare", all);
  goes_on("compare", all + Arguments{"--resume"}, "MNIST");
  done("classify", {"--task", "amazon", "--stand-in", "--steps", "2", "--layers", "1", "--width", "16", "--heads",
                    "2", "--context", "16", "--out", shop / "texts"});
  goes_on("classify", {"--task", "amazon", "--resume", "--steps", "4", "--out", shop / "texts"}, "Amazon reviews");
  CHECK(run_with_data(shop / "data", "train_text", text + Arguments{"--out", shop / "new"}).err.empty());
}

TEST_CASE("a path of --data that is not UTF-8 stops no run") {
  const Workshop shop;
  const fs::path folder = shop / "gr\xF6\xDF";
  fs::create_directories(folder);
  fs::copy(shop / "data/tinyshakespeare/input.txt", folder / "my.txt");
  fs::copy(folder / "my.txt", folder / "gr\xF6\xDF.txt");
  for (const char* name : {"my.txt", "gr\xF6\xDF.txt"}) {
    CAPTURE(name);
    done("train_text", shop.tiny(name) + Arguments{"--data", folder / name});
    done("train_text", {"--resume", "--out", shop / name, "--data", folder / name});
  }
}
