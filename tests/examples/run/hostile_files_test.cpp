#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/linnet.h>

#include "support/ranks.h"
#include "support/run/checkpoint.h"
#include "support/run/run_folder.h"
#include "support/tasks/text_model.h"
#include "tests/support/file_memory.h"
#include "tests/support/files.h"

/// Files of a run made by a stranger. Reading them must succeed or throw an error, within the memory limit of
/// tests/support/file_memory.h.

namespace linnet::examples {
namespace {

using linnet::test::allocations_are_counted;
using linnet::test::check_memory;
using linnet::test::kMiB;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

std::string repeated(int64_t count, const std::string& text) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) all += text;
  return all;
}

/// The message of read_config's error.
std::string refusal(const std::string& config) {
  const TemporaryFolder folder;
  write_bytes(folder / "config.json", config);
  try {
    read_config(folder.path());
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

/// The folder of a run that can be resumed.
struct Run {
  Run() {
    settings.out = folder / "run";
    RunFolder(settings, "some text").begin();
    settings.resume = true;
  }
  TemporaryFolder folder;
  Settings settings = preset("shakespeare", "nanogpt-cpu");
};

const std::string kMetrics =
    R"({"step":1,"train_loss":1,"val_loss":1,"lr":1,"seconds":1,"ms_per_step":1,"tokens_per_second":1,"peak_bytes":1})";

}  // namespace

TEST_CASE("config.json: lists and objects within each other, a hundred thousand deep, are refused") {
  const int64_t n = 100'000;
  for (const std::string& deep : {std::string(n, '['), std::string(n, '[') + std::string(n, ']'),
                                  repeated(n, R"({"a":)"), repeated(n, R"({"a":)") + "1" + std::string(n, '}')}) {
    for (const char* field : {"task", "width", "share", "unknown"}) {
      const std::string config = fmt::format(R"({{"settings":{{"{}":{}}},"data":"x"}})", field, deep);
      CHECK(refusal(config).find("config.json is damaged: ") != std::string::npos);
    }
  }
  const std::string small =
      R"({"settings":{"task":)" + std::string(40, '[') + std::string(40, ']') + R"(},"data":""})";
  const std::string message = refusal(small);
  CAPTURE(message);
  CHECK(
      message.ends_with("config.json is damaged: byte 50: lists and objects are nested more than 32 deep; "
                        "train anew, into another folder"));
}

TEST_CASE("config.json: one that is too large for settings is refused, whatever it holds") {
  const Run run;
  const std::string config = read_bytes(run.settings.out / "config.json");
  CHECK(refusal(config + std::string(60'000, ' ')) == "no error");
  const std::string message = refusal(config + std::string(70'000, ' '));
  CAPTURE(message);
  CHECK(message.ends_with("config.json is damaged: it has more than 65536 bytes; train anew, into another folder"));
}

TEST_CASE("config.json: the memory that reading takes") {
  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  const int64_t n = 12 * kMiB, most = 65'000;
  for (const int64_t size : {n, most}) {
    for (const std::string& value :
         {std::string(size, '['), "[" + repeated(size / 3 - 20, "[],") + "[]]",
          "[" + repeated(size / 3 - 20, "{},") + "{}]", "[" + repeated(size / 2 - 40, "1,") + "1]",
          "\"" + std::string(size - 60, 'a') + "\"", "[" + repeated(size / 8 - 20, R"({"":[]},)") + "1]",
          repeated(size / 5, R"({"a":)")}) {
      for (const char* field : {"task", "unknown"}) {
        write_bytes(folder / "config.json",
                    fmt::format(R"({{"settings":{{"{}":{},"task":"shakespeare"}},"data":"x"}})", field, value));
        check_memory(folder / "config.json", [&] { return read_config(folder.path()); });
      }
    }
  }
}

TEST_CASE("config.json: a long \"build\" is read, without the reason for each number of threads") {
  const TemporaryFolder folder;
  const auto machine = [&](const std::string& build) {
    write_bytes(folder / "config.json", fmt::format(R"({{"build":"{}"}})", build));
    return machines_of(folder.path()).at(0);
  };
  CHECK(machine("linnet, 2 threads (quota), OpenBLAS") == "linnet, 2 threads, OpenBLAS");
  CHECK(machine("2 threads (), 3 threads (a (b), 4 threads, 5 threads (c") ==
        "2 threads, 3 threads, 4 threads, 5 threads (c");
  const std::string reason(60'000, 'a');
  CHECK(machine("2 threads (" + reason + ")") == "2 threads");
  CHECK(machine("2 threads (" + reason) == "2 threads (" + reason);
  CHECK(machine(repeated(5'000, " threads ()")) == repeated(5'000, " threads"));
}

TEST_CASE("metrics.jsonl: lines that are deep, long or many") {
  const Run run;
  RunFolder folder(run.settings, "some text");
  const auto path = run.settings.out / "metrics.jsonl";
  const std::string deep = std::string(200'000, '[') + "\n" + repeated(200'000, R"({"a":)") + "\n";
  write_bytes(path, deep + kMetrics + "\n" + deep);
  CHECK(folder.rewind(100).size() == 1);
  CHECK(read_bytes(path) == kMetrics + "\n");

  if (!allocations_are_counted("the memory that files take")) return;
  const int64_t n = 12 * kMiB;
  for (const std::string& text :
       {repeated(n / 120, kMetrics + "\n"), std::string(n, '{'), std::string(n, '\n'), std::string(n, 'a'),
        repeated(n / 65'000, R"({"a":[)" + repeated(32'000, "1,") + "1]}\n"),
        repeated(n / 6'000, repeated(1000, R"({"a":)") + "\n")}) {
    write_bytes(path, text);
    CHECK(check_memory(path, [&] { return folder.rewind(100); }).is_read);
  }
}

TEST_CASE("train_loss.csv: lines that are long or many") {
  const Run run;
  RunFolder folder(run.settings, "some text");
  const auto path = run.settings.out / "train_loss.csv";
  write_bytes(path, "step,loss\n1,0.5\n2,nan\n3,0.25 \n4\n,1\n5,1,\n101,1\n7,0.5");
  const auto losses = folder.rewind_losses(100);
  CHECK(losses.size() == 2);
  CHECK(read_bytes(path) == "step,loss\n1,0.5\n2,nan\n");

  if (!allocations_are_counted("the memory that files take")) return;
  const int64_t n = 12 * kMiB;
  for (const std::string& text : {repeated(n / 4, "1,1\n"), std::string(n, '\n'), std::string(n, '1'),
                                  "1,0." + std::string(n, '1') + "\n", "1," + std::string(n, '1') + "\n"}) {
    write_bytes(path, text);
    CHECK(check_memory(path, [&] { return folder.rewind_losses(100); }).is_read);
  }
}

TEST_CASE("vocabulary_of: what vocabulary_metadata wrote; what is none is refused by name") {
  for (const auto kind : {nn::Characters::bytes, nn::Characters::code_points}) {
    const nn::Vocabulary vocabulary("Größe 山\n", kind);
    CHECK(vocabulary_of(vocabulary_metadata(vocabulary), "a").codes() == vocabulary.codes());
    CHECK(vocabulary_of(vocabulary_metadata(vocabulary), "a").kind() == kind);
  }
  CHECK(vocabulary_of({{"vocabulary", "10 32"}}, "a").kind() == nn::Characters::bytes);
  const auto refusal = [](const std::string& codes, const std::string& characters) {
    try {
      vocabulary_of({{"vocabulary", codes}, {"characters", characters}}, "a");
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(refusal("", "bytes") == "a holds no vocabulary");
  CHECK(refusal("1 256", "bytes") == "a: its vocabulary has 256, which is no byte; train anew, into another folder");
  CHECK(refusal("65 1114112", "code points").find("has 1114112, which is no code point") != std::string::npos);
  CHECK(refusal("65 55296", "code points").find("has 55296, which is no code point") != std::string::npos);
  for (const std::string codes : {"x", "1,2", "1 -2", "1  2", "99999999999", " ", "1.5"}) {
    CAPTURE(codes);
    CHECK(refusal(codes, "code points").find("which is no code point") != std::string::npos);
  }

  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  for (const std::string& codes : {repeated(6 * kMiB, "1 ") + "1", repeated(2 * kMiB, "128512 ") + "1"}) {
    for (const char* characters : {"bytes", "code points"}) {
      const std::map<std::string, std::string> metadata{{"vocabulary", codes}, {"characters", characters}};
      write_bytes(folder / "a", codes);
      check_memory(folder / "a", [&] { return vocabulary_of(metadata, folder / "a"); });
    }
  }
}

TEST_CASE("Checkpoint: the memory that loading takes") {
  if (!allocations_are_counted("the memory that files take")) return;
  struct Model : nn::Module {
    explicit Model(Generator& rng) : Module(rng) {}
    nn::Linear fc{*this, "fc", 1024, 2048};
  };
  const TemporaryFolder folder;
  Generator rng(1);
  Model model(rng);
  Checkpoint::Position at{.step = 3};
  const auto trained = [&](nn::Optimizer& optimizer) {
    backward(sum(model.fc(ones({1, 1024}))));
    optimizer.step();
    nn::ZeroRedundancyOptimizer whole(one_rank(), optimizer);
    Checkpoint(folder.path(), model, whole, at, {}).save();
  };
  const auto load = [&](nn::Optimizer& optimizer) {
    const auto path = folder / "checkpoint.safetensors";
    nn::ZeroRedundancyOptimizer whole(one_rank(), optimizer);
    return check_memory(path, [&] {
      Checkpoint(folder.path(), model, whole, at, {}).load();
      return at.step;
    });
  };
  nn::AdamW first(model.parameters());
  trained(first);
  CHECK(load(first).is_read);
  nn::AdamW fresh(model.parameters());
  CHECK(load(fresh).is_read);
  nn::SGD other(model.parameters());
  CHECK_FALSE(load(other).is_read);
}

}  // namespace linnet::examples
