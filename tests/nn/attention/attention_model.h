#pragma once

#include <memory>

#include <linnet/nn/attention/attention.h>

namespace linnet::test {

/// A model that is one attention, and nothing beside it, for sequences of up to 64 tokens where the config does not
/// say.
struct AttentionModel : nn::Module {
  AttentionModel(Generator& rng, const nn::AttentionConfig& config, DType dtype = DType::float64)
      : Module(rng, dtype), attention(nn::make_attention(*this, "attention", with_tokens(config))) {
    // In training each call of Reformer has hashes of its own, so that two calls cannot be compared.
    if (config.mechanism == "reformer" && config.dropout == 0) eval();
  }
  std::unique_ptr<nn::Attention> attention;

 private:
  static nn::AttentionConfig with_tokens(nn::AttentionConfig config) {
    if (config.max_tokens == 0) config.max_tokens = 64;
    return config;
  }
};

}  // namespace linnet::test
