#include <string>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

struct Model : nn::Module {
  Model(Generator& rng, DType dtype) : Module(rng, dtype) {}
};

/// Builds the layer from `args`, loads the case's parameters, and compares.
template <class Layer, class... Args>
void compare_layer(const Golden& golden, DType dtype, const Args&... args) {
  Generator rng(0);
  Model model(rng, dtype);
  Layer layer(model, "layer", args...);

  TensorMap weights = golden.leaves(dtype), leaves;
  Tensor input = golden.get("indices");
  if (!input.defined()) {
    input = leaves["input"] = weights.at("input");
    weights.erase("input");
  }
  layer.load_state(weights);
  for (const auto& [name, parameter] : layer.named_parameters()) leaves[name] = parameter;
  check_with_gradients(golden, layer(input), leaves, error_bound(golden, dtype));
}

void compare_linear(const Golden& golden, DType dtype) {
  const Shape weight = golden.get("weight").shape();
  compare_layer<nn::Linear>(golden, dtype, weight[1], weight[0], golden.parameters.at("bias").get<bool>());
}

void compare_embedding(const Golden& golden, DType dtype) {
  const Shape weight = golden.get("weight").shape();
  compare_layer<nn::Embedding>(golden, dtype, weight[0], weight[1]);
}

void compare_layer_norm(const Golden& golden, DType dtype) {
  const nn::LayerNormConfig config{.eps = golden.parameters.at("eps"),
                                   .affine = golden.parameters.at("affine"),
                                   .bias = golden.parameters.at("bias")};
  compare_layer<nn::LayerNorm>(golden, dtype, golden.get("input").size(-1), config);
}

void compare_rms_norm(const Golden& golden, DType dtype) {
  compare_layer<nn::RMSNorm>(golden, dtype, golden.get("input").size(-1), golden.parameters.at("eps").get<double>());
}

void compare_feed_forward(const Golden& golden, DType dtype) {
  const Json& p = golden.parameters;
  compare_layer<nn::FeedForward>(golden, dtype, p.at("width").get<int64_t>(), p.at("hidden").get<int64_t>());
}

void compare_block(const Golden& golden, DType dtype) {
  const Json& p = golden.parameters;
  const nn::BlockConfig config{
      .attention = {.width = p.at("width"), .heads = p.at("heads"), .causal = p.at("causal")},
      .hidden = p.at("hidden"),
      .pre_norm = p.at("pre_norm")};
  compare_layer<nn::Block>(golden, dtype, config);
}

/// Compares a function of `input`, with the case's parameters.
Comparison of_input(Tensor (*f)(const Tensor& x, const Json& parameters)) {
  return function_comparison(
      [f](const Golden& golden, const TensorMap& in) { return f(in.at("input"), golden.parameters); });
}

int64_t dim(const Json& parameters) { return parameters.at("dim"); }

const std::map<std::string, Comparison> kComparisons = {
    {"linear", compare_linear},
    {"embedding", compare_embedding},
    {"layer_norm", compare_layer_norm},
    {"rms_norm", compare_rms_norm},
    {"feed_forward", compare_feed_forward},
    {"block", compare_block},
    {"gelu", of_input([](const Tensor& x, const Json&) { return gelu(x); })},
    {"gelu_tanh", of_input([](const Tensor& x, const Json&) { return gelu(x, Gelu::tanh); })},
    {"silu", of_input([](const Tensor& x, const Json&) { return silu(x); })},
    {"softplus", of_input([](const Tensor& x, const Json&) { return softplus(x); })},
    {"log_softmax", of_input([](const Tensor& x, const Json& p) { return log_softmax(x, dim(p)); })},
    {"logsumexp", of_input([](const Tensor& x, const Json& p) { return logsumexp(x, {dim(p)}); })},
    {"cumsum", of_input([](const Tensor& x, const Json& p) { return cumsum(x, dim(p)); })},
    {"var", of_input([](const Tensor& x, const Json& p) { return var(x, {dim(p)}, p.at("correction")); })},
    {"norm", of_input([](const Tensor& x, const Json& p) {
       return norm(x, std::stod(p.at("order").get<std::string>()), {dim(p)});
     })},
};

}  // namespace

TEST_CASE("The layers agree with PyTorch, float64") { compare_goldens("layers", DType::float64, kComparisons); }
TEST_CASE("The layers agree with PyTorch, float32") { compare_goldens("layers", DType::float32, kComparisons); }
