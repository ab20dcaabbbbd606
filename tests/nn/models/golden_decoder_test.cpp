#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

nn::DecoderConfig model_config(const Json& p) {
  return {.vocabulary = p.at("vocabulary"),
          .context = p.at("context"),
          .layers = p.at("layers"),
          .block = {.attention = {.width = p.at("width"), .heads = p.at("heads"), .bias = false},
                    .hidden = p.at("hidden")}};
}

nn::AdamWConfig optimizer_config(const Json& p) {
  return {.lr = p.at("lr"), .beta1 = p.at("betas")[0], .beta2 = p.at("betas")[1], .eps = p.at("eps")};
}

/// The logits and gradients of the first step, the losses of five steps, and the parameters after them.
void compare_decoder(const Golden& golden, DType dtype) {
  const double bound = error_bound(golden, dtype);
  const Json& adamw = golden.parameters.at("adamw");
  Generator rng(0);
  nn::DecoderLM model(rng, model_config(golden.parameters), dtype);
  model.load_state(golden.leaves(dtype));
  nn::AdamW optimizer(nn::decay_matrices_only(model.parameters(), adamw.at("weight_decay")), optimizer_config(adamw));

  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) {
    const Tensor logits = model(golden.get("tokens"));
    const Tensor loss = cross_entropy(logits, golden.get("targets"));
    optimizer.zero_grad();
    backward(loss);
    losses.push_back(loss.to(DType::float64).item<double>());
    if (step == 0) {
      check_near(golden, "logits", logits, bound);
      for (const auto& [name, parameter] : model.named_parameters()) {
        check_near(golden, "grad_" + name, parameter.grad(), bound);
      }
    }
    optimizer.step();
  }
  check_near(golden, "losses", tensor(losses), bound);
  for (const auto& [name, parameter] : model.named_parameters())
    check_near(golden, "step_5_" + name, parameter, bound);
}

}  // namespace

TEST_CASE("The decoder and its training agree with PyTorch, float64") {
  compare_goldens("decoder", DType::float64, {{"decoder", compare_decoder}});
}

TEST_CASE("The decoder and its training agree with PyTorch, float32") {
  compare_goldens("decoder", DType::float32, {{"decoder", compare_decoder}});
}
