/// The effect of Ctrl-C before the first step and during an evaluation, and of a second Ctrl-C.

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "support/ranks.h"
#include "support/run/run_folder.h"
#include "support/run/training.h"
#include "support/settings/program.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

namespace linnet::examples {
namespace {

struct OneWeight : nn::Module {
  explicit OneWeight(Generator& rng) : nn::Module(rng), w(parameter("w", ones({}))) {}
  Tensor w;
};

/// A task of one weight. Evaluation number `interrupts_at`, counted from 0, is interrupted halfway. With `dies`, its
/// first training step kills the process.
class Interrupting : public Task {
 public:
  explicit Interrupting(int64_t interrupts_at = -1, bool dies = false) : interrupts_at_(interrupts_at), dies_(dies) {}
  OneWeight& model() override { return model_; }
  nn::Batch batch(int64_t index) override {
    const Tensor x = full({}, static_cast<double>(1 + index));
    return {x, x};
  }
  Tensor loss(const nn::Batch& batch) override {
    if (dies_) std::raise(SIGKILL);
    return batch.inputs * model_.w;
  }
  Evaluation evaluate(int64_t) override {
    const int64_t number = evaluations_++;
    const Figures sums = sums_of_batches(2, [&](int64_t i) {
      if (i == 0 && number == interrupts_at_) std::raise(SIGINT);
      return Figures{model_.w.item<double>()};
    });
    return {.loss = sums[0]};
  }
  int64_t batches_per_epoch() const override { return 100; }
  int64_t tokens_per_batch() const override { return 1; }
  std::vector<int64_t> lengths() const override { return {1}; }
  std::string data_name() const override { return "numbers"; }
  std::string sample(int64_t) override { return ""; }

 private:
  int64_t interrupts_at_, evaluations_ = 0;
  bool dies_;
  Generator rng_{1};
  OneWeight model_{rng_};
};

Settings four_steps(const std::filesystem::path& out) {
  Settings s = preset("shakespeare", "nanogpt-cpu");
  s.steps = 4;
  s.warmup = 0;
  s.eval_every = 2;
  s.out = out;
  s.command = {"train"};
  return s;
}

/// Runs `body` in a new process that catches interrupts. Returns the message of the interruption, or the signal that
/// ended the process; empty if there was neither.
std::string interrupted_says(const std::function<void()>& body) {
  const linnet::test::TemporaryFolder folder;
  std::fflush(nullptr);  // otherwise both processes would write the buffered output
  const pid_t child = fork();
  if (child == 0) {
    ::alarm(60);
    const linnet::test::Quiet out(STDOUT_FILENO), err(STDERR_FILENO);
    std::signal(SIGINT, SIG_DFL);  // it may be ignored, in the background of a script
    catch_interrupts();
    try {
      body();
    } catch (const Interrupted& error) {
      linnet::test::write_bytes(folder / "said", error.what());
      _exit(0);
    } catch (...) {
      _exit(1);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? linnet::test::read_bytes(folder / "said") : "";
}

}  // namespace

TEST_CASE("Ctrl-C twice ends a program at once, but two signals in one moment are one") {
  CHECK(interrupted_says([] {
          std::raise(SIGTERM);
          std::raise(SIGTERM);  // as `timeout` does
          throw Interrupted("once");
        }) == "once");
  CHECK(interrupted_says([] {
          std::raise(SIGINT);
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          std::raise(SIGINT);
        }) == fmt::format("signal {}", SIGINT));
}

TEST_CASE("Ctrl-C while data are read: the run ends before its first step, and its folder is as it was") {
  const linnet::test::TemporaryFolder folder;
  const auto says = [&](const Settings& settings, bool others_began = false) {
    return interrupted_says([&] {
      std::raise(SIGINT);
      Interrupting task;
      train(task, settings, others_began);
    });
  };
  Settings settings = four_steps(folder / "run");
  const std::string none = "stopped before the first step; nothing was written to " + (folder / "run").string();
  CHECK(says(settings) == none);
  CHECK(says(settings, true) == none + "; go on with: train --resume");
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
  settings.resume = true;
  CHECK(says(settings) == "stopped before another step; the run in " + (folder / "run").string() +
                              " is as it was; go on with: train --resume");
}

TEST_CASE("Ctrl-C during an evaluation: a resumed run makes it again, and ends as one that was not interrupted") {
  const linnet::test::TemporaryFolder folder;
  const auto metrics_after = [&](int64_t interrupts_at, const std::string& says) {
    CAPTURE(interrupts_at);
    Settings settings = four_steps(folder / fmt::format("at{}", interrupts_at));
    if (!says.empty()) {
      CHECK(interrupted_says([&] {
              Interrupting task(interrupts_at);
              train(task, settings);
            }) == says);
      CHECK_FALSE(std::filesystem::exists(settings.out / "model.safetensors"));
      settings.resume = true;
    }
    Interrupting task;
    const auto train_quietly = [&] {
      const linnet::test::Quiet quiet;
      train(task, settings);
    };
    train_quietly();
    std::string all;
    for (const Metrics& m : read_metrics(settings.out))
      all += fmt::format("{} {} {}\n", m.step, m.train_loss, m.val_loss);
    return all;
  };
  const std::string whole = metrics_after(-1, "");
  CHECK(std::ranges::count(whole, '\n') == 3);
  // at step 0, in the middle, after the last step, and on all validation data
  CHECK(metrics_after(0, "stopped at step 0 of 4; go on with: train --resume") == whole);
  CHECK(metrics_after(1, "stopped at step 2 of 4; go on with: train --resume") == whole);
  CHECK(metrics_after(2, "stopped at step 4 of 4; go on with: train --resume") == whole);
  CHECK(metrics_after(3, "stopped at step 4 of 4; go on with: train --resume") == whole);
}

TEST_CASE("Ctrl-C during an evaluation, and a kill after the resumed run made it: the next run makes it again") {
  const linnet::test::TemporaryFolder folder;
  Settings parts = four_steps(folder / "parts"), whole = four_steps(folder / "whole");
  CHECK(interrupted_says([&] {
          Interrupting task(1);
          train(task, parts);
        }) == "stopped at step 2 of 4; go on with: train --resume");
  parts.resume = true;
  CHECK(interrupted_says([&] {
          Interrupting task(-1, true);
          train(task, parts);
        }) == fmt::format("signal {}", SIGKILL));
  REQUIRE(read_metrics(parts.out).back().step == 2);
  for (const Settings& settings : {parts, whole}) {
    const linnet::test::Quiet quiet;
    Interrupting task;
    train(task, settings);
  }
  const std::vector<Metrics> a = read_metrics(parts.out), b = read_metrics(whole.out);
  REQUIRE(a.size() == 3);
  REQUIRE(b.size() == 3);
  for (size_t i = 1; i < a.size(); ++i) CHECK(a[i].train_loss == b[i].train_loss);
}

}  // namespace linnet::examples
