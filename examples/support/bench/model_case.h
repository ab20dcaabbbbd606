#pragma once

#include <string>
#include <vector>

#include <linnet/core/tensor.h>

#include "support/bench/timing.h"

/// Training steps of models that have no attention, on random inputs.

namespace linnet::examples {

/// `lenet`: LeNet on 64 images of 28 × 28. `residual`: four residual blocks of two convolutions with batch norm, 64
/// channels, on 32 images of 32 × 32. `gru` and `lstm`: a layer of width 256 on 32 sequences of 128 tokens.
/// `batch_norm`: that layer alone, forward and backward, on [32, 64, 32, 32].
std::vector<std::string> model_names();

/// Times a training step of the model of this name: forward, backward, and AdamW's step if it has an optimizer.
Timing measure_model(const std::string& name, uint64_t seed, Device device, double seconds);

}  // namespace linnet::examples
