#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

struct Model : nn::Module {
  Model(Generator& rng, DType dtype) : Module(rng, dtype) {}
};

/// Builds the layer with the case's options, loads PyTorch's parameters by their names, and compares. If the case has
/// lengths, a mask of the same steps must give the same bits.
template <class Layer, class Inputs>
void compare_recurrent(const Golden& golden, DType dtype) {
  const auto& p = golden.parameters;
  const nn::RecurrentConfig config{.num_layers = p.value("num_layers", 1),
                                   .bias = p.value("bias", true),
                                   .batch_first = p.value("batch_first", false),
                                   .bidirectional = p.value("bidirectional", false)};
  TensorMap weights = golden.leaves(dtype), leaves;
  const auto take = [&](const char* name) {
    if (!weights.contains(name)) return Tensor();
    leaves[name] = weights.at(name);
    weights.erase(name);
    return leaves.at(name);
  };
  const Tensor x = take("input");
  Inputs inputs{.h0 = take("h0")};
  if constexpr (requires { inputs.c0; }) inputs.c0 = take("c0");
  inputs.lengths = golden.get("lengths");

  Generator rng(0);
  Model model(rng, dtype);
  Layer layer(model, "layer", x.size(2), golden.get("weight_hh_l0").size(1), config);
  layer.load_state(weights);
  for (const auto& [name, parameter] : layer.named_parameters()) leaves[name] = parameter;
  const auto run = [&] {
    const auto result = layer(x, inputs);
    std::vector<Tensor> flat{result.output.flatten(), result.h_n.flatten()};
    if constexpr (requires { result.c_n; }) flat.push_back(result.c_n.flatten());
    return concat(flat, 0);
  };
  const Tensor output = run();
  check_with_gradients(golden, output, leaves, error_bound(golden, dtype));
  if (!inputs.lengths.defined()) return;
  inputs.padding_mask = arange(x.size(config.batch_first ? 1 : 0)) < inputs.lengths.unsqueeze(1);
  inputs.lengths = {};
  CHECK(allclose(run(), output, 0, 0));
}

const std::map<std::string, Comparison> kComparisons = {
    {"gru", compare_recurrent<nn::GRU, nn::GRUInputs>},
    {"lstm", compare_recurrent<nn::LSTM, nn::LSTMInputs>},
};

}  // namespace

TEST_CASE("GRU and LSTM agree with PyTorch, float64") { compare_goldens("recurrent", DType::float64, kComparisons); }
TEST_CASE("GRU and LSTM agree with PyTorch, float32") { compare_goldens("recurrent", DType::float32, kComparisons); }
