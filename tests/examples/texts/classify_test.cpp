/// The program classify: training, resuming, word vectors, results of several runs, and refusals.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json.hpp>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

/// A folder with texts of two labels, 24 in each part, where programs can write.
class Texts {
 public:
  Texts() {
    fs::create_directories(folder_ / "data");
    int number = 0;
    for (const std::string part : {"train", "dev", "test"}) {
      std::string lines;
      for (int i = 0; i < 24; ++i, ++number) {
        lines += fmt::format("{}\tword{} says {} {}\n", i % 2 == 0 ? "odd" : "even", number % 7,
                             number % 3 == 0 ? "more and more" : "less", i % 2 == 0 ? "good" : "bad");
      }
      write_bytes(folder_ / ("data/" + part + ".tsv"), lines);
    }
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

  /// The flags of a very short run into the folder `out`.
  Arguments tiny(const std::string& out, const std::string& attention = "softmax") const {
    return {"--task",       "own-texts",   "--data",    folder_ / "data",
            "--out",        folder_ / out, "--steps",   "6",
            "--attention",  attention,     "--layers",  "1",
            "--width",      "16",          "--heads",   "2",
            "--eval-every", "2",           "--batch",   "8",
            "--context",    "32",          "--dropout", "0.1"};
  }

 private:
  linnet::test::TemporaryFolder folder_;
};

nlohmann::json results_of(const fs::path& run) { return nlohmann::json::parse(read_bytes(run / "results.json")); }

size_t lines_in(const fs::path& file) {
  if (!fs::exists(file)) return 0;
  const std::string text = read_bytes(file);
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

TEST_CASE("classify: every mechanism trains, with accuracy and macro-F") {
  const Texts shop;
  for (const std::string& attention : nn::attention_mechanisms()) {
    CAPTURE(attention);
    const Ended ended = done("classify", shop.tiny(attention, attention));
    CHECK(ended.out.find(attention + " on data (") == 0);
    CHECK(contains(ended.out, "test, of step "));
    CHECK(contains(ended.out, " %   macro-F "));
    const nlohmann::json results = results_of(shop / attention), config = config_of(shop / attention);
    CHECK(results["measures"]["macro-F"] <= 1);
    CHECK(config["settings"]["pool"] == "additive");
    CHECK(config["settings"]["min_count"] == 2);
    const std::string metrics = read_bytes(shop / attention / "metrics.jsonl");
    CHECK(contains(metrics, "\"macro-F\":"));
  }
  CHECK(names_in(shop / "softmax") == std::vector<std::string>{"checkpoint.safetensors", "config.json", "loss.png",
                                                               "metrics.jsonl", "model.safetensors", "results.json",
                                                               "train_loss.csv"});
}

TEST_CASE("classify learns which words a label has") {
  const Texts shop;
  done("classify", shop.tiny("run", "fastformer") + Arguments{"--steps", "60", "--lr", "0.01", "--min-lr", "0.01"});
  CHECK(results_of(shop / "run")["accuracy"] == 1);
  CHECK(results_of(shop / "run")["measures"]["macro-F"] == 1);
}

TEST_CASE("classify: a run that was killed ends with the bits of one that was not") {
  const Texts shop;
  write_bytes(shop / "v.txt", "good 1 2 3\nbad 3 2 1\nword1 0 1 0\n");
  const Arguments flags{"--steps", "60", "--eval-every", "5", "--checkpoint-every", "7", "--glove", shop / "v.txt"};
  done("classify", shop.tiny("whole") + flags);
  ChildProgram child("classify", shop.tiny("killed") + flags);
  while (child.running() && lines_in(shop / "killed/metrics.jsonl") < 4) {
  }
  child.kill();
  (void)child.wait();
  fs::rename(shop / "v.txt", shop / "moved.txt");  // the checkpoint has the vectors
  done("classify", {"--task", "own-texts", "--resume", "--out", shop / "killed"});
  CHECK(read_bytes(shop / "killed/model.safetensors") == read_bytes(shop / "whole/model.safetensors"));
  const nlohmann::json whole = results_of(shop / "whole"), killed = results_of(shop / "killed");
  for (const char* const field : {"step", "loss", "accuracy", "measures"}) CHECK(whole[field] == killed[field]);
  check_refused(
      run_program("classify", {"--task", "own-texts", "--resume", "--out", shop / "whole", "--min-count", "1"}), 2,
      "--min-count 1: the run in");
}

TEST_CASE("classify: the number of threads changes no bit") {
  const Texts shop;
  for (const std::string threads : {"1", "2"}) done("classify", shop.tiny(threads) + Arguments{"--threads", threads});
  CHECK(read_bytes(shop / "2/model.safetensors") == read_bytes(shop / "1/model.safetensors"));
}

TEST_CASE("classify: word vectors are what training begins with, through a linear map where their width differs") {
  const Texts shop;
  const auto begin = [&](const std::string& out, const std::string& vectors, const Arguments& flags) {
    write_bytes(shop / "v.txt", vectors);
    const Ended ended = done(
        "classify",
        shop.tiny(out) + Arguments{"--steps", "1", "--lr", "0", "--min-lr", "0", "--glove", shop / "v.txt"} + flags);
    CHECK(contains(ended.err, "v.txt: vectors of 1 words of "));
    return read_safetensors(shop / out / "model.safetensors").tensors;
  };
  const TensorMap mapped = begin("a", "says 1 2 3\n", {});
  CHECK(mapped.at("map.weight").shape() == Shape{16, 3});
  // The vocabulary has the most frequent word first, after padding and the unknown word.
  CHECK(mapped.at("tok.weight")[2].to_vector<float>() == std::vector<float>{1, 2, 3});
  const TensorMap plain = begin("b", "says 1 2 3 4\n", {"--width", "4"});
  CHECK(!plain.contains("map.weight"));
  CHECK(plain.at("tok.weight")[2].to_vector<float>() == std::vector<float>{1, 2, 3, 4});
  CHECK(plain.at("tok.weight")[0].to_vector<float>() == std::vector<float>{0, 0, 0, 0});
  write_bytes(shop / "v.txt", "says 1 2\nthe 1\n");
  check_refused(run_program("classify", shop.tiny("c") + Arguments{"--glove", shop / "v.txt"}), 1, "v.txt, line 2");
}

TEST_CASE(
    "classify --levels sentence: learns, goes on to the same bits, with word vectors, and stands apart in tables") {
  const Texts shop;
  const auto two_levels = [&](const std::string& out) {
    Arguments flags = shop.tiny(out, "fastformer");
    const auto context = std::ranges::find(flags, "--context");
    flags.erase(context, context + 2);
    return flags + Arguments{"--levels", "sentence"};
  };
  done("classify", two_levels("learned") + Arguments{"--steps", "60", "--lr", "0.01", "--min-lr", "0.01"});
  CHECK(results_of(shop / "learned")["accuracy"] == 1);
  CHECK(results_of(shop / "learned")["measures"]["macro-F"] == 1);
  CHECK(config_of(shop / "learned")["settings"]["levels"] == "sentence");

  write_bytes(shop / "v.txt", "good 1 2 3\nbad 3 2 1\nword1 0 1 0\n");
  const Arguments flags{"--steps", "60", "--eval-every", "5", "--checkpoint-every", "7", "--glove", shop / "v.txt"};
  const Ended whole = done("classify", two_levels("whole") + flags);
  CHECK(contains(whole.err, "v.txt: vectors of 3 words of "));
  ChildProgram child("classify", two_levels("killed") + flags);
  while (child.running() && lines_in(shop / "killed/metrics.jsonl") < 4) {
  }
  child.kill();
  (void)child.wait();
  fs::rename(shop / "v.txt", shop / "moved.txt");  // the checkpoint has the vectors
  done("classify", {"--task", "own-texts", "--resume", "--out", shop / "killed"});
  CHECK(read_bytes(shop / "killed/model.safetensors") == read_bytes(shop / "whole/model.safetensors"));
  write_bytes(shop / "v.txt", "says 1 2 3\n");  // the vector of the vocabulary's most frequent word
  done("classify",
       two_levels("begun") + Arguments{"--steps", "1", "--lr", "0", "--min-lr", "0", "--glove", shop / "v.txt"});
  const TensorMap state = read_safetensors(shop / "begun/model.safetensors").tensors;
  CHECK(state.at("map.weight").shape() == Shape{16, 3});
  CHECK(state.at("tok.weight")[2].to_vector<float>() == std::vector<float>{1, 2, 3});
  check_refused(
      run_program("classify", {"--task", "own-texts", "--resume", "--out", shop / "whole", "--levels", "word"}), 2,
      "--levels \"word\": the run in");

  done("classify", shop.tiny("word", "fastformer"));
  const Ended table = done("classify", {"--table", "--out", shop / ""});
  CHECK(contains(table.out, "levels sentence, "));

  std::string long_text = "a\t";
  for (int i = 0; i < 65; ++i) long_text += "word. ";
  write_bytes(shop / "data/train.tsv", read_bytes(shop / "data/train.tsv") + long_text + "\n");
  write_bytes(shop / "data/dev.tsv", "a\tword\n");
  const Ended cut = done("classify", two_levels("cut") + Arguments{"--attention", "softmax"});
  CHECK(contains(cut.err, "): 1 of 50 texts are cut to 64 sentences of 64 words (--levels sentence)"));
}

TEST_CASE("compare and bench take --levels sentence, which refuses what does not apply") {
  const Texts shop;
  const Ended ended = done(
      "compare", {"--task",  "own-texts", "--data",   shop / "data", "--out",       shop / "compared",  "--steps",
                  "2",       "--layers",  "1",        "--width",     "16",          "--heads",          "2",
                  "--batch", "8",         "--levels", "sentence",    "--attention", "softmax,linformer"});
  CHECK(contains(ended.out, "levels sentence"));
  CHECK(contains(ended.out, "macro-F"));
  const Ended bench = done("bench", {"--json", "--seconds", "0.001", "step", "--preset", "classify-own-texts-small",
                                     "--levels", "sentence", "--batch", "2", "--width", "16"});
  CHECK(nlohmann::json::parse(bench.out)["data"] == "random tokens");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--levels", "sentence"}), 2,
                "--context 32 does not apply to --levels sentence, which reads the first 64 words of the first 64 "
                "sentences; leave it out");
  check_refused(run_program("classify",
                            shop.tiny("x") + Arguments{"--levels", "sentence", "--context", "512", "--pool", "kept"}),
                2, "--pool kept does not apply to --levels sentence, which takes additive; leave it out");
  check_refused(
      run_program("classify",
                  shop.tiny("x") + Arguments{"--levels", "sentence", "--context", "512", "--shards", "2"}),
      2,
      "--shards 2 does not apply to --levels sentence, whose batches have the sentences of all texts one after "
      "another; leave it out");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--levels", "page"}), 2, "--levels");
  CHECK(!fs::exists(shop / "x"));
}

TEST_CASE("classify: a table and figures of several runs, beside published ones") {
  const Texts shop;
  for (const std::string seed : {"1", "2"}) {
    done("classify", shop.tiny("runs/softmax-" + seed) + Arguments{"--seed", seed});
  }
  done("classify", shop.tiny("runs/fastformer", "fastformer") + Arguments{"--seed", "1"});
  const Ended table = done("classify", {"--table", "--out", shop / "runs"});
  const double first = results_of(shop / "runs/softmax-1")["measures"]["macro-F"],
               second = results_of(shop / "runs/softmax-2")["measures"]["macro-F"];
  CHECK(contains(table.out, fmt::format("{:.2f} ± ", 50 * (first + second))));
  CHECK(contains(table.out, "macro-F, %"));
  CHECK(contains(table.out, "44.65"));  // Fastformer's macro-F on IMDB
  CHECK(!contains(table.out, "linnet, presets"));
  const Ended figures = done("classify", {"--figures", "--out", shop / "runs"});
  CHECK(figures.out.starts_with((shop / "runs/classify-own-texts-").string()));
  CHECK(fs::exists(figures.out.substr(0, figures.out.find('\n'))));
  check_refused(run_program("classify", {"--table", "--out", shop / "data"}), 1, "holds no finished run of classify");
}

TEST_CASE("compare, bench and ablations take texts with labels") {
  const Texts shop;
  const Ended ended = done("compare", shop.tiny("compared") + Arguments{"--attention", "softmax,fastformer"});
  CHECK(contains(ended.out, "accuracy"));
  CHECK(contains(ended.out, "macro-F"));
  const Ended bench = done("bench", {"--json", "--seconds", "0.001", "step", "--preset", "classify-own-texts-small",
                                     "--context", "24", "--batch", "2", "--width", "16"});
  CHECK(nlohmann::json::parse(bench.out)["data"] == "random tokens");
  std::string play;
  for (int i = 0; i < 12; ++i) {
    for (const std::string name : {"A", "B"}) play += fmt::format("{}:\nto be or {} {}\n\n", name, i, name);
  }
  write_bytes(shop / "play.txt", play);
  const Ended ablations = done(
      "ablations", {"interaction", "--task", "speakers", "--data", shop / "play.txt", "--out", shop / "ablations",
                    "--seeds", "1", "--steps", "2", "--batch", "4", "--width", "16", "--heads", "2"});
  CHECK(contains(ablations.out, "accuracy, %"));
  CHECK(fs::exists(shop / "ablations/interaction.png"));
}

TEST_CASE("compare --seeds: the mean and the sample standard deviation of runs that classify --table groups") {
  const Texts shop;
  const Arguments flags = shop.tiny("runs") + Arguments{"--attention", "softmax,linear", "--seed", "5"};
  const Ended ended = done("compare", flags + Arguments{"--seeds", "3"});
  CHECK(contains(ended.out,
                 "seeds 5 to 7; test data, by the weights with the best validation accuracy; mean ± sample "
                 "standard deviation"));
  double sum = 0, squares = 0, time = 0;
  for (const std::string run : {"softmax-5", "softmax-6", "softmax-7"}) {
    const nlohmann::json results = results_of(shop / "runs" / run);
    const double accuracy = 100 * results["accuracy"].get<double>();
    sum += accuracy, squares += accuracy * accuracy, time += results["ms_per_step"].get<double>();
    CHECK(config_of(shop / "runs" / run)["settings"]["seed"] == run.back() - '0');
  }
  const double deviation = std::sqrt((squares - sum * sum / 3) / 2);
  CHECK(deviation > 0);
  const std::string row = ended.out.substr(ended.out.rfind("\nsoftmax "));  // of the table
  CHECK(contains(row.substr(0, row.find('\n', 1)), fmt::format("{:.2f} ± {:.2f} %", sum / 3, deviation)));
  CHECK(contains(row.substr(0, row.find('\n', 1)), fmt::format(" {:.1f} ", time / 3)));
  CHECK(contains(row, "\nlinear "));
  const Ended table = done("classify", {"--table", "--out", shop / "runs"});
  CHECK(contains(table.out, fmt::format("{:.2f} ± {:.2f} (3 seeds)", sum / 3, deviation)));

  done("compare", flags + Arguments{"--out", shop / "one"});
  CHECK(fs::exists(shop / "one/softmax/results.json"));  // a single seed has no number in its folder's name
  fs::remove_all(shop / "runs/linear-7");
  const std::string before = read_bytes(shop / "runs/softmax-6/model.safetensors");
  CHECK(contains(done("compare", flags + Arguments{"--seeds", "4", "--resume"}).out, "seeds 5 to 8"));
  CHECK(read_bytes(shop / "runs/softmax-6/model.safetensors") == before);
  CHECK(read_bytes(shop / "runs/softmax-5/model.safetensors") == read_bytes(shop / "one/softmax/model.safetensors"));
  CHECK(fs::exists(shop / "runs/linear-8/results.json"));
  // If a run exists already, the program ends before the first run trains.
  check_refused(
      run_program("compare", flags + Arguments{"--seeds", "2", "--seed", "8", "--attention", "softmax,linear"}), 1,
      "softmax-8");
  CHECK(!fs::exists(shop / "runs/softmax-9"));
  check_refused(run_program("compare", flags + Arguments{"--seeds", "0"}), 2, "--seeds");
}

TEST_CASE("classify: a preset's constant rate stays constant where --lr gives another") {
  const Texts shop;
  done("classify", shop.tiny("run") + Arguments{"--steps", "1", "--lr", "5e-4"});
  CHECK(config_of(shop / "run")["settings"]["min_lr"] == 5e-4);
  done("classify", shop.tiny("falls") + Arguments{"--steps", "1", "--lr", "5e-4", "--min-lr", "1e-4"});
  CHECK(config_of(shop / "falls")["settings"]["min_lr"] == 1e-4);
}

TEST_CASE("classify says what stands in for absent data, and what is malformed") {
  const Texts shop;
  const Arguments flags = shop.tiny("x") + Arguments{"--task", "imdb"};
  check_refused(run_program("classify", flags), 1, "no IMDb reviews ({train,test}/{neg,pos}/*.txt) in ");
  const Ended ended = done("classify", flags + Arguments{"--stand-in", "--data-seed", "3"});
  CHECK(contains(ended.err, "taking generated texts whose label is the order of two words instead"));
  CHECK(contains(ended.out, "stand-in: generated texts"));
  CHECK(config_of(shop / "x")["data"].get<std::string>().starts_with("stand-in: "));

  for (const Arguments& flag :
       {Arguments{"--strict"}, {"--text-field", "x"}, {"--label-field", "y"}, {"--format", "csv"}}) {
    const Arguments reviews{"--task", "amazon", "--stand-in", "--out", shop / "z"};
    check_refused(run_program("classify", reviews + flag), 2, flag[0] + " does not apply to the generated data that");
  }

  const std::string train = read_bytes(shop / "data/train.tsv");
  write_bytes(shop / "data/train.tsv", train + "no tab\n");
  const Ended rest = done("classify", shop.tiny("y"));
  CHECK(contains(rest.err, "train.tsv, line 25: 1 column, where 2 or more are expected; left out"));
  CHECK(contains(rest.err, "data: left out 1 malformed text; --strict ends at the first"));
  check_refused(run_program("classify", shop.tiny("z") + Arguments{"--min-count", "1"} + Arguments{"--strict"}), 1,
                "train.tsv, line 25: 1 column");
  CHECK(!fs::exists(shop / "z"));
}

TEST_CASE("classify --resume goes on with a stand-in for what --data lacked, even if the set is there by then") {
  const Texts shop;
  fs::create_directories(shop / "mine");
  const Arguments data{"--data", shop / "mine"};
  const Arguments flags = shop.tiny("run") + Arguments{"--task", "amazon", "--stand-in"} + data;
  done("classify", flags);
  fs::create_directories(shop / "mine/amazon");
  write_bytes(shop / "mine/amazon/reviews_Electronics_5.json", "{}");
  const Arguments resume{"--task", "amazon", "--resume", "--steps", "8", "--out", shop / "run"};
  for (const Arguments& again : {resume, resume + data}) {
    const Ended ended = done("classify", again);
    CHECK(ended.err.starts_with("the run began without Amazon reviews: taking "));
  }
  fs::rename(shop / "mine/amazon", shop / "amazon");  // another place, whose data are looked at
  const Ended other = run_program("classify", resume + Arguments{"--data", shop / "amazon"});
  CHECK(other.code == 1);
  CHECK(contains(other.err, "learned from stand-in: generated texts"));
}

TEST_CASE("classify refuses what cannot work before it reads data") {
  const Texts shop;
  check_refused(run_program("classify", {"--task", "chess"}), 2, "--task chess: must be speakers or amazon");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--format", "xml"}), 2, "--format");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--vocabulary", "0"}), 2, "--vocabulary");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--batch", "100"}), 2,
                "--batch 100: there are 24 examples");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--data", "/none"}), 1, "/none");
  check_refused(run_program("classify", shop.tiny("x") + Arguments{"--data", "/none", "--glove", "/vectors.txt"}), 1,
                "--glove /vectors.txt: there is no such file");
  CHECK(!fs::exists(shop / "x"));
}
