// # 15. Your own op and your own attention
//
// This chapter adds an op and an attention mechanism to linnet from outside, as a program of yours would. It checks
// them with the methods of earlier chapters.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## An op
//
// Snake (Ziyin et al. 2020) is an activation for periodic data, $y = x + \sin^2(ax)/a$ with a learned number $a$.
// Since $2 \sin u \cos u = \sin 2u$, its derivatives are
//
// $$\frac{\partial y}{\partial x} = 1 + \sin(2ax)$$
//
// $$\frac{\partial y}{\partial a} = \frac{x \sin(2ax)}{a} - \frac{\sin^2(ax)}{a^2}$$
//
// An `Op` takes its name and its inputs. `save` keeps a tensor for backward, and an edit of it in between is detected
// (chapter 3). `record` takes the result and a function that computes the inputs' gradients from the result's. The
// engine sums them to the shape of $a$ (chapter 2).

Tensor snake(const Tensor& x, const Tensor& a, Where where = {}) {
  Op op("snake", where, {x, a});
  op.floating_dtype();                           // both must have one floating dtype
  const Tensor in = x.detach(), b = a.detach();  // not recorded: the op has a backward of its own
  return op.record(in + square(sin(b * in)) / b, [x = op.save(x), a = op.save(a)](const Tensor& g) {
    const Tensor slope = sin(2 * a() * x());
    return Grads{g * (1 + slope), g * (x() * slope / a() - square(sin(a() * x())) / square(a()))};
  });
}

void check_snake(Generator& rng) {
  const Tensor x = randn({3, 4}, rng, DType::float64).set_requires_grad();
  const Tensor a = tensor({0.7}, DType::float64).set_requires_grad();
  const auto f = [](const std::vector<Tensor>& in) { return snake(in[0], in[1]); };
  check(gradcheck(f, {x, a}), "backward agrees with differences");
  check(gradgradcheck(f, {x, a}), "and so do second derivatives");
  fmt::print("snake: first and second derivatives agree with differences\n");
}

// ## An attention
//
// In *sigmoid attention* (Ramapuram et al. 2024) each weight is a sigmoid of its own score:
// $o_i = \sum_j \sigma(s_{ij} - \log N)\,v_j$, where $i$ sees $N$ tokens. At first the weights sum to about 1.
//
// A class derives from `nn::Attention` and overrides two functions: the sequence form, and the weights for pictures.
// Linear layers are members that name their parent, so that their parameters belong to the model. Any other learned
// tensor is a member `Tensor t_ = parameter("t", value)`. The model sets `causal`, as `DecoderLM` does. A step form
// needs two more functions (`examples/own_attention.cpp`); without it, the sequence form generates text.

class SigmoidAttention : public nn::Attention {
 public:
  SigmoidAttention(nn::Module& parent, std::string name, const nn::AttentionConfig& config)
      : Attention(parent, std::move(name), config) {}

 private:
  Tensor heads(const Tensor& x) const {  // [B, N, C] → [B, H, N, D]
    return x.reshape({x.size(0), x.size(1), config().heads, -1}).transpose(1, 2);
  }
  Tensor weights(const Tensor& x, const Tensor& padding_mask) const {
    const int64_t n = x.size(1);
    const Tensor scores = matmul(heads(query_(x)), heads(key_(x)).transpose(2, 3)) / std::sqrt(double(head_dim()));
    Tensor seen = ones({n, n}, DType::boolean);
    if (config().causal) seen = tril(seen);
    if (padding_mask.defined()) seen = logical_and(seen, padding_mask.reshape({-1, 1, 1, n}));
    return where(seen, sigmoid(scores - log(seen.to(x.dtype()).sum(-1, true))), 0);  // the sum is each query's N
  }
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override {
    return out_(matmul(weights(x, padding_mask), heads(value_(x))).transpose(1, 2).reshape(x.shape()));
  }
  std::vector<nn::AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override {
    return {{"", weights(x, padding_mask)}};
  }

  nn::Linear query_{*this, "query", config().width, config().width},
      key_{*this, "key", config().width, config().width};
  nn::Linear value_{*this, "value", config().width, config().width},
      out_{*this, "out", config().width, config().width};
};

// A model takes a function that makes the attention. This model learns to repeat the first half of a text.

int main() {
  Generator rng(1);
  check_snake(rng);
  nn::AttentionConfig attention{.mechanism = "sigmoid", .width = 64, .heads = 4};
  attention.make = nn::maker<SigmoidAttention>();
  nn::DecoderLM model(rng, {.vocabulary = 8, .context = 23, .layers = 2, .block = {.attention = attention}});
  nn::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  double first = 0, last = 0;
  for (int step = 0; step < 400; ++step) {
    const Tensor half = randint(0, 8, {32, 12}, rng), ids = concat({half, half}, 1);  // [32, 24]
    const Tensor logits = model(ids.narrow(1, 0, 23)).narrow(1, 11, 12);              // the logits of the second half
    const Tensor loss = cross_entropy(logits, half);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    (step == 0 ? first : last) = loss.item();
  }
  fmt::print("sigmoid attention learns to repeat: loss {:.2f} at first, {:.3f} at the end\n", first, last);
  check(last < 0.5, "sigmoid attention learns to repeat");

  NoGrad no_grad;
  const Tensor ids = randint(0, 8, {1, 20}, rng);
  check(allclose(model(ids).narrow(1, 0, 12), model(ids.narrow(1, 0, 12)), 1e-4, 1e-4), "it is causal");
  fmt::print("and later tokens do not change earlier outputs\n");
}
// <!-- output -->
// ## Exercises
//
// 1. Write softsign, $x / (1 + |x|)$, as an op, and check it.
// 2. Leave the $\log N$ out. What happens to the outputs at the start of training?
// 3. Give the attention a step form: which state must it keep, and why does it grow?
