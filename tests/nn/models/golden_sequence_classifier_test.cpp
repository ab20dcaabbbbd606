#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

nn::SequenceClassifierConfig classifier_config(const Json& p) {
  const std::map<std::string, nn::Pooling> poolings{{"mean", nn::Pooling::mean},
                                                    {"padded_mean", nn::Pooling::padded_mean},
                                                    {"attention", nn::Pooling::attention},
                                                    {"first", nn::Pooling::first}};
  return {.vocabulary = p.at("vocabulary"),
          .classes = p.at("classes"),
          .layers = p.at("layers"),
          .max_tokens = p.at("max_tokens"),
          .block = {.attention = {.width = p.at("width"), .heads = p.at("heads")}, .hidden = p.at("hidden")},
          .pooling = poolings.at(p.at("pooling")),
          .head_hidden = p.at("head_hidden"),
          .pairs = p.at("pairs")};
}

void compare_sequence_classifier(const Golden& golden, DType dtype) {
  Generator rng(0);
  nn::SequenceClassifier model(rng, classifier_config(golden.parameters), dtype);
  TensorMap start = golden.leaves(dtype);
  const auto input = [&](const char* name) { return golden.get(name); };
  if (const Tensor bias = input("pool.fc2.bias"); bias.defined()) start["pool.fc2.bias"] = bias.to(dtype);
  model.load_state(start);
  const Tensor logits = model.config().pairs
                            ? model(input("ids"), input("padding_mask"), input("ids2"), input("padding_mask2"))
                            : model(input("ids"), input("padding_mask"));
  TensorMap leaves;
  for (const auto& [name, parameter] : model.named_parameters()) leaves[name] = parameter;
  leaves.erase("pool.fc2.bias");  // it cancels, so that its gradient is only rounding
  check_with_gradients(golden, logits, leaves, error_bound(golden, dtype));
}

}  // namespace

TEST_CASE("The sequence classifier and its gradients agree with PyTorch, float64") {
  compare_goldens("sequence_classifier", DType::float64, {{"sequence_classifier", compare_sequence_classifier}});
}

TEST_CASE("The sequence classifier and its gradients agree with PyTorch, float32") {
  compare_goldens("sequence_classifier", DType::float32, {{"sequence_classifier", compare_sequence_classifier}});
}
