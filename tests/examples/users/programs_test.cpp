/// The programs recommend and convert: results, stopping and resuming, predictions, and errors.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/core/files/safetensors.h>
#include <nlohmann/json.hpp>

#include "tests/examples/run/tiny_run.h"
#include "tests/support/files.h"

using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

const fs::path kMind = fs::path(LINNET_TEST_DATA) / "goldens/mind";

/// The flags of a very short run into the folder `out`, on data that further flags name.
Arguments small_model(const fs::path& out) {
  return {"--out",   out, "--width",      "16", "--heads",        "2", "--batch", "8",
          "--steps", "6", "--eval-every", "2",  "--eval-batches", "1"};
}

/// The same on generated data.
Arguments small_run(const fs::path& out) {
  return small_model(out) + Arguments{"--users", "60", "--test-users", "20"};
}

/// The flags without this one and its value.
Arguments without(const std::string& flag, Arguments flags) {
  const auto at = std::ranges::find(flags, flag);
  flags.erase(at, at + 2);
  return flags;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

nlohmann::json results_in(const fs::path& run) { return nlohmann::json::parse(read_bytes(run / "results.json")); }

/// The measures and losses of a run's evaluations, without times.
std::vector<nlohmann::json> evaluations(const fs::path& run) {
  std::istringstream lines(read_bytes(run / "metrics.jsonl"));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    all.push_back({json.at("step"), json.at("val_loss"), json.at("measures")});
  }
  return all;
}

}  // namespace

TEST_CASE(
    "recommend: measures of generated clicks beside chance, the same from the same seed, for several mechanisms") {
  const TemporaryFolder folder;
  const Ended ended = done("recommend", small_run(folder / "a") + Arguments{"--attention", "fastformer,softmax"});
  for (const std::string part : {"stand-in: generated clicks (60 users", "AUC", "nDCG@10", "\nchance:  AUC 0.",
                                 "\nfastformer ", "\nsoftmax "}) {
    CAPTURE(part);
    CHECK(has(ended.out, part));
  }
  CHECK_FALSE(has(ended.out, "Wu et al. 2021, table 5"));
  done("recommend", small_run(folder / "b"));
  const nlohmann::json first = results_in(folder / "a/fastformer"), second = results_in(folder / "b/fastformer");
  CHECK(first.at("measures") == second.at("measures"));
  CHECK(first.at("loss") == second.at("loss"));
  CHECK(first.at("measures").size() == 4);
  CHECK(evaluations(folder / "a/fastformer").size() == 4);
  for (const std::string encoder : {"nrms", "mean"}) {
    CAPTURE(encoder);
    const Arguments flags = encoder == "mean"
                                ? without("--heads", small_run(folder / encoder)) + Arguments{"--width", "15"}
                                : small_run(folder / encoder);
    const Ended other = done("recommend", flags + Arguments{"--encoder", encoder});
    CHECK(has(other.out, "\n" + encoder + " "));
    CHECK(has(other.out, "encoder " + encoder));
  }
}

TEST_CASE("recommend: MIND's files, published results, and predictions of dev") {
  const TemporaryFolder folder;
  const Arguments flags = small_model(folder / "run") + Arguments{"--data", kMind};
  const Ended ended = done("recommend", flags + Arguments{"--predictions", folder / "ranks.txt"});
  CHECK(has(ended.out, "Wu et al. 2021, table 5"));
  CHECK(has(ended.out, "Fastformer               0.6911"));
  CHECK(has(ended.out, "\nmind ("));
  CHECK(has(ended.err, "candidates are not in news.tsv, and are left out"));
  std::istringstream lines(read_bytes(folder / "ranks.txt")), others(read_bytes(kMind / "predictions.txt"));
  int64_t count = 0;
  for (std::string line, other; std::getline(lines, line) && std::getline(others, other); ++count) {
    CAPTURE(line);
    CHECK(line.substr(0, line.find('[')) == other.substr(0, other.find('[')));
    auto ranks = nlohmann::json::parse(line.substr(line.find('['))).get<std::vector<int>>();
    std::ranges::sort(ranks);
    for (size_t i = 0; i < ranks.size(); ++i) CHECK(ranks[i] == static_cast<int>(i) + 1);
    CHECK(std::ranges::count(line, ',') == std::ranges::count(other, ','));
  }
  CHECK(count == 60);
  const std::string before = read_bytes(folder / "ranks.txt");
  done("recommend", flags + Arguments{"--predictions", folder / "again.txt", "--resume"});
  CHECK(read_bytes(folder / "again.txt") == before);
}

TEST_CASE("recommend --glove: titles begin with word vectors, through a linear map where their width differs") {
  const TemporaryFolder folder;
  const auto state_of = [&](const std::string& out, const std::string& vectors, const Arguments& flags) {
    write_bytes(folder / "v.txt", vectors);
    const Ended ended =
        done("recommend", small_model(folder / out) +
                              Arguments{"--data", kMind, "--glove", folder / "v.txt", "--steps", "1", "--lr", "0"} +
                              flags);
    CHECK(has(ended.err, "v.txt: vectors of 1 words of "));
    return linnet::read_safetensors(folder / out / (flags.empty() ? "fastformer" : "nrms") / "model.safetensors")
        .tensors;
  };
  std::string wide = "back";
  std::vector<float> numbers;
  for (int i = 0; i < 30; ++i) {
    wide += fmt::format(" {}", i);
    numbers.push_back(static_cast<float>(i));
  }
  const linnet::TensorMap mapped = state_of("a", wide + "\n", {"--encoder", "nrms"});
  CHECK(mapped.at("map.weight").shape() == linnet::Shape{16, 30});
  CHECK(mapped.at("items.attention.qkv.weight").shape() == linnet::Shape{48, 16});
  const auto row_of = [](const linnet::TensorMap& state, const std::vector<float>& row) {
    const linnet::Tensor& words = state.at("words.weight");
    int64_t count = 0;
    for (int64_t i = 0; i < words.size(0); ++i) count += words[i].to_vector<float>() == row ? 1 : 0;
    return count;
  };
  CHECK(row_of(mapped, numbers) == 1);
  const linnet::TensorMap plain = state_of("b", "back 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n", {});
  CHECK(!plain.contains("map.weight"));
  numbers.resize(16);
  CHECK(row_of(plain, numbers) == 1);

  // A resumed run has its vectors in the checkpoint.
  fs::remove(folder / "v.txt");
  const Arguments again{"--data", kMind, "--glove", folder / "v.txt", "--steps", "1", "--lr", "0", "--resume"};
  for (const Arguments& run :
       {small_model(folder / "a") + Arguments{"--encoder", "nrms"}, small_model(folder / "b")}) {
    const Ended ended = done("recommend", run + again);
    CHECK_FALSE(has(ended.err, "v.txt"));
  }
}

TEST_CASE("recommend and convert --seeds: means over the seeds, and ratios of them") {
  const TemporaryFolder folder;
  const Ended clicks = done("recommend", small_run(folder / "clicks") + Arguments{"--seeds", "2", "--seed", "3"});
  CHECK(has(clicks.out, "seeds 3 to 4"));
  const double first = results_in(folder / "clicks/fastformer-3").at("measures").at("AUC"),
               second = results_in(folder / "clicks/fastformer-4").at("measures").at("AUC");
  CHECK(has(clicks.out,
            fmt::format(" {:.4f} ± {:.4f} ", (first + second) / 2, std::abs(first - second) / std::sqrt(2))));
  const Ended users = done("convert", small_run(folder / "users") +
                                          Arguments{"--seeds", "2", "--seed", "3", "--attention", "softmax,linear"});
  const auto mean = [&](const std::string& mechanism, const auto& value) {
    return (value(results_in(folder / "users" / (mechanism + "-3"))) +
            value(results_in(folder / "users" / (mechanism + "-4")))) /
           2;
  };
  const auto auc = [](const nlohmann::json& json) { return json.at("measures").at("AUC").template get<double>(); };
  const std::string ratios = users.out.substr(users.out.find("change from softmax attention"));
  const std::string row = ratios.substr(ratios.find("\nlinear "));
  CHECK(has(row.substr(0, row.find('\n', 1)),
            fmt::format(" {:+.1f} % ", 100 * (mean("linear", auc) / mean("softmax", auc) - 1))));
  CHECK(has(ratios, "\nsoftmax "));
  CHECK(has(users.out, "latency, ms"));
}

TEST_CASE("recommend and convert: a run that stopped goes on to the same bits") {
  for (const std::string program : {"recommend", "convert"}) {
    CAPTURE(program);
    const TemporaryFolder folder;
    const Arguments whole =
        small_run(folder / "whole") + Arguments{"--attention", "softmax", "--checkpoint-every", "2"};
    const Arguments other = whole + Arguments{"--out", folder / "other"};
    done(program, whole);
    done(program, other);
    const Arguments killed = whole + Arguments{"--out", folder / "killed"};
    run_program("/bin/sh", Arguments{"-c",
                                     "\"$0\" \"$@\" & child=$!; while ! [ -s " +
                                         (folder / "killed/softmax/metrics.jsonl").string() +
                                         " ]; do sleep 0.01; done; kill -9 $child; wait $child",
                                     fs::path(LINNET_BIN_DIR) / program} +
                               killed);
    done(program, killed + Arguments{"--resume"});
    CHECK(read_bytes(folder / "whole/softmax/model.safetensors") ==
          read_bytes(folder / "killed/softmax/model.safetensors"));
    CHECK(evaluations(folder / "whole/softmax") == evaluations(folder / "killed/softmax"));
    CHECK(read_bytes(folder / "whole/softmax/model.safetensors") ==
          read_bytes(folder / "other/softmax/model.safetensors"));
  }
}

TEST_CASE("convert: loss, AUC, precision, memory and latency for each mechanism, beside the best and the paper's") {
  const TemporaryFolder folder;
  const Ended ended = done("convert", small_run(folder / "run") + Arguments{"--attention", "softmax,fastformer"});
  for (const std::string part :
       {"generated users (60 to learn from, 20 each for dev and test, sharpness 1, seed 1)", "losses on test data",
        "AUC", "AP", "peak memory", "latency", "99 %", "AUC of the probabilities that drew the labels: 0.",
        "Fastformer, Wu et al. 2021, table 8", "+1.3 %", "-16.7 %", "-7.2 %", "\nfastformer ", "\nsoftmax "}) {
    CAPTURE(part);
    CHECK(has(ended.out, part));
  }
  CHECK(results_in(folder / "run/softmax").at("measures").contains("AP"));
}

TEST_CASE("recommend and convert: what they refuse") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& program, const Arguments& flags, int code, const std::string& part) {
    CAPTURE(part);
    const bool has_data = std::ranges::count(flags, "--data") > 0;
    const Arguments run = has_data ? small_model(folder / "run") : small_run(folder / "run");
    check_refused(run_program(program, run + flags), code, part);
  };
  refused("recommend", {"--items", "10"}, 2, "--items: 10 is not a whole number from 100 to 1000000");
  refused("recommend", {"--users", "100000000000000"}, 2,
          "--users: 100000000000000 is not a whole number from 1 to 1000000");
  refused("recommend", {"--title-words", "0"}, 2, "--title-words: 0 is not a whole number from 1 to 10000");
  refused("recommend", {"--history", "0"}, 2, "--history: 0 is not a whole number from 1 to 10000");
  refused("recommend", {"--width", "10", "--heads", "4"}, 2, "--width 10 is not a multiple of --heads 4");
  refused("recommend", {"--dropout", "1"}, 2, "--dropout 1: must lie from 0 to 0.99");
  refused("recommend", {"--lr", "nan"}, 2, "--lr nan: must lie from 0 to 1000");
  refused("recommend", {"--layers", "1001"}, 2, "--layers 1001: must be at most 1000");
  refused("recommend", {"--batch", "61"}, 2, "--batch 61: there are 60 clicks to learn from; lower it");
  refused("recommend", {"--encoder", "mean", "--heads", "8"}, 2,
          "--heads does not apply to --encoder mean, which has no layers; leave it out");
  refused("recommend", {"--encoder", "none"}, 2, "--encoder: none not in {layers,nrms,mean}");
  for (const std::string attention : {"all", "softmax", "fastformer"}) {
    refused("recommend", {"--encoder", "nrms", "--attention", attention}, 2,
            "--attention does not apply to --encoder nrms, which is one softmax attention without positions");
    refused("recommend", {"--encoder", "mean", "--attention", attention}, 2,
            "--attention does not apply to --encoder mean, which has no layers; leave it out");
  }
  refused("recommend", {"--predictions", folder / "none/x"}, 2, "there is no folder");
  refused("recommend", {"--predictions", folder / "."}, 2, " is a folder; name a file in it");
  refused("recommend", {"--attention", "softmax,fastformer", "--predictions", folder / "x"}, 2,
          "--predictions takes the ranks of one model, and --attention and --seeds give 2");
  refused("recommend", {"--seeds", "3", "--predictions", folder / "x"}, 2,
          "--predictions takes the ranks of one model, and --attention and --seeds give 3");
  refused("recommend", {"--glove", folder / "v.txt"}, 2,
          "--glove " + (folder / "v.txt").string() +
              " does not apply to generated clicks, which have no words; name MIND's folder with --data");
  refused("recommend", {"--glove", folder / "none.txt", "--data", kMind}, 1, "none.txt");
  write_bytes(folder / "v.txt", "back 1 2\ntrade 1 2 3\n");
  refused("recommend", {"--glove", folder / "v.txt", "--data", kMind}, 1, "v.txt, line 2");
  refused("convert", {"--glove", folder / "v.txt"}, 2, "--glove");
  refused("recommend", {"--glove", folder / "none.txt", "--data", folder / "none"}, 1, "there is no such file\n");
  for (const std::string flag : {"--users", "--test-users", "--items", "--data-seed"}) {
    refused("recommend", {"--data", kMind, flag, "200"}, 2, flag + " does not apply to --data");
  }
  refused("convert", {"--data", kMind, "--sharpness", "2"}, 2, "--sharpness does not apply to --data, whose users");
  refused("convert", {"--data", kMind, "--data-seed", "2"}, 2, "--data-seed does not apply to --data with parts");
  refused("convert", {"--strict"}, 2, "--strict does not apply to generated data, which have no lines");
  for (const Arguments& flag : {Arguments{"--layers", "2"}, {"--positions", "none"}, {"--share", "layers"}}) {
    refused("recommend", Arguments{"--encoder", "nrms"} + flag, 2, flag[0] + " does not apply to --encoder nrms");
    refused("recommend", Arguments{"--encoder", "mean"} + flag, 2, flag[0] + " does not apply to --encoder mean");
  }
  for (const std::string flag : {"--dropout", "--short-conv", "--attention-dropout"}) {
    refused("recommend", {"--encoder", "mean", flag, "0"}, 2, flag + " does not apply to --encoder mean");
  }
  refused("recommend", {"--data", folder / "none"}, 1, "there is no such file or folder");
  refused("recommend", {"--data", folder.path()}, 1, "no MIND (train/ and dev/");
  refused("recommend", {"--preset", "conversion"}, 2, "the presets for recommendation are clicks-small, mind");
  refused("convert", {"--sharpness", "-1"}, 2, "--sharpness: -1 is not a number from 0 to 1000");
  refused("convert", {"--items", "200"}, 2, "--items");
  refused("convert", {"--data", folder.path()}, 1, "no train.jsonl in --data");
  refused("convert", {"--batch", "61"}, 2, "--batch 61: there are 60 users to learn from; lower it");
  CHECK_FALSE(fs::exists(folder / "run"));
}
