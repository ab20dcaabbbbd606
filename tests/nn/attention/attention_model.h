#pragma once

#include <memory>
#include <string>

#include <linnet/core/autograd/tape.h>
#include <linnet/nn/attention/attention.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::test {

/// A model that consists of only one attention, by default for sequences of up to 64 tokens.
struct AttentionModel : nn::Module {
  AttentionModel(Generator& rng, const nn::AttentionConfig& config, DType dtype = DType::float64)
      : Module(rng, dtype), attention(nn::make_attention(*this, "attention", with_tokens(config))) {
    // In training each call of Reformer draws new hashes, so that two calls cannot be compared.
    if (config.mechanism == "reformer" && config.dropout == 0) eval();
  }
  std::unique_ptr<nn::Attention> attention;

  /// The attention's parameter or buffer of that name.
  Tensor tensor_of(const std::string& name) const { return state().at("attention." + name); }
  /// The attention's linear map of that name.
  Tensor apply(const std::string& name, const Tensor& x) const {
    return linear(x, tensor_of(name + ".weight"), tensor_of(name + ".bias"));
  }
  /// Draws new values for all parameters, so that none is 0 or a copy of another.
  void draw_parameters(Generator& rng) {
    const NoGrad no_grad;
    for (const Tensor& parameter : parameters()) {
      parameter.detach().copy_(randn(parameter.shape(), rng, parameter.dtype()) * 0.5);
    }
  }

 private:
  static nn::AttentionConfig with_tokens(nn::AttentionConfig config) {
    if (config.max_tokens == 0) config.max_tokens = 64;
    return config;
  }
};

}  // namespace linnet::test
