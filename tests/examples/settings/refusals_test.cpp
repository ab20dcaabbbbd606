/// Command lines, files and folders that the programs must refuse: what they say, and with which exit code.

#include <doctest/doctest.h>

#include <algorithm>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/run/tiny_run.h"
#include "tests/support/gpu.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

void check_says(const Ended& ended, int code, const std::string& part) {
  CAPTURE(ended.out);
  CAPTURE(ended.err);
  CHECK(ended.code == code);
  CHECK(ended.err.find(part) != std::string::npos);
}

/// A wrong command line comes with one line on stderr, which the program's name begins.
void check_usage(const std::string& program, const Ended& ended, const std::string& part) {
  check_says(ended, 2, part);
  CHECK(ended.err.starts_with(program + ": "));
  CHECK(std::ranges::count(ended.err, '\n') == 1);
}

/// Exit code 1 comes with one line on stderr, behind another where a stand-in for the data was taken.
void check_fails(const Ended& ended, const std::string& part, bool with_stand_in = false) {
  check_says(ended, 1, part);
  CHECK(std::ranges::count(ended.err, '\n') == (with_stand_in ? 2 : 1));
}

}  // namespace

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
  refused({"--share", "none,layers"}, "--share none,layers: none stands alone");
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
  for (const std::string program :
       {"train_text", "train_mnist", "sample", "compare", "attention_maps", "ablations", "bench", "recommend"}) {
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
  refused("compare", {"--fastmax-scale", "sqrt"}, "--fastmax-scale");
  refused("compare", {"--attention", "softmax,softmax"}, "--attention names softmax twice");
  refused("compare", {"--attention", "softmax,hardmax"}, "--attention");
  refused("compare", {"--task=poetry"}, "--task poetry: must be shakespeare or mnist");
  refused("compare", {"--task=mnist", "--min-lr", "0"}, "--min-lr");
  refused("attention_maps", {"model", "--resume"}, "--resume does not apply to a model that is trained already");
}

TEST_CASE("sample refuses flags out of range") {
  const auto refused = [](const Arguments& flags, const std::string& part) {
    CAPTURE(part);
    check_usage("sample", run_program("sample", flags), part);
  };
  refused({}, "model");
  refused({"folder", "--tokens", "-1"}, "--tokens");
  refused({"folder", "--temperature", "-1"}, "--temperature");
  refused({"folder", "--temperature", "nan"}, "--temperature");
  refused({"folder", "--temperature", "1e-300"}, "--temperature 1e-300: must be 0, or from 0.01 to 100");
  refused({"folder", "--tokens", "99999999999999999999"}, "--tokens");
  refused({"folder", "--tokens", "99999999999999"}, "99999999999999 is not a whole number from 0 to 10000000");
  refused({"folder", "--top-k", "-1"}, "--top-k");
  refused({"folder", "--top-k", "5", "--temperature", "0"}, "--top-k does not apply to --temperature 0");
}

TEST_CASE("a device that does not answer: exit 1, before any work") {
  if (linnet::test::gpu_answers()) return;
  const Workshop shop;
  check_fails(run_program("train_shakespeare", shop.tiny("run") + Arguments{"--device", "cuda"}), "--device cpu");
  CHECK_FALSE(std::filesystem::exists(shop / "run"));
  check_fails(run_program("sample", {shop / "run", "--device", "cuda"}), "--device cpu");
}

TEST_CASE("data that cannot be trained on: exit 1, naming it") {
  const Workshop shop;
  const auto refused = [&](const std::string& part) {
    CAPTURE(part);
    check_fails(run_program("train_shakespeare", shop.tiny("run")), part);
    CHECK_FALSE(std::filesystem::exists(shop / "run"));
  };
  shop.set_text("");
  refused("input.txt is empty");
  const std::string path = (shop / "data/tinyshakespeare/input.txt").string();
  shop.set_text("To be, or not to be");
  refused(
      "train_shakespeare: " + path +
      " has 19 characters, too few for --context 16: it takes 161 or more, since the last tenth is for validation; "
      "lower --context to 1, or take a longer text\n");
  shop.set_text(std::string(160, 'a'));
  refused(path + " has 160 characters, too few for --context 16: it takes 161 or more");
  refused("lower --context to 15, or take");
  shop.set_text("To be, or");
  refused(path + " has 9 characters, too few for any context: it takes 11 or more");
  check_fails(run_program("train_shakespeare", {"--data", shop / "nowhere", "--out", shop / "run"}),
              "nowhere: there is no such file or folder");
  std::filesystem::create_directories(shop / "empty");
  check_fails(run_program("train_shakespeare", {"--data", shop / "empty", "--out", shop / "run"}),
              "empty has no text: no name in it ends in .txt; examples/fetch_data.sh gets Tiny Shakespeare");
  std::filesystem::create_directories(shop / "data/mnist");
  check_fails(run_program("train_mnist", {"--data", shop / "data", "--out", shop / "run"}),
              "no train-images-idx3-ubyte is in");
  write_bytes(shop / "data/mnist/train-images-idx3-ubyte", "no images");
  write_bytes(shop / "data/mnist/train-labels-idx1-ubyte", "no labels");
  check_fails(run_program("train_mnist", {"--data", shop / "data", "--out", shop / "run"}),
              "train-images-idx3-ubyte is not an IDX file: it starts with 6e 6f 20 69");
}

TEST_CASE("the shortest text for a context trains, and is counted in characters") {
  const Workshop shop;
  std::string text;
  for (int i = 0; i < 161; ++i) text += "é";
  shop.set_text(text);
  CHECK(run_program("train_shakespeare", shop.tiny("run")).code == 0);
  shop.set_text(text.substr(2));
  check_fails(run_program("train_shakespeare", shop.tiny("other")), "has 160 characters, too few");
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

TEST_CASE("output that cannot be written: exit 1, with one line that says so") {
  const Workshop shop;
  const auto refused = [](const std::string& program, const Arguments& flags) {
    CAPTURE(program);
    const auto to = [&](const std::string& where) {
      const std::string path = std::filesystem::path(LINNET_BIN_DIR) / program;
      return run_program("/bin/sh", Arguments{"-c", "\"$0\" \"$@\" " + where, path} + flags);
    };
    check_fails(to("> /dev/full"), "cannot write the output: No space left on device; free some space, or");
    check_fails(to(">&-"), "cannot write the output: Bad file descriptor; ");
  };
  CHECK(run_program("train_shakespeare", shop.tiny("run")).code == 0);
  refused("sample", {shop / "run", "--tokens", "5"});
  refused("sample", {"--help"});
  refused("bench", {"--json", "--seconds", "0.001", "attention", "--tokens", "16"});
  refused("recommend", {"--users", "8", "--test-users", "2", "--items", "100", "--steps", "1", "--batch", "8"});
  refused("attention_maps", {shop / "run", "--prompt", "to be", "--out", shop / "maps"});
}

TEST_CASE("a text without a new line trains and samples too") {
  const Workshop shop;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ACGT"[i * i % 7 % 4];
  shop.set_text(text);
  const Ended ended = run_program("train_shakespeare", shop.tiny("run"));
  CHECK(ended.code == 0);
  CHECK(ended.err == "");
  CHECK(std::filesystem::exists(shop / "run/samples.txt"));
  const Ended sample = run_program("sample", {shop / "run", "--tokens", "20"});
  CHECK(sample.code == 0);
  CHECK(sample.err == "");
  CHECK(sample.out.starts_with("A"));
  CHECK(sample.out.size() == 22);
  check_usage("sample", run_program("sample", {shop / "run", "--prompt", "\n"}),
              "--prompt: the character with code 10");
}

TEST_CASE("an output folder that cannot be written: exit 1") {
  const Workshop shop;
  write_bytes(shop / "file", "");
  check_fails(run_program("train_shakespeare", shop.tiny("file/run")), "--out: cannot make ");
  Arguments flags = shop.tiny("run");
  flags[3] = "/proc/linnet";
  const std::string part = "--out: cannot make /proc/linnet: No such file or directory; choose another folder";
  check_fails(run_program("train_shakespeare", flags), part);
  check_fails(run_program("bench", {"scaling", "--out", "/proc/linnet"}), part);
}

TEST_CASE("an output folder that holds a run: exit 1, and the run is left alone") {
  const Workshop shop;
  CHECK(run_program("train_shakespeare", shop.tiny("all/fastmax2")).code == 0);
  const std::string config = read_bytes(shop / "all/fastmax2/config.json");
  const std::string metrics = read_bytes(shop / "all/fastmax2/metrics.jsonl");
  const std::string part =
      (shop / "all/fastmax2").string() + " holds a run already; choose another folder, or go on with it by --resume";
  check_fails(run_program("train_shakespeare", shop.tiny("all/fastmax2") + Arguments{"--seed", "2"}), part);
  check_fails(run_program("compare", shop.tiny("all")), part);
  CHECK_FALSE(std::filesystem::exists(shop / "all/softmax"));  // seen before the first mechanism trained
  CHECK(read_bytes(shop / "all/fastmax2/config.json") == config);
  CHECK(read_bytes(shop / "all/fastmax2/metrics.jsonl") == metrics);
}

TEST_CASE("a loss that is not finite: exit 1, saying what to do") {
  const Workshop shop;
  const Ended ended =
      run_program("train_shakespeare", shop.tiny("run") + Arguments{"--lr", "1000", "--steps", "200"});
  check_fails(ended, "lower --lr, or raise --warmup (");
  CHECK(ended.err.find("and the gradients' norm ") != std::string::npos);
  CHECK(names_in(shop / "run") ==
        std::vector<std::string>{"checkpoint.safetensors", "config.json", "metrics.jsonl", "train_loss.csv"});
}

TEST_CASE("a loss that is not finite: the message names what the run has, a norm and flags") {
  const Workshop shop;
  const Arguments far{"--lr", "1000", "--clip", "0", "--steps", "50"};
  const Ended text = run_program("train_shakespeare", shop.tiny("text") + far);
  check_fails(text, "the loss is nan at step ");
  check_fails(text, "; lower --lr, or raise --warmup, or set --clip (");
  check_fails(run_program("train_mnist", shop.tiny_images("images") + far), "; lower --lr, or set --clip (", true);
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

TEST_CASE("--resume refuses what is not the run it had") {
  const Workshop shop;
  check_fails(run_program("train_shakespeare", {"--resume", "--out", shop / "none"}), "none/config.json");
  CHECK(run_program("train_shakespeare", shop.tiny("run")).code == 0);
  const std::string model = read_bytes(shop / "run/model.safetensors");

  // The command that started it, with --resume; it had come to its end.
  CHECK(run_program("train_shakespeare", shop.tiny("run") + Arguments{"--resume"}).code == 0);
  CHECK(read_bytes(shop / "run/model.safetensors") == model);

  check_says(run_program("train_shakespeare", {"--resume", "--out", shop / "run", "--lr", "0.5"}), 2, "--lr 0.5");
  check_says(run_program("train_mnist", {"--resume", "--out", shop / "run"}), 2,
             "run is one of train_text or train_shakespeare");

  const std::string checkpoint = read_bytes(shop / "run/checkpoint.safetensors");
  const Arguments resume{"--resume", "--out", shop / "run", "--data", shop / "data"};
  const std::string text = read_bytes(shop / "data/tinyshakespeare/input.txt");
  shop.set_text({text.rbegin(), text.rend()});
  check_fails(run_program("train_shakespeare", resume),
              "learns from " + Workshop::kTextName + ", but there is tinyshakespeare/input.txt (");
  shop.set_text(text);
  write_bytes(shop / "run/checkpoint.safetensors", checkpoint.substr(0, checkpoint.size() / 2));
  const auto cannot_resume = [&](const std::string& part) {
    CAPTURE(part);
    const Ended ended = run_program("train_shakespeare", resume);
    check_fails(ended, part);
    check_says(ended, 1, "; train anew, into another folder\n");
    CHECK(ended.err.find("remove") == std::string::npos);
    CHECK(ended.err.find("copy it again") == std::string::npos);  // which nobody can who trained it here
  };
  cannot_resume("checkpoint.safetensors' is damaged, truncated or not a safetensors file: ");
  write_bytes(shop / "run/checkpoint.safetensors", model);
  cannot_resume("checkpoint.safetensors is no checkpoint of a training run");
  CHECK(run_program("train_shakespeare", shop.tiny("wider") + Arguments{"--width", "32"}).code == 0);
  write_bytes(shop / "run/checkpoint.safetensors", read_bytes(shop / "wider/checkpoint.safetensors"));
  cannot_resume("run/checkpoint.safetensors is of another run: blocks.0.attention.width is 16 here and 32 there; ");
  std::filesystem::remove(shop / "run/checkpoint.safetensors");
  cannot_resume("checkpoint.safetensors");
  write_bytes(shop / "run/config.json", R"({"settings": {}, "data": "text"})");
  cannot_resume("run/config.json is damaged: key 'task' not found");
}

TEST_CASE("sample: a folder that is missing, damaged or of another task, and a prompt with unseen characters") {
  const Workshop shop;
  const auto refused = [&](const std::string& part, const Arguments& flags = {}) {
    CAPTURE(part);
    check_fails(run_program("sample", Arguments{shop / "run", "--tokens", "5"} + flags), part);
  };
  refused("run/config.json; is it the --out folder of a training run?");
  CHECK(run_program("train_shakespeare", shop.tiny("run")).code == 0);
  const auto prompt_refused = [&](const std::string& prompt, const std::string& part) {
    check_says(run_program("sample", {shop / "run", "--prompt", prompt}), 2, part);
  };
  prompt_refused("to beX", "--prompt: the character 'X' is not among the ");
  prompt_refused("to bé", "--prompt: the character 'é' is not among the ");
  prompt_refused("to bé", " that the model has seen; give one without it\n");
  prompt_refused("", "--prompt is empty; give it at least one character");

  const std::string config = read_bytes(shop / "run/config.json");
  for (const size_t length : {size_t{0}, size_t{1}, config.size() / 2, config.size() - 3}) {
    write_bytes(shop / "run/config.json", config.substr(0, length));
    refused("config.json is damaged: ");
    refused("; train anew, into another folder");
  }
  write_bytes(shop / "run/config.json", R"({"model_type": "gpt2", "n_layer": 12})");
  refused(
      "run/config.json is not the file of a training run of linnet, which has \"settings\" and \"data\"; name the "
      "--out folder of a run");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = config;
    text.replace(text.find(from), from.size(), to);
    write_bytes(shop / "run/config.json", text);
  };
  replaced("\"width\": 16", "\"width\": \"wide\"");
  refused("config.json is damaged");
  replaced("\"width\": 16", "\"width\": -16");
  refused("width");
  replaced("\"positions\": \"learned\"", "\"positions\": \"lernd\"");
  refused("config.json is damaged, or of another version of linnet: --positions lernd: must be one of learned, ");
  replaced("\"feed_forward\": 4", "\"feed_forward\": -4");
  refused("feed_forward -4: must be from 1 to 1000");
  replaced("\"width\": 16", "\"width\": 32");
  refused("run/model.safetensors does not fit the model; build the model with the settings of the saved one; ");
  replaced("\"task\": \"shakespeare\"", "\"task\": \"mnist\"");
  refused("holds a model for mnist, which writes no text");
  write_bytes(shop / "run/config.json", config);

  const auto weights = shop / "run/model.safetensors";
  const std::string model = read_bytes(weights);
  for (const size_t length : {size_t{0}, size_t{7}, size_t{100}, model.size() / 2, model.size() - 1}) {
    write_bytes(weights, model.substr(0, length));
    refused("model.safetensors");
  }
  Safetensors without = [&] {
    write_bytes(weights, model);
    return read_safetensors(weights);
  }();
  without.metadata.clear();
  write_safetensors(weights, without);
  refused("holds no vocabulary");
  std::filesystem::remove(weights);
  std::filesystem::remove(shop / "run/checkpoint.safetensors");
  refused("run has no weights, neither model.safetensors nor checkpoint.safetensors; ");
}
