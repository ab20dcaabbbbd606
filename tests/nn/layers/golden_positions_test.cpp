#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

int64_t number(const Json& parameters, const char* name) { return parameters.at(name); }

void compare_sinusoidal(const Golden& golden, DType dtype) {
  const Json& p = golden.parameters;
  const Tensor table = nn::sinusoidal_positions(number(p, "count"), number(p, "width"), number(p, "start"), dtype);
  check_near(golden, "output", table, error_bound(golden, dtype));
}

/// The sequence form with its gradients, and the step form, which rotates each token by the number of earlier tokens.
void compare_rotary_attention(const Golden& golden, DType dtype) {
  const Json& p = golden.parameters;
  nn::AttentionConfig config{.mechanism = p.at("mechanism"),
                             .width = number(p, "width"),
                             .heads = number(p, "heads"),
                             .causal = true,
                             .bias = false,
                             .rotary = true};
  if (config.mechanism == "fastmax2") config.options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt};
  Generator rng(0);
  const AttentionModel model(rng, config, dtype);
  TensorMap weights = golden.leaves(dtype), leaves;
  const Tensor x = leaves["input"] = weights.at("input");
  weights.erase("input");
  model.attention->load_state(weights);
  for (const auto& [name, parameter] : model.attention->named_parameters()) leaves[name] = parameter;
  const double bound = error_bound(golden, dtype);
  check_with_gradients(golden, (*model.attention)(x), leaves, bound);

  const NoGrad no_grad;
  const auto state = model.attention->start();
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < x.size(1); ++t) steps.push_back(model.attention->step(*state, x.select(1, t)));
  check_near(golden, "output", stack(steps, 1), bound);
}

const std::map<std::string, Comparison> kComparisons = {
    {"rotate", function_comparison([](const Golden& golden, const TensorMap& in) {
       return nn::rotate(in.at("input"), number(golden.parameters, "start"));
     })},
    {"sinusoidal", compare_sinusoidal},
    {"rotary_attention", compare_rotary_attention},
};

}  // namespace

TEST_CASE("Positions agree with their papers, and rotary ones with LLaMA, float64") {
  compare_goldens("positions", DType::float64, kComparisons);
}

TEST_CASE("Positions agree with their papers, and rotary ones with LLaMA, float32") {
  compare_goldens("positions", DType::float32, kComparisons);
}
