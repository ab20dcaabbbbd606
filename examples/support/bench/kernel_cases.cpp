#include "support/bench/kernel_cases.h"

#include <cmath>

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/linnet.h>

namespace linnet::examples {
namespace {

using detail::view;

/// Sizes of a layer with x [B·N, C], C = H·D, and random tensors of these sizes.
struct Sizes {
  AttentionCase at;
  int64_t rows = at.batch * at.tokens, width = at.heads * at.head_dim;
  Shape matrix{rows, width}, row{width}, column{rows};
  Shape heads{at.batch, at.heads, at.tokens, at.head_dim};
  double count = static_cast<double>(rows * width);

  Tensor noise(const Shape& shape) const {
    Generator rng(at.seed);
    return randn(shape, rng, DType::float32, at.device);
  }
  Tensor space(const Shape& shape, DType dtype = DType::float32) const {
    return Tensor::empty(shape, dtype, at.device);
  }
  /// The same for activations, which may be bfloat16.
  Tensor activations(const Shape& shape) const { return noise(shape).to(at.dtype); }
  Tensor activation_space(const Shape& shape) const { return space(shape, at.dtype); }
  /// q, k or v [B, H, N, D] as a linear map leaves it, [B, N, H, D] in memory.
  Tensor head_activations() const {
    return activations({at.batch, at.tokens, at.heads, at.head_dim}).transpose(1, 2);
  }
  Tensor ids(int64_t below) const {
    Generator rng(at.seed);
    return randint(0, below, column, rng, DType::int64, at.device);
  }
  /// The device's kernel table; while a Profile exists, the one that it times.
  const Backend& kernels() const { return backend(at.device); }
};

KernelCase copy_heads(const Sizes& s) {
  return {"heads", 0,
          [s, y = s.activation_space(s.heads), x = s.head_activations()] { s.kernels().copy(view(y), view(x)); }};
}

KernelCase add(const Sizes& s) {
  return {"", s.count,
          [s, y = s.activation_space(s.matrix), a = s.activations(s.matrix), b = s.activations(s.matrix)] {
            s.kernels().binary(Binary::add, view(y), view(a), view(b));
          }};
}

KernelCase gelu(const Sizes& s) {
  return {"", 5 * s.count, [s, y = s.activation_space(s.matrix), x = s.activations(s.matrix)] {
            s.kernels().unary(Unary::gelu, view(y), view(x));
          }};
}

KernelCase gelu_backward(const Sizes& s) {
  return {"", 9 * s.count,
          [s, dx = s.activation_space(s.matrix), g = s.activations(s.matrix), x = s.activations(s.matrix)] {
            s.kernels().binary(Binary::gelu_backward, view(dx), view(g), view(x));
          }};
}

KernelCase dropout(const Sizes& s) {
  return {"", s.count, [s, y = s.activation_space(s.matrix), x = s.activations(s.matrix)] {
            s.kernels().dropout(view(y), view(x), 0.1, RandomKey{s.at.seed, 1});
          }};
}

KernelCase column_sums(const Sizes& s) {
  return {"of columns", s.count, [s, y = s.space({1, s.width}), x = s.activations(s.matrix)] {
            s.kernels().reduce(Reduce::sum, view(y), view(x));
          }};
}

/// Pools 2 × 2 elements: the shortest rows.
KernelCase max_pooling(const Sizes& s) {
  return {"2 x 2 max pooling", 4 * s.count,
          [s, y = s.space({s.rows, 1, s.width, 1}), x = s.noise({s.rows, 2, s.width, 2})] {
            s.kernels().reduce(Reduce::max, view(y), view(x));
          }};
}

KernelCase softmax(const Sizes& s) {
  return {"", 5 * s.count,
          [s, y = s.space(s.matrix), x = s.noise(s.matrix)] { s.kernels().softmax(view(y), view(x), false); }};
}

KernelCase layer_norm(const Sizes& s) {
  return {"", 8 * s.count,
          [s, y = s.activation_space(s.matrix), x = s.activations(s.matrix), mean = s.space(s.column),
           rstd = s.space(s.column), weight = s.noise(s.row), bias = s.noise(s.row)] {
            const View w = view(weight), b = view(bias);
            s.kernels().layer_norm(view(y), view(mean), view(rstd), view(x), &w, &b, 1e-5);
          }};
}

KernelCase layer_norm_backward(const Sizes& s) {
  return {"", 14 * s.count,
          [s, dx = s.activation_space(s.matrix), dy = s.activations(s.matrix), x = s.activations(s.matrix),
           mean = s.noise(s.column), rstd = s.noise(s.column), weight = s.noise(s.row), dweight = s.space(s.row),
           dbias = s.space(s.row)] {
            const View w = view(weight), dw = view(dweight), db = view(dbias);
            s.kernels().layer_norm_backward(view(dx), &dw, &db, view(dy), view(x), view(mean), view(rstd), &w);
          }};
}

KernelCase cross_entropy(const Sizes& s) {
  return {"", 4 * s.count,
          [s, loss = s.space(s.column), lse = s.space({s.rows, 2}), x = s.noise(s.matrix), targets = s.ids(s.width)] {
            s.kernels().cross_entropy(view(loss), view(lse), view(x), view(targets), -1, 0);
          }};
}

KernelCase cross_entropy_backward(const Sizes& s) {
  return {"", 4 * s.count,
          [s, dx = s.space(s.matrix), g = s.noise(s.column), lse = s.noise({s.rows, 2}), x = s.noise(s.matrix),
           targets = s.ids(s.width)] {
            s.kernels().cross_entropy_backward(view(dx), view(g), view(lse), view(x), view(targets), -1, 0);
          }};
}

constexpr int64_t kVocabulary = 1024;

KernelCase embedding(const Sizes& s) {
  return {"embedding", 0,
          [s, y = s.space(s.matrix), table = s.noise({kVocabulary, s.width}), ids = s.ids(kVocabulary)] {
            s.kernels().index_select(view(y), view(table), view(ids), 0);
          }};
}

KernelCase embedding_backward(const Sizes& s) {
  return {"embedding", s.count,
          [s, table = s.noise({kVocabulary, s.width}), ids = s.ids(kVocabulary), g = s.noise(s.matrix)] {
            s.kernels().index_add(view(table), view(ids), view(g), 0);
          }};
}

/// A linear map from C to C channels: forward, or the gradient of its weight.
KernelCase linear(const Sizes& s, bool backward) {
  const Tensor x = s.activations({1, s.rows, s.width});
  if (backward) {
    return {"weight's gradient", 2 * s.count * static_cast<double>(s.width),
            [s, dw = s.space({1, s.width, s.width}), g = transpose(s.activations({1, s.rows, s.width})), x] {
              s.kernels().gemm(view(dw), view(g), view(x), nullptr);
            }};
  }
  return {"with a bias", 2 * s.count * static_cast<double>(s.width),
          [s, y = s.activation_space({1, s.rows, s.width}), x, w = transpose(s.activations({1, s.width, s.width})),
           bias = s.noise(s.row)] {
            const View b = view(bias);
            s.kernels().gemm(view(y), view(x), view(w), &b);
          }};
}

/// The operands of an attention, forward and backward.
struct AttentionTensors {
  Tensor q, k, v, o, denominator, d_o, dq, dk, dv;

  explicit AttentionTensors(const Sizes& s)
      : q(s.head_activations()),
        k(s.head_activations()),
        v(s.head_activations()),
        o(s.activation_space(s.heads)),
        denominator(s.space({s.at.batch, s.at.heads, s.at.tokens})),
        d_o(s.activations(s.heads)),
        dq(s.activation_space(s.heads)),
        dk(s.activation_space(s.heads)),
        dv(s.activation_space(s.heads)) {}
};

/// An attention, forward or backward, with kernels of these signatures. Forward takes 4 operations for each of
/// `terms`, backward 10.
template <auto kForward, auto kBackward, class Options>
KernelCase fused_attention(const Sizes& s, bool backward, double terms, const Options& options) {
  const AttentionTensors t(s);
  const auto forward = [s, t, options] {
    (s.kernels().*kForward)(view(t.o), view(t.denominator), view(t.q), view(t.k), view(t.v), {}, options);
  };
  if (!backward) return {"", 4 * terms, forward};
  forward();
  return {"", 10 * terms, [s, t, options] {
            (s.kernels().*kBackward)(view(t.dq), view(t.dk), view(t.dv), view(t.d_o), view(t.o), view(t.denominator),
                                     view(t.q), view(t.k), view(t.v), {}, options);
          }};
}

/// Softmax attention. Its terms are pairs of tokens times channels.
KernelCase attention(const Sizes& s, bool backward) {
  AttentionParams params{};
  params.kind.softmax = true;
  params.scale = 1 / std::sqrt(static_cast<double>(s.at.head_dim));
  params.causal = s.at.causal;
  const double pairs = s.count * static_cast<double>(s.at.tokens) * (s.at.causal ? 0.5 : 1);
  return fused_attention<&Backend::attention, &Backend::attention_backward>(s, backward, pairs, params);
}

/// Factorised Fastmax of order 2. Its terms are (D + 1)(D + 2)/2 features times D + 1 sums for each token.
KernelCase fastmax(const Sizes& s, bool backward) {
  FastmaxParams params{};
  params.a0 = params.a1 = 1;
  params.a2 = 0.5;
  params.map = RowMap::standardise;
  params.causal = s.at.causal;
  params.keep_of_256 = 256;
  const double d = static_cast<double>(s.at.head_dim), features = (d + 1) * (d + 2) / 2;
  const double terms = s.count / d * features * (d + 1);
  return fused_attention<&Backend::fastmax, &Backend::fastmax_backward>(s, backward, terms, params);
}

/// FAVOR+. Forward makes features of queries and keys, and sums and uses S: 8 products of a feature and a number of a
/// token. Backward does so once more, sums R, and takes the gradients of features and of tokens from that.
KernelCase performer_attention(const Sizes& s, bool backward) {
  const AttentionTensors t(s);
  Generator rng(s.at.seed);
  const int64_t features = performer_features(s.at.head_dim);
  const Tensor omega = performer_projection(features, s.at.head_dim, rng, DType::float32, s.at.device);
  const Tensor denominators = s.space({2, s.at.batch, s.at.heads, s.at.tokens});
  const auto forward = [s, t, omega, denominators] {
    s.kernels().performer_attention(view(t.o), view(denominators), view(t.q), view(t.k), view(t.v), view(omega),
                                    nullptr, s.at.causal);
  };
  const double d = static_cast<double>(s.at.head_dim), terms = s.count / d * static_cast<double>(features);
  if (!backward) return {"", terms * (4 * d + 4 * (d + 1)), forward};
  forward();
  return {"", terms * (8 * d + 10 * (d + 1)), [s, t, omega, denominators] {
            s.kernels().performer_attention_backward(view(t.dq), view(t.dk), view(t.dv), view(t.d_o), view(t.o),
                                                     view(denominators), view(t.q), view(t.k), view(t.v), view(omega),
                                                     nullptr, s.at.causal);
          }};
}

/// Fastformer's attention: about 10 operations for each channel of a token, backward 20.
KernelCase additive_attention(const Sizes& s, bool backward) {
  const auto& [batch, heads, tokens, width] = std::tuple{s.at.batch, s.at.heads, s.at.tokens, s.at.head_dim};
  const AttentionTensors t(s);
  const Tensor w_q = s.noise({heads, width}), w_k = s.noise({heads, width});
  const Tensor pools = s.space({2, batch, s.kernels().additive_attention_pools(heads, tokens, width, s.at.causal)});
  const auto inputs = [s, t, w_q, w_k] {
    AdditiveAttentionInputs result{};
    result.q = view(t.q);
    result.k = view(t.k);
    result.v = view(t.v);
    result.w_q = view(w_q);
    result.w_k = view(w_k);
    result.causal = s.at.causal;
    return result;
  };
  const auto forward = [s, t, pools, inputs] { s.kernels().additive_attention(view(t.o), view(pools), inputs()); };
  if (!backward) return {"", 10 * s.count, forward};
  forward();
  return {"", 20 * s.count, [s, t, pools, inputs, dw_q = s.space({heads, width}), dw_k = s.space({heads, width})] {
            const View dv = view(t.dv);
            s.kernels().additive_attention_backward({view(t.dq), view(t.dk), &dv, view(dw_q), view(dw_k)},
                                                    view(t.d_o), view(pools), inputs());
          }};
}

/// A causal convolution over 4 tokens: 2 operations for each channel and token of the window, backward 4.
KernelCase short_conv(const Sizes& s, bool backward) {
  constexpr int64_t kWindow = 4;
  const Shape shape{s.at.batch, s.at.tokens, s.width};
  const Tensor x = s.activations(shape), weight = s.noise({s.width, kWindow}), y = s.activation_space(shape);
  if (!backward) {
    return {"", 2 * kWindow * s.count,
            [s, x, weight, y] { s.kernels().short_conv(view(y), view(x), view(weight), nullptr, kWindow - 1); }};
  }
  return {"", 4 * kWindow * s.count,
          [s, x, weight, dx = y, g = s.activations(shape), dw = s.space({s.width, kWindow})] {
            s.kernels().short_conv_backward(view(dx), view(dw), view(g), view(x), view(weight), nullptr, kWindow - 1);
          }};
}

KernelCase norms(const Sizes& s) {
  return {"", 2 * s.count, [s, norm = s.space({1}, DType::float64), x = s.noise(s.matrix)] {
            const View operand = view(x);
            s.kernels().norms(view(norm), {&operand, 1});
          }};
}

/// A step with one parameter, which is read and written with both of its moments.
KernelCase adamw(const Sizes& s) {
  Tensor parameter = s.noise(s.matrix).set_requires_grad();
  parameter.set_grad(s.noise(s.matrix));
  const auto optimizer = std::make_shared<nn::AdamW>(std::vector<Tensor>{parameter}, nn::AdamWConfig{.lr = 1e-6});
  return {"", 12 * s.count, [optimizer] { optimizer->step(); }, 7.0 / 4};
}

}  // namespace

std::vector<std::function<KernelCase()>> kernel_cases(const AttentionCase& at) {
  const Sizes s{at};
  std::vector<std::function<KernelCase()>> cases;
  for (const auto make :
       {copy_heads, add, gelu, gelu_backward, dropout, column_sums, max_pooling, softmax, layer_norm,
        layer_norm_backward, cross_entropy, cross_entropy_backward, embedding, embedding_backward, norms, adamw}) {
    cases.emplace_back([make, s] { return make(s); });
  }
  std::vector<KernelCase (*)(const Sizes&, bool)> both{linear, short_conv, attention, fastmax, additive_attention};
  if (at.device == Device::cpu) both.push_back(performer_attention);  // GPUs have no kernel for it
  for (const auto make : both) {
    for (const bool backward : {false, true}) cases.emplace_back([make, s, backward] { return make(s, backward); });
  }
  return cases;
}

KernelCase copy_case(int64_t side, Device device) {
  const Tensor x = zeros({4, side, side}).to(device), y = Tensor::empty(x.shape(), x.dtype(), device);
  return {"", 0, [x, y, device] { backend(device).copy(view(y), view(x)); }};
}

KernelCase product_case(int64_t side, DType dtype, Device device) {
  Generator rng(1);
  const Tensor a = randn({1, side, side}, rng, DType::float32, device).to(dtype), b = a.clone();
  return {"", 2 * std::pow(static_cast<double>(side), 3),
          [a, b, device, out = Tensor::empty(a.shape(), a.dtype(), device)] {
            backend(device).gemm(view(out), view(a), view(b), nullptr);
          }};
}

}  // namespace linnet::examples
