/// Devices, data, folders and losses that end a program: its message and exit code.

#include <doctest/doctest.h>
#include <unistd.h>

#include <linnet/core/files/safetensors.h>

#include "support/files.h"
#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/support/gpu.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

TEST_CASE("a device that does not answer: exit 1, before any work") {
  if (!linnet::test::lacks_gpu("programs on a device that does not answer")) return;
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

TEST_CASE("an output folder that cannot be used is refused before data are read, which may take minutes") {
  const Workshop shop;
  done("train_text", shop.tiny("run") + Arguments{"--warmup", "10"});
  shop.set_text("");  // whoever reads it ends with another message
  const Arguments resume{"--resume", "--out", shop / "run"};
  check_usage("train_text", run_program("train_text", resume + Arguments{"--steps", "15"}),
              "--steps 15: the run in " + (shop / "run").string() + " has made 20 steps already");
  {
    const examples::FolderLock lock(shop / "run");
    check_fails(run_program("train_text", resume), "a run is under way in --out ");
    check_fails(run_program("train_text", shop.tiny("run")), "a run is under way in --out ");
  }
  check_fails(run_program("train_text", resume), "input.txt is empty");
  write_bytes(shop / "file", "");
  for (const char* out : {"file", "file/run"}) {
    check_fails(run_program("train_text", shop.tiny(out)),
                "--out: cannot make " + (shop / out).string() + ": Not a directory; choose another folder");
  }
  check_fails(run_program("compare", shop.tiny("file")), "--out: cannot make ");
  CHECK_FALSE(examples::write_error(shop / "new/run"));
  CHECK_FALSE(examples::write_error("new"));
  CHECK_FALSE(std::filesystem::exists(shop / "new"));
  if (::geteuid() == 0) return;  // who may write everywhere
  std::filesystem::create_directories(shop / "closed");
  std::filesystem::permissions(shop / "closed", std::filesystem::perms::owner_read);
  check_fails(run_program("train_text", shop.tiny("closed")), "closed: Permission denied; choose another folder");
  check_fails(run_program("train_text", shop.tiny("closed/run")), "run: Permission denied; choose another folder");
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
  CHECK_FALSE(std::filesystem::exists(shop / "all/softmax"));  // refused before the first mechanism trained
  CHECK(read_bytes(shop / "all/fastmax2/config.json") == config);
  CHECK(read_bytes(shop / "all/fastmax2/metrics.jsonl") == metrics);
}

TEST_CASE("pictures of other runs in the output folder: exit 1 before the first run, unless --resume adds to these") {
  const Workshop shop;
  const auto refused = [&](const std::string& program, const Arguments& flags, const std::string& name) {
    const std::string picture = read_bytes(shop / name);
    check_fails(run_program(program, flags), " of other runs, which these would replace; choose another folder");
    CHECK(read_bytes(shop / name) == picture);
  };
  const Arguments compared = shop.tiny("all");
  done("compare", compared + Arguments{"--attention", "softmax"});
  refused("compare", compared + Arguments{"--attention", "linear"}, "all/compare.png");
  CHECK_FALSE(std::filesystem::exists(shop / "all/linear"));
  done("compare", compared + Arguments{"--attention", "softmax,linear", "--resume"});

  const Arguments ablations = shop.tiny("parts") + Arguments{"--steps", "2", "--eval-every", "2", "--seeds", "1"};
  done("ablations", Arguments{"interaction"} + ablations);
  refused("ablations", Arguments{"interaction"} + ablations + Arguments{"--seed", "5"}, "parts/interaction.png");
  done("ablations", Arguments{"sharing"} + ablations);
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

TEST_CASE("--resume refuses what is not the run it had") {
  const Workshop shop;
  check_fails(run_program("train_shakespeare", {"--resume", "--out", shop / "none"}), "none/config.json");
  CHECK(run_program("train_shakespeare", shop.tiny("run")).code == 0);
  const std::string model = read_bytes(shop / "run/model.safetensors");

  // The first command again, with --resume. The run had ended.
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
    CHECK(ended.err.find("copy it again") == std::string::npos);  // wrong advice if the file was trained here
  };
  cannot_resume("checkpoint.safetensors' is damaged, truncated or not a safetensors file: ");
  write_bytes(shop / "run/checkpoint.safetensors", model);
  cannot_resume("checkpoint.safetensors is no checkpoint of a training run");
  CHECK(run_program("train_shakespeare", shop.tiny("wider") + Arguments{"--width", "32"}).code == 0);
  write_bytes(shop / "run/checkpoint.safetensors", read_bytes(shop / "wider/checkpoint.safetensors"));
  cannot_resume(
      "run/checkpoint.safetensors is of another run: model: blocks.0.attention.width is 16 here and 32 there; ");
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
  refused("run/config.json': No such file or directory; is it the --out folder of a training run?");
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
  write_bytes(shop / "run/config.json", R"({"model_type": "llama", "num_hidden_layers": 12})");
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
