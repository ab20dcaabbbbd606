#include <algorithm>
#include <optional>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "support/ranks.h"
#include "support/run/checkpoint.h"
#include "support/run/results.h"
#include "support/run/run_folder.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/cut_file.h"
#include "tests/support/files.h"
#include "tests/support/threads.h"

/// Files of a run that are cut off at every byte: each is an error, and nothing is loaded in part. (safetensors and
/// IDX files have their own tests.)

namespace linnet::examples {
namespace {

using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

struct Model : nn::Module {
  explicit Model(Generator& rng) : Module(rng) {}
  nn::Linear fc{*this, "fc", 3, 2};
};

/// A model in training. All its values that a checkpoint holds can be compared.
struct Training {
  explicit Training(uint64_t seed) : rng(seed) { step(); }

  void step() {
    backward(sum(model.fc(randn({4, 3}, rng))));
    optimizer.step();
    adamw.zero_grad();
  }
  std::string everything() const {
    std::string text;
    for (const auto& states : {model.state(), optimizer.state()}) {
      for (const auto& [name, tensor] : states) text += name + to_string(tensor);
    }
    return text + std::to_string(rng.state().seed) + " " + std::to_string(rng.state().draws);
  }

  Generator rng;
  Model model{rng};
  nn::AdamW adamw{model.parameters(), {}};
  nn::ZeroRedundancyOptimizer optimizer{one_rank(), adamw};
};

}  // namespace

TEST_CASE("truncation: a checkpoint cut off at any byte is refused and leaves the training as it was") {
  const TemporaryFolder folder;
  Training saved(1);
  Checkpoint::Position at{.step = 3};
  Checkpoint(folder.path(), saved.model, saved.optimizer, at, {}).save();
  const std::string bytes = read_bytes(folder / "checkpoint.safetensors");
  Training training(2);
  at = {.step = 1};
  Checkpoint checkpoint(folder.path(), training.model, training.optimizer, at, {});
  const std::string before = training.everything();
  REQUIRE(before != saved.everything());
  for (size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    write_bytes(folder / "checkpoint.safetensors", bytes.substr(0, length));
    CHECK_THROWS_AS(checkpoint.load(), IoError);
    REQUIRE(training.everything() == before);
    REQUIRE(at.step == 1);
  }
  write_bytes(folder / "checkpoint.safetensors", bytes);
  checkpoint.load();
  CHECK(at.step == 3);
  CHECK(training.everything() == saved.everything());
}

TEST_CASE("truncation: a checkpoint that cannot be loaded for want of memory leaves the training as it was") {
  if (!linnet::test::allocations_are_counted("requests for memory that fail")) return;
  const linnet::test::WithThreads with(1);
  const TemporaryFolder folder;
  Training saved(1);
  Checkpoint::Position at{.step = 3};
  Checkpoint(folder.path(), saved.model, saved.optimizer, at, {}).save();
  std::optional<Training> training(2);
  const std::string before = training->everything(), there = saved.everything();
  REQUIRE(before != there);
  linnet::test::fail_each_request(
      [&] { Checkpoint(folder.path(), training->model, training->optimizer, at, {}).load(); },
      [&](bool failed) {
        REQUIRE(training->everything() == (failed ? before : there));
        if (!failed) training.emplace(2);
      });
}

TEST_CASE("truncation: a checkpoint of another optimizer is refused and leaves the training as it was") {
  const TemporaryFolder folder;
  Training saved(1);
  nn::SGD other(saved.model.parameters(), {.lr = 0.1});
  backward(sum(saved.model.fc(ones({4, 3}))));
  other.step();
  Checkpoint::Position at{.step = 3};
  nn::ZeroRedundancyOptimizer whole(one_rank(), other);
  Checkpoint(folder.path(), saved.model, whole, at, {}).save();
  Training training(2);
  const std::string before = training.everything();
  at = {.step = 1};
  CHECK_THROWS_AS(Checkpoint(folder.path(), training.model, training.optimizer, at, {}).load(), ValueError);
  CHECK(training.everything() == before);
  CHECK(at.step == 1);
}

TEST_CASE("truncation: a checkpoint of a model that was built otherwise is refused") {
  struct Scaled : nn::Module {
    Scaled(Generator& generator, double factor) : Module(generator), scale(factor) {}
    std::vector<nn::Setting> settings() const override { return {{"scale", scale}}; }
    double scale;
    nn::Linear fc{*this, "fc", 3, 2};
  };
  const TemporaryFolder folder;
  Generator rng(1);
  Scaled saved(rng, 0.5), other(rng, 1e-7), same(rng, 0.5);
  nn::AdamW adamw(saved.parameters(), {}), other_adamw(other.parameters(), {}), same_adamw(same.parameters(), {});
  nn::ZeroRedundancyOptimizer of_saved(one_rank(), adamw), of_other(one_rank(), other_adamw),
      of_same(one_rank(), same_adamw);
  Checkpoint::Position at{.step = 3};
  Checkpoint(folder.path(), saved, of_saved, at, {}).save();
  at = {};
  CHECK_THROWS_WITH_AS(Checkpoint(folder.path(), other, of_other, at, {}).load(),
                       doctest::Contains("is of another run: model: scale is 1e-07 here and 0.5 there; "),
                       ValueError);
  Checkpoint(folder.path(), same, of_same, at, {}).load();
  CHECK(at.step == 3);
}

TEST_CASE("truncation: a config.json cut off at any byte is refused") {
  const TemporaryFolder folder;
  Settings settings = preset("shakespeare", "nanogpt-cpu");
  settings.out = folder / "run";
  RunFolder(settings, "some text").begin();
  const std::string bytes = read_bytes(settings.out / "config.json");
  const size_t end = bytes.rfind('}');  // what follows is space
  for (size_t length = 0; length <= end; ++length) {
    CAPTURE(length);
    write_bytes(folder / "config.json", bytes.substr(0, length));
    CHECK_THROWS_AS(read_config(folder.path()), IoError);
  }
  write_bytes(folder / "config.json", bytes);
  CHECK(read_config(folder.path()).preset == "nanogpt-cpu");
}

TEST_CASE("truncation: a results.json cut off at any byte is refused") {
  const TemporaryFolder folder;
  write_results(folder.path(),
                {.step = 3, .loss = 1.5, .accuracy = 0.5, .measures = {{"AUC", 0.75}}, .processes = {.count = 2}});
  linnet::test::cut_everywhere(
      folder / "results.json", [&] { return read_results(folder.path())->step; },
      [](const std::string& part, const auto& step) {
        CHECK(step.has_value() == part.ends_with("\n}"));  // what follows is a new line
      });
}

TEST_CASE("truncation: metrics and losses cut off at any byte keep their whole lines") {
  const TemporaryFolder folder;
  Settings settings = preset("shakespeare", "nanogpt-cpu");
  settings.out = folder / "run";
  {
    RunFolder run(settings, "some text");
    run.begin();
    for (int64_t step = 1; step <= 2; ++step) {
      run.log(Metrics{.step = step, .train_loss = 1.5});
      run.log(StepLoss{.step = step, .loss = 1.5});
    }
  }
  settings.resume = true;
  const std::string metrics = read_bytes(settings.out / "metrics.jsonl");
  const std::string losses = read_bytes(settings.out / "train_loss.csv");
  const auto whole_lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  for (size_t length = 0; length <= metrics.size(); ++length) {
    CAPTURE(length);
    const std::string part = metrics.substr(0, length);
    write_bytes(settings.out / "metrics.jsonl", part);
    RunFolder run(settings, "some text");
    const auto kept = static_cast<int64_t>(run.rewind(100).size());
    CHECK((kept == whole_lines(part) ||
           (length < metrics.size() && metrics[length] == '\n' && kept == whole_lines(part) + 1)));
  }
  for (size_t length = 0; length <= losses.size(); ++length) {
    CAPTURE(length);
    const std::string part = losses.substr(0, length);
    write_bytes(settings.out / "train_loss.csv", part);
    RunFolder run(settings, "some text");
    CHECK(static_cast<int64_t>(run.rewind_losses(100).size()) == std::max<int64_t>(0, whole_lines(part) - 1));
  }
}

}  // namespace linnet::examples
