#pragma once

#include <linnet/core/refused.h>

/// Classes of PyTorch that linnet does not have. Each makes the compiler say what to write instead.

namespace linnet::nn {

struct ReLU {
  template <class... Arguments>
  explicit ReLU(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "an activation is a function: write relu(x), or net.add(relu) in an nn::Sequential");
  }
};
struct GELU {
  template <class... Arguments>
  explicit GELU(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "an activation is a function: write gelu(x), or net.add(gelu) in an nn::Sequential");
  }
};
struct SiLU {
  template <class... Arguments>
  explicit SiLU(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "an activation is a function: write silu(x), or net.add(silu) in an nn::Sequential");
  }
};
struct Sigmoid {
  template <class... Arguments>
  explicit Sigmoid(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "an activation is a function: write sigmoid(x), or net.add(sigmoid) in an nn::Sequential");
  }
};
struct Tanh {
  template <class... Arguments>
  explicit Tanh(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "an activation is a function: write tanh(x), or net.add(tanh) in an nn::Sequential");
  }
};
struct Softmax {
  template <class... Arguments>
  explicit Softmax(const Arguments&...) {
    static_assert(detail::refused<Arguments...>, "softmax is a function: write softmax(x, -1)");
  }
};
struct Flatten {
  template <class... Arguments>
  explicit Flatten(const Arguments&...) {
    static_assert(detail::refused<Arguments...>, "flatten is a function: write x.flatten(1)");
  }
};
struct CrossEntropyLoss {
  template <class... Arguments>
  explicit CrossEntropyLoss(const Arguments&...) {
    static_assert(detail::refused<Arguments...>, "a loss is a function: write cross_entropy(logits, targets)");
  }
};
struct MSELoss {
  template <class... Arguments>
  explicit MSELoss(const Arguments&...) {
    static_assert(detail::refused<Arguments...>, "a loss is a function: write mse_loss(x, y)");
  }
};

struct Parameter {
  template <class... Arguments>
  explicit Parameter(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "a parameter is made by its module: write Tensor weight = parameter(\"weight\", value);");
  }
};
struct MultiheadAttention {
  template <class... Arguments>
  explicit MultiheadAttention(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "write nn::make_attention(*this, \"attention\", {.width = 32, .heads = 4}), which gives a "
                  "std::unique_ptr<nn::Attention>");
  }
};
struct TransformerEncoderLayer {
  template <class... Arguments>
  explicit TransformerEncoderLayer(const Arguments&...) {
    static_assert(detail::refused<Arguments...>,
                  "write nn::Block block{*this, \"block\", {.attention = {.width = 32, .heads = 4}}};");
  }
};

}  // namespace linnet::nn
