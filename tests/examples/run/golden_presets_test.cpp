#include <functional>
#include <memory>

#include <doctest/doctest.h>

#include "support/run/training.h"
#include "support/tasks/text_model.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::test;
using examples::Settings;
using examples::Task;
using Json = nlohmann::json;

namespace {

/// The tensors of a golden case whose names begin with `prefix`, by their names without it.
TensorMap part(const Golden& golden, const std::string& prefix, DType dtype) {
  TensorMap tensors;
  for (const auto& [name, value] : golden.tensors) {
    if (name.starts_with(prefix)) tensors[name.substr(prefix.size())] = value.to(dtype);
  }
  return tensors;
}

/// The preset with the case's smaller sizes.
Settings settings_of(const Golden& golden) {
  const Json& p = golden.parameters;
  Settings s = examples::preset(p.at("task"), p.at("preset"));
  s.width = p.at("width");
  s.heads = p.at("heads");
  s.batch = p.at("batch");
  s.epochs = 0;
  s.steps = p.at("steps");
  s.warmup = p.at("warmup");
  if (s.task == "shakespeare") s.context = p.at("context");
  return s;
}

/// Trains the preset's model on a golden case's batches, from the case's parameters.
class GoldenTask : public Task {
 public:
  GoldenTask(const Golden& golden, const Settings& s, DType dtype) : golden_(golden), rng_(s.seed), dtype_(dtype) {
    const Json& p = golden.parameters;
    if (s.task == "mnist") {
      const auto config = examples::image_model_config(s, p.at("side"), p.at("classes"));
      auto model = std::make_unique<nn::PatchClassifier>(rng_, config, dtype);
      forward_ = [m = model.get()](const Tensor& x) { return (*m)(x); };
      model_ = std::move(model);
    } else {
      auto model = std::make_unique<nn::DecoderLM>(rng_, examples::text_model_config(s, p.at("vocabulary")), dtype);
      forward_ = [m = model.get()](const Tensor& x) { return (*m)(x); };
      model_ = std::move(model);
    }
    model_->load_state(part(golden, "start_", dtype));
  }

  nn::Module& model() override { return *model_; }
  nn::Batch batch(int64_t index) override {
    const Tensor inputs = golden_.get("inputs").select(0, index);
    return {is_floating(inputs.dtype()) ? inputs.to(dtype_) : inputs, golden_.get("targets").select(0, index)};
  }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(logits(batch.inputs), batch.targets); }
  Evaluation evaluate(int64_t) override { return {}; }
  int64_t batches_per_epoch() const override { return golden_.get("inputs").size(0); }
  int64_t tokens_per_batch() const override { return 1; }
  std::vector<int64_t> lengths() const override { return {1}; }
  std::string data_name() const override { return golden_.name; }
  std::string sample(int64_t) override { return ""; }

  Tensor logits(const Tensor& inputs) const { return forward_(inputs); }

 private:
  const Golden& golden_;
  Generator rng_;
  DType dtype_;
  std::unique_ptr<nn::Module> model_;
  std::function<Tensor(const Tensor&)> forward_;
};

/// Compares the logits before training, the loss of every step of the programs' training loop, and the last
/// parameters.
void compare_preset(const Golden& golden, DType dtype) {
  const double bound = error_bound(golden, dtype);
  const TemporaryFolder folder;
  Settings settings = settings_of(golden);
  settings.out = folder / "run";
  settings.eval_every = 1;  // each evaluation records the rate of the next step
  GoldenTask task(golden, settings, dtype);
  {
    const NoGrad no_grad;
    check_near(golden, "logits", task.logits(task.batch(0).inputs), bound);
  }
  examples::TrainingResult result;
  {
    const Quiet quiet;
    result = examples::train(task, settings);
  }
  std::vector<double> losses, rates;
  for (const examples::StepLoss& at : result.losses) losses.push_back(at.loss);
  for (const examples::Metrics& at : result.history) rates.push_back(at.lr);
  rates.pop_back();  // after the last step
  check_near(golden, "losses", tensor(losses), bound);
  check_near(golden, "rates", tensor(rates), 1e-9);
  // The keys' biases change no result: their gradients are rounding errors, which Adam turns into full steps in
  // float32.
  if (dtype != DType::float64) return;
  for (const auto& [name, parameter] : task.model().named_parameters()) {
    check_near(golden, "end_" + name, parameter, bound);
  }
}

}  // namespace

TEST_CASE("The presets' models and ten steps of their training agree with PyTorch, float64") {
  compare_goldens("presets", DType::float64, {{"preset", compare_preset}});
}

TEST_CASE("The presets' models and ten steps of their training agree with PyTorch, float32") {
  compare_goldens("presets", DType::float32, {{"preset", compare_preset}});
}
