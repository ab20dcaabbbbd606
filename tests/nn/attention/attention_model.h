#pragma once

#include <memory>

#include <linnet/nn/attention/attention.h>

namespace linnet::test {

/// A model that is one attention, and nothing beside it.
struct AttentionModel : nn::Module {
  AttentionModel(Generator& rng, const nn::AttentionConfig& config, DType dtype = DType::float64)
      : Module(rng, dtype), attention(nn::make_attention(*this, "attention", config)) {}
  std::unique_ptr<nn::Attention> attention;
};

}  // namespace linnet::test
