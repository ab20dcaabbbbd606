#include <linnet/ops/attention/linformer_attention.h>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// Compares Linformer's attention with its formula in float64 and another author's code. Also tests properties of all
/// attentions.

using namespace linnet;
using namespace linnet::test;

namespace {

struct Inputs {
  Tensor q, k, v, e, f;
};

Inputs normal_inputs(int64_t b, int64_t h, int64_t n, int64_t m, int64_t d, int64_t slots, int64_t most,
                     DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, m, d}, 2, dtype), normal({b, h, m, d}, 3, dtype),
          normal({slots, most}, 5, dtype), normal({slots, most}, 6, dtype)};
}

Tensor attend(const Inputs& in, const LinformerAttentionOptions& options = {}) {
  return linformer_attention(in.q, in.k, in.v, in.e, in.f, options);
}

/// Gradients of q, k, v, e and f under a cotangent drawn from seed 4, and the output.
std::vector<Tensor> forward_backward(Inputs in, const LinformerAttentionOptions& options = {}) {
  for (Tensor* x : {&in.q, &in.k, &in.v, &in.e, &in.f}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = attend(in, options);
  std::vector<Tensor> results =
      grad({o}, {in.q, in.k, in.v, in.e, in.f}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

/// slots_r = Σ_n projection_rn x_n over the tokens that are not padding, element by element.
Tensor projected(const Tensor& projection, const Tensor& x, const Sees& kept) {
  const Shape& size = x.shape();
  const int64_t slots = projection.size(0), most = projection.size(1), tokens = size[2], width = size[3];
  const std::vector<double> p = projection.to_vector<double>(), values = x.to_vector<double>();
  std::vector<double> sums;
  for (int64_t b = 0; b < size[0]; ++b) {
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t r = 0; r < slots; ++r) {
        for (int64_t d = 0; d < width; ++d) {
          double sum = 0;
          for (int64_t n = 0; n < tokens; ++n) {
            if (!kept(b, 0, n)) continue;
            sum += p[static_cast<size_t>(r * most + n)] *
                   values[static_cast<size_t>(((b * size[1] + h) * tokens + n) * width + d)];
          }
          sums.push_back(sum);
        }
      }
    }
  }
  return tensor(sums).reshape({size[0], size[1], slots, width});
}

std::vector<double> reference(const Inputs& in, const Tensor& padding_mask = {}, double scale = 0) {
  const int64_t m = in.k.size(2);
  const Sees kept = sees(1, m, false, padding_mask);
  const Tensor k = projected(in.e, in.k, kept), v = projected(in.f, in.v, kept);
  const auto s = scores(in.q, k, scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(in.q.size(3))));
  const auto any_kept = [&](int64_t b, int64_t, int64_t) {
    for (int64_t n = 0; n < m; ++n) {
      if (kept(b, 0, n)) return true;
    }
    return false;
  };
  return weighted_means([&](int64_t b, int64_t h, int64_t i, int64_t j) { return std::exp(s(b, h, i, j)); },
                        in.q.size(2), v, any_kept);
}

}  // namespace

TEST_CASE("linformer_attention is what the package linformer computes, of fewer tokens than it projects") {
  const std::filesystem::path path =
      std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/linformer.safetensors";
  const TensorMap file = read_safetensors(path).tensors;
  std::vector<Tensor> leaves;
  const std::vector<std::string> names{"to_q.weight", "to_k.weight",   "to_v.weight", "proj_k",
                                       "proj_v",      "to_out.weight", "to_out.bias"};
  leaves.push_back(file.at("test.input").clone().set_requires_grad());
  for (const std::string& name : names) leaves.push_back(file.at(name).clone().set_requires_grad());
  const Tensor& x = leaves[0];
  const auto heads = [&](const Tensor& map) { return linear(x, map).reshape({2, 20, 2, 8}).transpose(1, 2); };
  const Tensor o = linformer_attention(heads(leaves[1]), heads(leaves[2]), heads(leaves[3]), transpose(leaves[4]),
                                       transpose(leaves[5]));
  const Tensor y = linear(o.transpose(1, 2).reshape({2, 20, 16}), leaves[6], leaves[7]);
  CHECK(relative_error(y, file.at("test.output").to_vector<double>()) < 1e-12);
  const std::vector<Tensor> gradients = grad({y}, leaves, {.grad_outputs = {file.at("test.cotangent")}});
  CHECK(relative_error(gradients[0], file.at("grad.input").to_vector<double>()) < 1e-12);
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(relative_error(gradients[i + 1], file.at("grad." + names[i]).to_vector<double>()) < 1e-12);
  }
}

TEST_CASE("linformer_attention with a slot for each token is softmax_attention, with the same gradients") {
  Inputs in = normal_inputs(2, 3, 9, 9, 4, 9, 9);
  in.e = in.f = tensor(std::vector<double>(81)).reshape({9, 9}).clone();
  for (int64_t i = 0; i < 9; ++i) in.e.narrow(0, i, 1).narrow(1, i, 1).fill_(1);
  for (const double dropout : {0.0, 0.3}) {
    Generator generator(8), same(8);
    const std::vector<Tensor> results = forward_backward(in, {.dropout = dropout, .generator = &generator});
    Inputs leaves = in;
    for (Tensor* x : {&leaves.q, &leaves.k, &leaves.v}) *x = x->clone().set_requires_grad();
    const Tensor o = softmax_attention(leaves.q, leaves.k, leaves.v, {.dropout = dropout, .generator = &same});
    CHECK(relative_error(results[5], o.to_vector<double>()) < 1e-14);
    const std::vector<Tensor> expected =
        grad({o}, {leaves.q, leaves.k, leaves.v}, {.grad_outputs = {normal(o.shape(), 4)}});
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(relative_error(results[i], expected[i].to_vector<double>()) < 1e-13);
    }
  }
}

TEST_CASE("linformer_attention is the explicit formula; fewer tokens use the first columns") {
  for (const auto& [n, m, slots, most] : std::vector<std::array<int64_t, 4>>{
           {1, 1, 1, 1}, {5, 5, 3, 5}, {5, 5, 3, 9}, {70, 70, 16, 80}, {3, 7, 8, 7}}) {
    CAPTURE(n);
    CAPTURE(m);
    CAPTURE(slots);
    const Inputs in = normal_inputs(2, 3, n, m, 4, slots, most);
    CHECK(relative_error(attend(in), reference(in)) < 1e-13);
    CHECK(relative_error(attend(in, {.scale = 0.3}), reference(in, {}, 0.3)) < 1e-13);
    Inputs first = in;
    first.e = in.e.narrow(1, 0, m).clone(), first.f = in.f.narrow(1, 0, m).clone();
    CHECK(relative_error(attend(in), attend(first).to_vector<double>()) < 1e-14);
  }
  const Inputs single = normal_inputs(1, 2, 300, 300, 32, 16, 300, DType::float32);
  CHECK(attend(single).dtype() == DType::float32);
  CHECK(relative_error(attend(single), reference(single)) < 2e-6);
}

TEST_CASE("linformer_attention takes padding as 0, whatever it holds; a sequence of padding alone gives 0") {
  const Inputs in = normal_inputs(3, 2, 6, 6, 3, 4, 8);
  const Tensor padding_mask =
      keep_all_but(3, 6, {{0, 0}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {2, 5}});
  const LinformerAttentionOptions options{.padding_mask = padding_mask};
  const std::vector<Tensor> expected = forward_backward(in, options);
  CHECK(relative_error(expected[5], reference(in, padding_mask)) < 1e-13);
  for (const size_t i : {0, 1, 2, 5}) CHECK(sum(square(expected[i].narrow(0, 1, 1))).item<double>() == 0);
  for (const double value : {1e30, -1e30, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CAPTURE(value);
    Inputs changed = in;
    for (Tensor* x : {&changed.k, &changed.v}) {
      *x = with_tokens(with_tokens(with_tokens(*x, 0, 3, 4, value), 1, 0, 6, value), 2, 5, 6, value);
    }
    check_same_bits(forward_backward(changed, options), expected);
    // A query of a sequence with only padding gives 0 too.
    changed.q = with_tokens(in.q, 1, 0, 6, value);
    CHECK(same_bits(attend(changed, options), expected[5]));
  }
  // Padding after a sequence only changes rounding.
  Inputs longer = in;
  for (Tensor* x : {&longer.q, &longer.k, &longer.v}) *x = concat({*x, normal({3, 2, 2, 3}, 9)}, 2);
  const Tensor longer_mask = concat({padding_mask, zeros({3, 2}, DType::boolean)}, 1);
  CHECK(relative_error(attend(longer, {.padding_mask = longer_mask}).narrow(2, 0, 6),
                       expected[5].to_vector<double>()) < 1e-14);
}

TEST_CASE("linformer_attention does not care for the order of tokens whose columns are exchanged with them") {
  const Inputs in = normal_inputs(2, 2, 9, 9, 4, 5, 9);
  Generator rng(5);
  const Tensor order = randperm(9, rng);
  const Inputs moved{index_select(in.q, 2, order), index_select(in.k, 2, order), index_select(in.v, 2, order),
                     index_select(in.e, 1, order), index_select(in.f, 1, order)};
  CHECK(relative_error(attend(moved), index_select(attend(in), 2, order).to_vector<double>()) < 1e-14);
}

TEST_CASE("linformer_attention and its gradients are the same for any number of threads") {
  const Inputs in = normal_inputs(3, 2, 1300, 1300, 16, 64, 1300, DType::float32);
  const Tensor padding_mask = keep_all_but(3, 1300, {{0, 0}, {2, 1299}});
  for (const double dropout : {0.0, 0.1}) {
    Generator generator(11);
    check_threads_change_no_bit([&] {
      generator.set_state({11, 0});
      return forward_backward(in, {.padding_mask = padding_mask, .dropout = dropout, .generator = &generator});
    });
  }
}

TEST_CASE("Dropout leaves the expectation of linformer_attention as it is, and takes one draw") {
  const Inputs in = normal_inputs(1, 1, 4, 8, 3, 5, 8);
  Generator generator(10);
  Tensor total = zeros({1, 1, 4, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) total = total + attend(in, {.dropout = 0.25, .generator = &generator});
  CHECK(generator.state().draws == kDraws);
  CHECK(relative_error(total / kDraws, attend(in).to_vector<double>()) < 0.05);
}

TEST_CASE("linformer_attention_weights times the values are what linformer_attention gives") {
  const Inputs in = normal_inputs(2, 2, 6, 6, 3, 4, 8);
  for (const Tensor& padding_mask :
       {Tensor(), keep_all_but(2, 6, {{0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}})}) {
    const LinformerAttentionOptions options{.padding_mask = padding_mask, .scale = 0.7};
    const Tensor weights = linformer_attention_weights(in.q, in.k, in.e, in.f, options);
    CHECK(weights.shape() == Shape{2, 2, 6, 6});
    CHECK(relative_error(matmul(weights, in.v), attend(in, options).to_vector<double>()) < 1e-13);
    if (!padding_mask.defined()) continue;
    CHECK(sum(abs(weights.narrow(3, 3, 1).narrow(0, 0, 1))).item<double>() == 0);
    CHECK(sum(abs(weights.narrow(0, 1, 1))).item<double>() == 0);
  }
}

TEST_CASE("linformer_attention takes memory linear in the tokens") {
  const Inputs in = normal_inputs(1, 1, 4096, 4096, 8, 16, 4096, DType::float32);
  const WithThreads with(1);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  forward_backward(in);
  CHECK(memory_stats().peak - live < 4096 * 4096 * 4 / 10);
}

TEST_CASE("linformer_attention says what is wrong") {
  const auto [q, k, v, e, f] = normal_inputs(2, 3, 4, 5, 6, 3, 7);
  const Where where{"a.cpp", 1};
  CHECK_THROWS_WITH_AS(
      linformer_attention(q.reshape({6, 4, 6}), k, v, e, f, {}, where),
      "linformer_attention: q[6, 4, 6] has rank 3; [batch, heads, tokens, width] is needed (a.cpp:1)", ShapeError);
  CHECK_THROWS_WITH_AS(
      linformer_attention(q, k, v, e.narrow(1, 0, 4), f, {}, where),
      "linformer_attention: 5 tokens, but e[3, 4] projects 4 at most; give fewer tokens, or build it "
      "for more (a.cpp:1)",
      ValueError);
  CHECK_THROWS_WITH_AS(linformer_attention(q, k, v, e, f.narrow(0, 0, 2), {}, where),
                       doctest::Contains("linformer_attention: f[2, 7]"), ShapeError);
  CHECK_THROWS_WITH_AS(linformer_attention(q, k, v, e.flatten(), f, {}, where),
                       "linformer_attention: e[21] has rank 1; [slots, tokens] is needed (a.cpp:1)", ShapeError);
  CHECK_THROWS_WITH_AS(linformer_attention(q, k, v, e.to(DType::float32), f, {}, where),
                       "linformer_attention: e is float32; beside k of float64 it must be float64 (a.cpp:1)",
                       DTypeError);
  CHECK_THROWS_AS(linformer_attention(q, k.to(DType::float32), v, e, f), DTypeError);
  CHECK_THROWS_AS(linformer_attention(q, k, v, e, f, {.padding_mask = ones({2, 4}, DType::boolean)}), ShapeError);
  CHECK_THROWS_WITH_AS(linformer_attention(q, k, v, e, f, {.dropout = 1.5}, where),
                       "linformer_attention: dropout is 1.5; it must be in [0, 1] (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(linformer_attention(q, k, v, e, f, {.dropout = 0.1}, where),
                       "linformer_attention: dropout 0.1 needs a generator; set options.generator (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(linformer_attention(q, k, v, e, f, {.scale = std::nan("")}, where),
                       "linformer_attention: scale is nan; it must be finite (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(linformer_attention_weights(q, k, e.narrow(1, 0, 4), f.narrow(1, 0, 4)),
                       doctest::Contains("linformer_attention_weights: 5 tokens, but e[3, 4] projects 4 at most"),
                       ValueError);
}
