#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

/// A layer or block to compare, and the function that it computes.
struct NormModel : nn::Module {
  NormModel(Generator& rng, DType dtype) : Module(rng, dtype) {}
  virtual Tensor operator()(const Tensor& x) = 0;
};

struct BatchNormModel : NormModel {
  BatchNormModel(Generator& rng, DType dtype, const Json& p, int64_t channels) : NormModel(rng, dtype) {
    nn::BatchNormConfig config{.eps = p.value("eps", 1e-5),
                               .affine = p.value("affine", true),
                               .track_running_stats = p.value("track_running_stats", true),
                               .bias = p.value("bias", true)};
    if (p.contains("momentum")) {
      config.momentum = p.at("momentum").is_null() ? std::optional<double>() : p.at("momentum").get<double>();
    }
    if (p.at("layer") == "BatchNorm1d") {
      norm = std::make_unique<nn::BatchNorm1d>(*this, "norm", channels, config);
    } else {
      norm = std::make_unique<nn::BatchNorm2d>(*this, "norm", channels, config);
    }
  }
  Tensor operator()(const Tensor& x) override { return (*norm)(x); }

  std::unique_ptr<nn::BatchNorm> norm;
};

struct ResidualBlock : NormModel {
  ResidualBlock(Generator& rng, DType dtype, int64_t channels) : NormModel(rng, dtype), width(channels) {}
  Tensor operator()(const Tensor& x) override { return x + bn2(conv2(relu(bn1(conv1(x))))); }

  int64_t width;
  nn::Conv2d conv1{*this, "conv1", width, width, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", width};
  nn::Conv2d conv2{*this, "conv2", width, width, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{*this, "bn2", width};
};

/// The tensors of the case whose names begin with `prefix`, in the model's dtype.
TensorMap state_in(const Golden& golden, const std::string& prefix, DType dtype) {
  TensorMap state;
  for (const auto& [name, value] : golden.tensors) {
    if (!name.starts_with(prefix)) continue;
    state[name.substr(prefix.size())] = is_floating(value.dtype()) ? value.to(dtype) : value;
  }
  return state;
}

/// Loads PyTorch's state_dict into `of`, and compares every training step, the evaluation, and the final state.
void compare_steps(const Golden& golden, DType dtype, NormModel& model, nn::Module& of) {
  of.load_state(state_in(golden, "start.", dtype));
  const double bound = error_bound(golden, dtype);
  const int64_t steps = golden.get("input").size(0);
  for (int64_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    model.train(step < steps - 1);
    Golden row{golden.name, golden.parameters, {}};
    for (const auto& [name, value] : golden.tensors) {
      if (name.starts_with("start."))
        row.tensors[name.substr(6)] = value;
      else if (!name.starts_with("end."))
        row.tensors[name] = value[step].contiguous();
    }
    TensorMap leaves{{"input", row.leaves(dtype).at("input")}};
    for (const auto& [name, parameter] : of.named_parameters()) leaves[name] = parameter;
    check_with_gradients(row, model(leaves.at("input")), leaves, bound);
  }
  const TensorMap end = of.state(), expected = state_in(golden, "end.", dtype);
  CHECK(end.size() == expected.size());
  for (const auto& [name, value] : end) check_near(golden, "end." + name, value, bound);
}

void compare_batch_norm(const Golden& golden, DType dtype) {
  Generator rng(0);
  BatchNormModel model(rng, dtype, golden.parameters, golden.get("input").size(2));
  compare_steps(golden, dtype, model, *model.norm);
}

void compare_residual_block(const Golden& golden, DType dtype) {
  Generator rng(0);
  ResidualBlock model(rng, dtype, golden.parameters.at("channels"));
  compare_steps(golden, dtype, model, model);
}

void compare_group_norm(const Golden& golden, DType dtype) {
  struct GroupNormModel : nn::Module {
    GroupNormModel(Generator& generator, DType of) : Module(generator, of) {}
  };
  Generator rng(0);
  GroupNormModel model(rng, dtype);
  TensorMap weights = golden.leaves(dtype), leaves{{"input", weights.at("input")}};
  weights.erase("input");
  const nn::GroupNormConfig config{
      .eps = golden.parameters.at("eps"), .affine = !weights.empty(), .bias = weights.contains("bias")};
  const nn::GroupNorm norm(model, "norm", golden.parameters.at("num_groups"), leaves.at("input").size(1), config);
  model.load_state([&] {
    TensorMap named;
    for (const auto& [name, value] : weights) named["norm." + name] = value;
    return named;
  }());
  for (const auto& [name, parameter] : norm.named_parameters()) leaves[name] = parameter;
  check_with_gradients(golden, norm(leaves.at("input")), leaves, error_bound(golden, dtype));
}

const std::map<std::string, Comparison> kNorms = {{"batch_norm", compare_batch_norm},
                                                  {"group_norm", compare_group_norm},
                                                  {"residual_block", compare_residual_block}};

}  // namespace

TEST_CASE("Batch norm, group norm and a residual block agree with PyTorch, float64") {
  compare_goldens("batch_norm", DType::float64, kNorms);
}
TEST_CASE("Batch norm, group norm and a residual block agree with PyTorch, float32") {
  compare_goldens("batch_norm", DType::float32, kNorms);
}
