#pragma once

#include <any>
#include <optional>
#include <string>

#include <linnet/core/tensor.h>
#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json_fwd.hpp>

#include "support/bench/timing.h"

/// Measures one mechanism or one layer.

namespace linnet::examples {

struct AttentionCase {
  std::string mechanism = nn::AttentionConfig{}.mechanism;
  bool causal = false;
  std::any options = {};  ///< nn::AttentionConfig::options; empty for the programs' defaults
  double dropout = 0;
  int64_t batch = 1, heads = 4, tokens = 1024, head_dim = 32;
  uint64_t seed = 1337;
  Device device = Device::cpu;
  DType dtype = DType::float32;  ///< of queries, keys and values, or of a layer's activations
};

struct Measured {
  Timing forward, forward_backward;
  std::optional<Timing> floor;  ///< of the matrix products outside the attention, if there are any; CPU only
  int64_t peak_bytes = 0;       ///< forward and backward, with inputs, output and their gradients
  double flops = 0;             ///< forward and backward, of the form that ran
  double least_bytes = 0;       ///< of an attention alone, forward and backward, if its mechanism gives it

  double gflops() const { return flops / forward_backward.median_ms / 1e6; }
  /// The rate at which memory would move if it moved only the least bytes.
  double gigabytes_per_second() const { return least_bytes / forward_backward.median_ms / 1e6; }
};

/// The case's options, or the programs' defaults.
std::any options_of(const AttentionCase& c);

/// Waits until `x` is computed, by reading an element: on a GPU, calls return before their work is done.
void wait_for(const Tensor& x);

/// The attention alone, on queries, keys and values [batch, heads, tokens, head_dim]. Throws UsageError for a
/// mechanism without `core`, and for a causal case of one without a causal form.
Measured measure_attention(const AttentionCase& c, double seconds);

/// An attention layer with its linear maps, on x [batch, tokens, heads · head_dim]. Throws UsageError for a causal
/// case of a mechanism without a causal form.
Measured measure_layer(const AttentionCase& c, double seconds);

/// `count` Transformer layers, on x [batch, tokens, heads · head_dim].
Measured measure_layers(const AttentionCase& c, int64_t count, double seconds);

nlohmann::json to_json(const Measured& measured);

}  // namespace linnet::examples
