/// What the programs write, and that it depends only on the seed.

#include <doctest/doctest.h>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/nn/data/idx_file.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::idx_bytes;
using linnet::test::near;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

/// Checks that the weights after 50 steps are the same with any number of threads.
void check_threads(const std::string& program, const Arguments& mechanisms, const Arguments& flags) {
  for (const std::string& attention : mechanisms) {
    CAPTURE(attention);
    // Wide enough for work to be divided among threads.
    const Arguments wide{"--attention", attention,      "--steps", "50",        "--width",
                         "64",          "--eval-every", "50",      "--dropout", "0.1"};
    const linnet::test::TemporaryFolder folder;
    const auto model = [&](const std::string& threads) {
      const Arguments run = flags + wide + Arguments{"--out", folder / threads, "--threads", threads};
      check_done(run_program(program, run));
      return read_bytes(folder / threads / "model.safetensors");
    };
    const std::string expected = model("1");
    CHECK(model("2") == expected);
    CHECK(model("4") == expected);
  }
}

/// 64 images in ten classes. The class gives the place of a row of bright pixels. They are few, since a run evaluates
/// all of them.
void write_images(const std::filesystem::path& folder) {
  constexpr uint32_t kCount = 64, kSide = 28;
  std::string pixels(kCount * kSide * kSide, '\0'), labels;
  for (uint32_t i = 0; i < kCount; ++i) {
    labels += static_cast<char>(i % 10);
    for (uint32_t x = 0; x < kSide; ++x)
      pixels[(i * kSide + 2 * (i % 10) + 4) * kSide + x] = static_cast<char>(9 * x);
  }
  std::filesystem::create_directories(folder);
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(folder / (part + "-images-idx3-ubyte"), idx_bytes({kCount, kSide, kSide}, pixels));
    write_bytes(folder / (part + "-labels-idx1-ubyte"), idx_bytes({kCount}, labels));
  }
}

}  // namespace

TEST_CASE("train_shakespeare writes all that an output folder holds, and nothing else") {
  const Workshop shop;
  const Ended ended = run_program("train_shakespeare", shop.tiny("run") + Arguments{"--attention", "fastmax2"});
  check_done(ended);
  CHECK(contains(ended.out, "fastmax2 on " + Workshop::kTextName + ": 1 layers, 2 heads, width 16, 20 steps"));
  CHECK(names_in(shop / "run") == std::vector<std::string>{"checkpoint.safetensors", "config.json", "loss.png",
                                                           "metrics.jsonl", "model.safetensors", "results.json",
                                                           "samples.txt", "train_loss.csv"});

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
  CHECK(metrics[2]["lr"].get<double>() == near(1e-4, 1e-9));
  CHECK(metrics[2]["peak_bytes"] > 0);
  // The peak of the steps only: the evaluation at the end has larger batches.
  const auto results = nlohmann::json::parse(read_bytes(shop / "run/results.json"));
  CHECK(results["peak_bytes"] == metrics[2]["peak_bytes"]);

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
                                                           "metrics.jsonl", "model.safetensors", "results.json",
                                                           "train_loss.csv"});
  CHECK(nlohmann::json::parse(read_bytes(shop / "run/config.json"))["data"] == "drawn digits (stand-in)");
  const auto metrics = metrics_of(shop / "run");
  REQUIRE(metrics.size() == 3);
  for (const auto& line : metrics) {
    CHECK(line["accuracy"] >= 0);
    CHECK(line["accuracy"] <= 1);
  }
}

TEST_CASE("train_shakespeare says which evaluation was the best where the loss has risen since") {
  const Workshop shop;
  CHECK_FALSE(contains(done("train_shakespeare", shop.tiny("falls")).out, "validation, lowest"));
  const Ended rises = done("train_shakespeare", shop.tiny("rises") + Arguments{"--lr", "30", "--warmup", "0"});
  const auto metrics = metrics_of(shop / "rises");
  REQUIRE(metrics[0]["val_loss"].get<double>() < 0.99 * metrics[2]["val_loss"].get<double>());
  CHECK(contains(rises.out, fmt::format("validation, lowest     {:.4f} at step 0 of 20; it has risen since",
                                        metrics[0]["val_loss"].get<double>())));
}

TEST_CASE("without data the stand-in is used, and said so") {
  const Workshop shop;
  if (stand_in_hidden("tinyshakespeare")) return;
  Arguments flags = shop.tiny("run");
  flags.erase(flags.begin(), flags.begin() + 2);  // --data
  const Ended ended = run_program("train_shakespeare", flags);
  check_done_with("the sources of linnet", ended);
  CHECK(contains(ended.out, "softmax on linnet's own sources (stand-in) ("));
  const std::string data = nlohmann::json::parse(read_bytes(shop / "run/config.json"))["data"];
  CHECK(data.starts_with("linnet's own sources (stand-in) ("));
  CHECK(contains(data, " bytes, crc32 "));  // by which --resume recognises the text of another build
}

TEST_CASE("train_shakespeare counts its steps in epochs where --epochs says so") {
  const Workshop shop;
  Arguments flags = shop.tiny("run") + Arguments{"--batch", "60", "--epochs", "2"};  // of 5,400 / (60 · 16) steps
  flags.erase(std::ranges::find(flags, "--steps"), std::ranges::find(flags, "--steps") + 2);
  const Ended warmup = run_program("train_shakespeare", flags);
  CHECK(warmup.code == 2);
  CHECK(contains(warmup.err, "--warmup 100 leaves nothing of the 10 steps of --epochs 2; make it shorter"));
  CHECK_FALSE(std::filesystem::exists(shop / "run"));
  check_usage("train_shakespeare", run_program("train_shakespeare", flags + Arguments{"--batch", "2000"}),
              "--batch 2000: the training data are too few for one; lower it, or give --steps instead of --epochs");
  check_done(run_program("train_shakespeare", flags + Arguments{"--warmup", "2"}));
  CHECK(metrics_of(shop / "run").back()["step"] == 10);
  const auto config = nlohmann::json::parse(read_bytes(shop / "run/config.json"));
  CHECK(config["settings"]["epochs"] == 2);
  CHECK(config["settings"]["steps"] == 0);
}

TEST_CASE("the number of threads changes no bit in 50 steps, for any mechanism") {
  const Workshop shop;
  check_threads("train_shakespeare", kMechanisms, shop.tiny("run") + Arguments{"--context", "64", "--batch", "12"});
}

TEST_CASE("the number of threads: the same for images") {
  const Workshop shop;
  write_images(shop / "images");
  check_threads("train_mnist", kImageMechanisms,
                shop.tiny_images("run") + Arguments{"--patch", "4", "--data", shop / "images"});
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
    CHECK(sample({"--top-p", "1e-6"}) == sample({"--temperature", "0"}));
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
  // Ten million tokens take hours; `head` does not wait for them.
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

TEST_CASE("compare gives an option to the mechanisms that have it") {
  const Workshop shop;
  const Arguments options{
      "--attention", "softmax,longformer,fastformer", "--window", "4", "--share", "heads", "--short-conv", "3"};
  const Ended ended = run_program("compare", shop.tiny("all") + options);
  check_done(ended);
  const auto settings = [&](const std::string& attention) {
    return nlohmann::json::parse(read_bytes(shop / ("all/" + attention) / "config.json"))["settings"];
  };
  CHECK(settings("longformer")["window"] == 4);
  CHECK(settings("fastformer")["share"] == nlohmann::json{"heads"});
  for (const std::string attention : {"softmax", "longformer"}) CHECK_FALSE(settings(attention).contains("share"));
  for (const std::string attention : {"softmax", "fastformer"}) CHECK_FALSE(settings(attention).contains("window"));
  for (const std::string attention : {"softmax", "longformer", "fastformer"}) {
    CHECK(settings(attention)["short_conv"] == 3);
  }
  CHECK(contains(ended.out, "window 4"));
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
  refused({"--attention", "decay", "--attention-dropout", "0.1"},
          "--attention-dropout 0.1 does not apply to --attention decay, which has no dropout; leave it out");
  refused({"--attention", "decay", "--short-conv", "4"},
          "--short-conv 4 does not apply to --attention decay, which has no convolution; leave it out");
  CHECK_FALSE(std::filesystem::exists(shop / "other"));
  const Ended table = run_program(
      "own_attention", Arguments{"compare"} + shop.tiny("all") + Arguments{"--attention", "softmax,decay"});
  check_done(table);
  CHECK(contains(table.out, "\ndecay "));
  CHECK(std::filesystem::exists(shop / "all/compare.png"));
}

TEST_CASE("every program has --help and --version") {
  const Arguments programs{"train_shakespeare", "train_mnist", "sample",    "compare", "attention_maps",
                           "ablations",         "bench",       "recommend", "convert"};
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
