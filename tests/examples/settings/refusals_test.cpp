/// Command lines that the programs must refuse: their messages and exit codes.

#include <doctest/doctest.h>

#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::run_program;

TEST_CASE("a wrong command line: exit 2, naming the flag, and nothing is written") {
  const Workshop shop;
  const auto refused = [&](const Arguments& flags, const std::string& part) {
    CAPTURE(part);
    check_usage("train_shakespeare", run_program("train_shakespeare", shop.tiny("run") + flags), part);
    CHECK_FALSE(std::filesystem::exists(shop / "run"));
  };
  refused({"--lerning-rate", "1"}, "--lerning-rate");
  refused({"--attention", "hardmax"}, "--attention");
  refused({"--steps", "many"}, "--steps");
  refused({"--steps", "0"}, "--steps 0: must be at least 1");
  refused({"--layers", "0"}, "--layers 0: must be at least 1");
  refused({"--heads", "3"}, "--width 16 is not a multiple of --heads 3");
  refused({"--context", "-1"}, "--context -1");
  refused({"--batch", "0"}, "--batch 0");
  refused({"--accumulate", "0"}, "--accumulate 0");
  refused({"--eval-every", "0"}, "--eval-every 0");
  refused({"--dropout", "1"}, "--dropout 1: must lie from 0 to 0.99");
  refused({"--dropout", "nan"}, "--dropout nan");
  refused({"--short-conv", "-1"}, "--short-conv -1: must be at least 0");
  refused({"--attention", "fastformer", "--projections", "1"}, "--projections 1: must be from 2 to 16");
  refused({"--share", "none,layers"}, "--share none,layers: none cannot be combined with others");
  refused({"--share", "everything"}, "--share");
  refused({"--lr", "-0.1"}, "--lr -0.1");
  refused({"--lr", "1e-5"}, "--min-lr 0.0001 is above --lr 1e-05; lower it too");
  refused({"--weight-decay", "-1"}, "--weight-decay -1");
  refused({"--clip", "-1"}, "--clip -1");
  refused({"--warmup", "20"}, "--warmup 20 leaves nothing of --steps 20");
  refused({"--threads", "-1"}, "--threads");
  refused({"--seed", "x"}, "--seed");
  refused({"--seed", "-1"}, "--seed");
  refused({"--device", "tpu"}, "--device");
  refused({"--layers", "1000000000000"}, "--layers 1000000000000: must be at most 1000");
  refused({"--batch", "1000000000"}, "--batch 1000000000: must be at most 1000000");
  refused({"--steps", "99999999999999999999"}, "--steps: 99999999999999999999 is out of range");
  refused({"--steps", "1.5"}, "--steps: 1.5 is not a whole number");
  refused({"--threads", "2000"}, "--threads: 2000 is not a whole number from 0 to 1024");
  refused({"--checkpoint-every", "2.5"}, "--checkpoint-every: 2.5 is not a whole number");
  refused({"--positions", "rotary", "--width", "18", "--heads", "6"}, "--width 18 / --heads 6 is odd");
  refused({"--positions", "sinusoidal", "--width", "15", "--heads", "3"}, "--width 15 is odd");
  refused({"--preset", "nanogpt"}, "--preset nanogpt: the presets for shakespeare are nanogpt-cpu, nanogpt-gpu");
  refused({"--preset=mnist-small"}, "--preset mnist-small");
  refused({"--data", ""}, "--data: it names no file or folder");
  refused({"stray"}, "stray");
  check_usage("train_shakespeare", run_program("train_shakespeare", {"--steps", "5", "--steps", "6"}), "--steps");
}

TEST_CASE("a flag that there is not: every program says so in one line, and where to look") {
  for (const std::string program : {"train_text", "train_mnist", "sample", "compare", "attention_maps", "ablations",
                                    "bench", "recommend", "convert"}) {
    CAPTURE(program);
    const Arguments flags = program == "bench"    ? Arguments{"attention", "--nonsense"}
                            : program == "sample" ? Arguments{"folder", "--nonsense"}
                                                  : Arguments{"--nonsense"};
    const Ended ended = run_program(program, flags);
    check_usage(program, ended, "--nonsense");
    CHECK(ended.err.ends_with("; --help lists the flags\n"));
    CHECK(ended.out == "");
  }
}

TEST_CASE("a flag that does not apply is refused, not ignored") {
  const Workshop shop;
  const auto refused = [&](const std::string& program, const Arguments& flags, const std::string& part) {
    CAPTURE(part);
    check_says(run_program(program, Arguments{"--out", shop / "run"} + flags), 2, part);
    CHECK_FALSE(std::filesystem::exists(shop / "run"));
  };
  refused("train_shakespeare", {"--fastmax-scale", "sqrt"},
          "--fastmax-scale sqrt does not apply to --attention softmax");
  refused("train_shakespeare", {"--attention", "fastmax2", "--fastmax-scale", "big"}, "--fastmax-scale big: must be");
  refused("train_shakespeare", {"--attention", "fastmax2", "--fastmax-scale", "-1"}, "--fastmax-scale -1: must be");
  refused("train_shakespeare", {"--attention", "fastmax2", "--fastmax-scale", "inf"}, "--fastmax-scale inf: must be");
  refused("train_shakespeare", {"--attention", "fastmax1", "--fastmax-scale", "paper"},
          "--fastmax-scale paper does not apply to --attention fastmax1, whose weights are positive only with a "
          "scale below 1/32");
  refused("train_mnist", {"--attention", "fastmax2", "--fastmax-scale", "1e300"},
          "--fastmax-scale 1e300 does not apply to --attention fastmax2, which takes 1000000 at most");
  refused("train_shakespeare", {"--fastformer-interaction", "add"},
          "--fastformer-interaction add does not apply to --attention softmax");
  refused("train_shakespeare", {"--projections", "4"}, "--projections 4 does not apply to --attention softmax");
  refused("train_shakespeare", {"--fastformer-interaction", "product"},
          "--fastformer-interaction product does not apply to --attention softmax");
  refused("train_shakespeare", {"--projections", "3"}, "--projections 3 does not apply to --attention softmax");
  refused("train_shakespeare", {"--share", "query-value"},
          "--share query-value does not apply to --attention softmax");
  refused("train_shakespeare", {"--attention", "fastmax2", "--share", "layers,query-value"},
          "--share query-value does not apply to --attention fastmax2");
  refused("train_shakespeare",
          {"--attention", "fastmax1", "--attention-dropout", "0.1", "--dropout-kind", "quadratic"},
          "--dropout-kind quadratic does not apply to --attention fastmax1");
  for (const char* kind : {"quadratic", "standard"}) {
    refused("train_shakespeare", {"--attention", "linear", "--attention-dropout", "0.1", "--dropout-kind", kind},
            "--dropout-kind " + std::string(kind) +
                " does not apply to --attention linear, which drops whole queries and keys alone; use token");
  }
  refused(
      "train_shakespeare", {"--attention", "performer", "--attention-dropout", "0.1", "--dropout-kind", "standard"},
      "--dropout-kind standard does not apply to --attention performer, which drops whole queries and keys alone; "
      "use token");
  refused("train_shakespeare", {"--attention", "performer", "--positions", "rotary"},
          "--positions rotary does not apply to --attention performer");
  for (const char* features : {"0", "-1", "2.5", "many"}) {
    refused("train_shakespeare", {"--attention", "performer", "--performer-features", features},
            "--performer-features " + std::string(features) + ": must be from 1 to 1000000, or auto");
  }
  refused("train_shakespeare", {"--attention", "performer", "--performer-redraw", "-1"},
          "--performer-redraw -1: must be from 0 to 1000000000");
  refused("train_shakespeare", {"--attention", "linear", "--performer-features", "8"},
          "--performer-features 8 does not apply to --attention linear");
  refused("train_shakespeare", {"--attention", "linear", "--positions", "rotary"},
          "--positions rotary does not apply to --attention linear");
  refused("train_shakespeare", {"--attention", "informer"},
          "--attention informer has no causal form (whether it chooses a query depends on later ones), which texts "
          "need; choose one of softmax");
  refused("train_shakespeare", {"--attention", "linformer"},
          "--attention linformer has no causal form (each of its slots mixes all tokens), which texts need");
  refused(
      "train_shakespeare", {"--attention", "bigbird"},
      "--attention bigbird has no causal form (every block sees the last one, and the first sees all), which texts "
      "need; choose one of softmax");
  refused("train_mnist", {"--attention", "linformer", "--linformer-rank", "50"},
          "--linformer-rank 50 does not apply to --attention linformer, whose rank is at most the 49 tokens of the "
          "model; use less");
  refused("train_mnist", {"--attention", "linformer", "--linformer-rank", "-1"}, "--linformer-rank");
  refused("train_mnist", {"--attention", "linformer", "--linformer-share", "all"}, "--linformer-share");
  refused("train_mnist", {"--attention", "longformer", "--window", "7"},
          "--window 7 does not apply to --attention longformer, half of which is on each side; use an even number");
  refused(
      "train_shakespeare", {"--attention", "poolingformer", "--window", "7"},
      "--window 7 does not apply to --attention poolingformer, half of which is on each side; use an even number");
  refused("train_shakespeare", {"--attention", "poolingformer", "--pooling", "sum"}, "--pooling");
  for (const char* dilation : {"0", "1,0", "-1", "1,", "one"}) {
    refused("train_mnist", {"--attention", "longformer", "--dilation", dilation},
            "--dilation " + std::string(dilation) + ": must be from 1 to 1073741824");
  }
  refused(
      "train_mnist", {"--attention", "longformer", "--heads", "2", "--dilation", "1,2,3"},
      "--dilation 1,2,3 does not apply to --attention longformer, of 2 heads; give one number for all, or one for "
      "each");
  refused("train_mnist", {"--attention", "bigbird", "--block", "0"}, "--block 0: must be from 1 to 1073741824");
  refused("train_mnist", {"--attention", "bigbird", "--random-blocks", "-1"},
          "--random-blocks -1: must be from 0 to 1073741824");
  refused("train_mnist", {"--attention", "reformer", "--chunk", "0"}, "--chunk 0: must be from 1 to 1048576");
  refused("train_mnist", {"--attention", "reformer", "--hashes", "0"}, "--hashes 0: must be from 1 to 1048576");
  refused("train_mnist", {"--attention", "informer", "--informer-factor", "0"},
          "--informer-factor 0: must be from 1 to 1000000");
  refused("train_mnist", {"--attention", "informer", "--linformer-rank", "8"},
          "--linformer-rank 8 does not apply to --attention informer");
  refused("train_mnist", {"--attention", "softmax", "--informer-queries", "8"},
          "--informer-queries 8 does not apply to --attention softmax");
  refused("train_shakespeare", {"--attention", "fastmax2", "--share", "heads"},
          "--share heads does not apply to --attention fastmax2");
  refused("train_shakespeare", {"--fastmax-form", "quadratic"},
          "--fastmax-form quadratic does not apply to --attention softmax");
  refused("train_shakespeare", {"--attention", "fastmax2", "--fastmax-form", "cubic"}, "--fastmax-form");
  refused("train_shakespeare", {"--attention-dropout", "0.1", "--dropout-kind", "token"},
          "--dropout-kind token does not apply to --attention softmax");
  refused("train_shakespeare", {"--attention", "fastmax2", "--dropout-kind", "token"},
          "--dropout-kind does not apply to --attention-dropout 0; give it a rate");
  refused("train_shakespeare", {"--attention", "fastmax2", "--dropout-normaliser", "shared"},
          "--dropout-normaliser does not apply to --attention-dropout 0; give it a rate");
  refused("train_shakespeare",
          {"--attention", "fastmax2", "--attention-dropout", "0.1", "--fastmax-form", "quadratic"},
          "--dropout-kind quadratic does not apply to --attention fastmax2, whose form quadratic has no features");
  refused("train_shakespeare", {"--attention", "fastformer", "--positions", "rotary"},
          "--positions rotary does not apply to --attention fastformer");
  refused("train_shakespeare", {"--precision", "tf32"},
          "--precision tf32 does not apply to --device cpu, which computes in float32; use --device cuda");
  refused("train_mnist", {"--precision", "bfloat16"}, "--precision bfloat16 does not apply to --device cpu");
  refused("train_shakespeare", {"--precision", "float64"}, "--precision");
  refused("compare", {"--precision", "bfloat16"}, "--precision bfloat16 does not apply to --device cpu");
  refused("train_shakespeare", {"--patch", "4"}, "--patch");
  refused("train_shakespeare", {"--steps", "4", "--epochs", "1"}, "--epochs");
  refused("train_mnist", {"--attention", "fastmax1", "--positions", "rotary"},
          "--positions rotary does not apply to --attention fastmax1");
  refused("train_mnist", {"--context", "4"}, "--context");
  refused("train_mnist", {"--warmup", "4"}, "--warmup");
  refused("train_mnist", {"--patch", "3"},
          "--patch 3: does not divide images of 28 pixels a side; choose one of 1, 2, 4, 7, 14, 28");
  refused("train_mnist", {"--bytes"}, "--bytes");
  refused("train_shakespeare", {"--transpose"}, "--transpose");
  refused("train_mnist", {"--steps", "4", "--epochs", "1"}, "--epochs");
  refused("compare", {"--attention", "softmax,linear", "--fastmax-scale", "sqrt"},
          "--fastmax-scale sqrt applies to none of --attention softmax,linear");
  refused("compare", {"--attention", "softmax,linear", "--share", "heads"},
          "--share heads applies to none of --attention softmax,linear");
  refused("compare", {"--attention", "softmax,longformer", "--window", "7"},
          "--window 7 does not apply to --attention longformer");
  refused("compare", {"--attention", "softmax,softmax"}, "--attention names softmax twice");
  refused("compare", {"--attention", "softmax,hardmax"}, "--attention");
  refused("compare", {"--task=poetry"}, "--task poetry: must be shakespeare or mnist");
  refused("compare", {"--task=mnist", "--min-lr", "0"}, "--min-lr");
  refused("attention_maps", {"model", "--resume"}, "--resume does not apply to a model that is trained already");
  for (const Arguments& flag :
       {Arguments{"--format", "tsv"}, {"--text-field", "2"}, {"--label-field", "1"}, {"--strict"}}) {
    refused("classify", Arguments{"--task", "speakers"} + flag,
            flag[0] + " does not apply to --task speakers, which reads a play; leave it out");
  }
  refused("classify", {"--task", "speakers", "--data-seed", "3"},
          "--data-seed does not apply to --task speakers without --stand-in");
  refused("classify", {"--task", "own-texts", "--data", shop / "data", "--stand-in"},
          "--stand-in does not apply to --task own-texts, for whose texts nothing stands in; leave it out");
  refused("compare", {"--task", "speakers", "--strict"}, "--strict does not apply to --task speakers");
  if (!stand_in_hidden("mnist")) {
    refused("train_mnist", {"--transpose"}, "--transpose does not apply to drawn digits; leave it out");
  }
}

TEST_CASE("a mechanism that refuses the lengths of the data: exit 2 before another one trains") {
  const Workshop shop;
  const auto refused = [&](const std::string& program, const Arguments& flags, const std::string& tokens) {
    CAPTURE(program);
    const Arguments rank{"--attention", "softmax,linformer", "--linformer-rank", "50"};
    const Ended ended = run_program(program, flags + rank);
    check_says(ended, 2,
               "--linformer-rank 50 does not apply to --attention linformer, whose rank is at most the " + tokens +
                   " tokens of the model; use less");
    CHECK_FALSE(std::filesystem::exists(shop / "run"));
  };
  refused("compare", shop.tiny_images("run") + Arguments{"--task", "mnist"}, "16");
  const Arguments few{"--users", "100", "--test-users", "10", "--steps", "1", "--out", shop / "run"};
  refused("recommend", few, "30");
  refused("convert", few, "30");
}

TEST_CASE("sample refuses flags out of range") {
  const auto refused = [](const Arguments& flags, const std::string& part) {
    CAPTURE(part);
    check_usage("sample", run_program("sample", flags), part);
  };
  refused({}, "model");
  refused({""}, "model: it names no file or folder");
  check_usage("attention_maps", run_program("attention_maps", {""}), "models: it names no file or folder");
  refused({"folder", "--tokens", "-1"}, "--tokens");
  refused({"folder", "--temperature", "-1"}, "--temperature");
  refused({"folder", "--temperature", "nan"}, "--temperature");
  refused({"folder", "--temperature", "1e-300"}, "--temperature 1e-300: must be 0, or from 0.01 to 100");
  refused({"folder", "--tokens", "99999999999999999999"}, "--tokens");
  refused({"folder", "--tokens", "99999999999999"}, "99999999999999 is not a whole number from 0 to 10000000");
  refused({"folder", "--top-k", "-1"}, "--top-k");
  refused({"folder", "--top-k", "5", "--temperature", "0"}, "--top-k does not apply to --temperature 0");
  refused({"folder", "--top-p", "0.5", "--temperature", "0"}, "--top-p does not apply to --temperature 0");
  for (const char* p : {"0", "1.1", "nan"}) refused({"folder", "--top-p", p}, "must be above 0, and at most 1");
}

TEST_CASE("epochs that have too few batches for one step: exit 2") {
  const Workshop shop;
  const Arguments flags{"--epochs", "2", "--accumulate", "5000", "--layers", "1", "--out", shop / "run"};
  const auto refused = [&](const std::string& program, const Arguments& task) {
    CAPTURE(program);
    check_says(run_program(program, flags + task), 2, "--accumulate 5000: all 2 epochs have only ");
    CHECK_FALSE(std::filesystem::exists(shop / "run"));
  };
  refused("train_mnist", {});
  refused("compare", {"--task", "mnist"});
  refused("ablations", {"--task", "mnist"});
}

TEST_CASE("a batch of more images than there are: exit 2") {
  const Workshop shop;
  const Ended ended = run_program("train_mnist", shop.tiny_images("run") + Arguments{"--batch", "1000000"});
  check_says(ended, 2, "--batch 1000000: there are ");
  check_says(ended, 2, " images; lower it\n");
  CHECK_FALSE(std::filesystem::exists(shop / "run"));
}

TEST_CASE("--resume of several runs: exit 2 where none of them began, but the others may be still to come") {
  const Workshop shop;
  const auto refused = [&](const std::string& program, const Arguments& flags) {
    CAPTURE(program);
    const std::string part = "--resume: none of the runs is in --out " + (shop / "all").string() + "; ";
    check_says(run_program(program, flags + Arguments{"--out", shop / "all", "--resume"}), 2, part);
    CHECK_FALSE(std::filesystem::exists(shop / "all"));
  };
  refused("compare", shop.tiny("all"));
  refused("ablations", shop.tiny("all") + Arguments{"--steps", "2", "--seeds", "1", "sharing"});
  refused("attention_maps", {"--figure", "--data", shop / "data", "--steps", "1"});

  CHECK(run_program("compare", shop.tiny("all") + Arguments{"--attention", "softmax"}).code == 0);
  CHECK(run_program("compare", shop.tiny("all") + Arguments{"--attention", "softmax,fastmax1", "--resume"}).code ==
        0);
  CHECK(std::filesystem::exists(shop / "all/fastmax1/model.safetensors"));
}
