#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

nn::EncoderDecoderConfig encoder_decoder_config(const Json& p) {
  return {.vocabulary = p.at("vocabulary"),
          .source_tokens = p.at("source_tokens"),
          .target_tokens = p.at("target_tokens"),
          .encoder_layers = p.at("encoder_layers"),
          .decoder_layers = p.at("decoder_layers"),
          .block = {.attention = {.width = p.at("width"), .heads = p.at("heads")},
                    .hidden = p.at("hidden"),
                    .pre_norm = p.at("pre_norm")}};
}

void compare_encoder_decoder(const Golden& golden, DType dtype) {
  Generator rng(0);
  nn::EncoderDecoder model(rng, encoder_decoder_config(golden.parameters), dtype);
  model.load_state(golden.leaves(dtype));
  const Tensor logits = model(golden.get("source"), golden.get("source_mask"), golden.get("target"));
  TensorMap leaves;
  for (const auto& [name, parameter] : model.named_parameters()) leaves[name] = parameter;
  check_with_gradients(golden, logits, leaves, error_bound(golden, dtype));
}

}  // namespace

TEST_CASE("The encoder–decoder and its gradients agree with PyTorch, float64") {
  compare_goldens("encoder_decoder", DType::float64, {{"encoder_decoder", compare_encoder_decoder}});
}

TEST_CASE("The encoder–decoder and its gradients agree with PyTorch, float32") {
  compare_goldens("encoder_decoder", DType::float32, {{"encoder_decoder", compare_encoder_decoder}});
}
