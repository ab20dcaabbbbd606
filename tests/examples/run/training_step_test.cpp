#include "support/run/training_step.h"

#include <optional>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

namespace linnet::examples {
namespace {

struct OneNumber : nn::Module {
  explicit OneNumber(Generator& rng) : nn::Module(rng), w(parameter("w", ones({}))) {}
  void on_step(int64_t step) override { begun.push_back(step); }

  Tensor w;
  std::vector<int64_t> begun;
};

/// Micro-batch i is the number i, and its loss is i·w. With a rate of 0 the losses show which batches were used.
class Counting : public Task {
 public:
  OneNumber& model() override { return model_; }
  nn::Batch batch(int64_t index) override {
    if (index == fails_once) {
      fails_once.reset();
      throw std::runtime_error("no such batch yet");
    }
    const Tensor x = full({}, static_cast<double>(index));
    return {x, x};
  }
  Tensor loss(const nn::Batch& batch) override {
    begun_before_loss.push_back(std::ssize(model_.begun));
    return batch.inputs * model_.w;
  }
  Evaluation evaluate(int64_t) override { return {}; }
  int64_t batches_per_epoch() const override { return 100; }
  int64_t tokens_per_batch() const override { return 1; }
  std::vector<int64_t> lengths() const override { return {1}; }
  std::string data_name() const override { return "numbers"; }
  std::string sample(int64_t) override { return ""; }

  std::optional<int64_t> fails_once;
  std::vector<int64_t> begun_before_loss;  ///< for each loss, the number of steps that the model was told of

 private:
  Generator rng_{1};
  OneNumber model_{rng_};
};

}  // namespace

TEST_CASE("TrainingStep: a next batch that cannot be made costs no step its loss, and no step another's batch") {
  Counting task;
  Settings settings;
  settings.weight_decay = 0;
  TrainingStep train(task, settings);
  CHECK(train(0, 0) == 0);
  task.fails_once = 2;
  CHECK(train(1, 0) == 1);
  CHECK(train(2, 0) == 2);

  task.fails_once = 8;  // the batch that step 7 prepares
  CHECK(train(7, 0) == 7);
  task.fails_once = 8;
  CHECK_THROWS_WITH(train(8, 0), "no such batch yet");
  CHECK(train(8, 0) == 8);
  CHECK(train(4, 0) == 4);
}

TEST_CASE("TrainingStep tells the model of each step once, before its first micro-batch") {
  Counting task;
  Settings settings;
  settings.accumulate = 2;
  TrainingStep train(task, settings);
  for (const int64_t step : {5, 6, 7}) train(step, 0);
  CHECK(task.model().begun == std::vector<int64_t>{5, 6, 7});
  CHECK(task.begun_before_loss == std::vector<int64_t>{1, 1, 2, 2, 3, 3});
}

}  // namespace linnet::examples
