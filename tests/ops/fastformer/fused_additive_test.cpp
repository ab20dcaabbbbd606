#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/detail/additive_attention.h>

#include "tests/ops/fastformer/additive_reference.h"
#include "tests/support/same_bits.h"

/// Compares the fused additive attention with the composed one, at sizes with several tiles, spans and groups of
/// heads. Also tests its other promises.

using namespace linnet;
using namespace linnet::test;

namespace {

struct Size {
  int64_t b, h, n, d;
};

/// One tile or several, one span or several, heads in one group or several, and widths that are compile-time
/// constants.
const std::vector<Size> kSizes = {{2, 2, 5, 3}, {1, 3, 130, 16}, {1, 1, 1100, 8}, {2, 5, 200, 32}, {1, 1, 1200, 64}};

using Attention = Tensor (*)(const AdditiveInputs& in, const AdditiveAttentionOptions& options);

Tensor fused(const AdditiveInputs& in, const AdditiveAttentionOptions& options) {
  return detail::fused_additive_attention(in.projections[0], in.projections[1], in.projections[2],
                                          in.stages[0].weight, in.stages[1].weight, options);
}

Tensor composed(const AdditiveInputs& in, const AdditiveAttentionOptions& options) {
  return detail::composed_additive_attention(in.projections, in.stages, options);
}

/// u and the gradients of all inputs; of four when `shared`, where the values are the queries.
std::vector<Tensor> results(Attention attention, const AdditiveInputs& in, AdditiveAttentionOptions options,
                            bool shared = false) {
  Generator generator(7);
  options.generator = &generator;
  std::vector<Tensor> leaves;
  for (const Tensor& x : in.tensors()) leaves.push_back(x.detach().set_requires_grad());
  if (shared) leaves[2] = leaves[0];
  const Tensor u = attention(in.with(leaves), options);
  if (shared) leaves.erase(leaves.begin() + 2);
  std::vector<Tensor> all = grad({u}, leaves, {.grad_outputs = {normal(u.shape(), 9, u.dtype())}});
  all.push_back(u.detach());
  return all;
}

/// The error of all results as one vector, since some gradients are only rounding errors if the softmax has chosen
/// one token.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  std::vector<double> all_a, all_b;
  for (size_t i = 0; i < a.size(); ++i) {
    for (const double x : a[i].to_vector<double>()) all_a.push_back(x);
    for (const double x : b[i].to_vector<double>()) all_b.push_back(x);
  }
  return relative_error(all_a, all_b);
}

/// The first sequence starts and ends with padding and has some inside; the last one is all padding.
Tensor some_padding(Size size) {
  Tensor padding_mask = ones({size.b, size.n}, DType::boolean);
  for (int64_t i = 0; i < size.n; ++i) {
    const bool inside = i > 2 && i < size.n - 1 && i % 7 != 0;
    padding_mask.mutable_data<bool>()[i] = inside;
    if (size.b > 1) padding_mask.mutable_data<bool>()[(size.b - 1) * size.n + i] = false;
  }
  return padding_mask;
}

/// Every combination of the fused op's options.
template <class F>
void for_each_option(Size size, F&& f) {
  for (const bool causal : {false, true}) {
    for (const Interaction interaction : {Interaction::product, Interaction::add}) {
      for (const Tensor& padding_mask : {Tensor(), some_padding(size)}) {
        for (const double dropout : {0.0, 0.3}) {
          f(AdditiveAttentionOptions{
              .interaction = interaction, .causal = causal, .padding_mask = padding_mask, .dropout = dropout});
        }
      }
    }
  }
}

AdditiveInputs inputs(Size size, DType dtype = DType::float64) {
  return additive_inputs(size.b, size.h, size.n, size.d, {}, dtype);
}

}  // namespace

TEST_CASE("Fused additive attention is the composed one, forward and backward, with queries as values and without") {
  for (const Size size : kSizes) {
    for_each_option(size, [&](const AdditiveAttentionOptions& options) {
      const AdditiveInputs in = inputs(size);
      CHECK(difference(results(fused, in, options), results(composed, in, options)) < 1e-12);
      CHECK(difference(results(fused, in, options, true), results(composed, in, options, true)) < 1e-12);
    });
  }
}

TEST_CASE("Fused additive attention: values at padding are in no gradient if the results there are not used") {
  const Size size{2, 2, 130, 3};
  const Tensor padding_mask = some_padding(size), is_kept = padding_mask.reshape({size.b, 1, size.n, 1});
  for (const bool causal : {false, true}) {
    const AdditiveAttentionOptions options{.causal = causal, .padding_mask = padding_mask};
    const auto gradients = [&](double value) {
      AdditiveInputs in = inputs(size);
      in.projections[2] = masked_fill(in.projections[2], logical_not(is_kept), value);
      std::vector<Tensor> leaves;
      for (const Tensor& x : in.tensors()) leaves.push_back(x.detach().set_requires_grad());
      const Tensor u = masked_fill(fused(in.with(leaves), options), logical_not(is_kept), 0);
      return grad({u}, leaves, {.grad_outputs = {normal(u.shape(), 9, u.dtype())}});
    };
    const std::vector<Tensor> expected = gradients(0);
    for (const double value : {kNan, kInfinity}) {
      const std::vector<Tensor> others = gradients(value);
      for (size_t i = 0; i < others.size(); ++i) CHECK(same_bits(others[i], expected[i]));
    }
  }
}

TEST_CASE("Fused additive attention in float32 is as good as float32") {
  for (const Size size : kSizes) {
    for_each_option(size, [&](const AdditiveAttentionOptions& options) {
      const AdditiveInputs single = inputs(size, DType::float32);
      std::vector<Tensor> exact;
      for (const Tensor& x : single.tensors()) exact.push_back(x.to(DType::float64));
      const double bound = std::max(1e-6, 1e-7 * std::sqrt(static_cast<double>(size.n)));
      CHECK(difference(results(fused, single, options), results(composed, single.with(exact), options)) < bound);
    });
  }
}

TEST_CASE("Fused additive attention keeps its digits at logits of ±80") {
  for (const Size size : {Size{1, 2, 200, 3}, Size{1, 1, 1100, 8}}) {
    for (const bool causal : {false, true}) {
      AdditiveInputs in = inputs(size);
      for (AdditiveStage& stage : in.stages) stage.weight = mul(stage.weight, 80);
      CHECK(difference(results(fused, in, {.causal = causal}), results(composed, in, {.causal = causal})) < 1e-11);
      // The queries' scores rise and fall over the tokens, from −80 to 80 and back.
      const Tensor slope = mul(sub(arange(size.n, DType::float64), static_cast<double>(size.n) / 2),
                               160.0 / static_cast<double>(size.n) * std::sqrt(static_cast<double>(size.d)));
      for (const Tensor& scores : {slope, neg(slope)}) {
        in.stages[0].weight = zeros({size.h, size.d}, DType::float64);
        in.stages[0].weight.narrow(1, 0, 1).fill_(1);
        in.projections[0].narrow(3, 0, 1).copy_(scores.unsqueeze(-1));
        CHECK(difference(results(fused, in, {.causal = causal}), results(composed, in, {.causal = causal})) < 1e-11);
        std::vector<Tensor> single;
        for (const Tensor& x : in.tensors()) single.push_back(x.to(DType::float32));
        for (const Tensor& x : results(fused, in.with(single), {.causal = causal})) {
          CHECK_FALSE(any(isnan(x)).item<bool>());
        }
      }
    }
  }
}

TEST_CASE("Fused additive attention: the number of threads changes no bit") {
  for (const Size size : kSizes) {
    for_each_option(size, [&](const AdditiveAttentionOptions& options) {
      const AdditiveInputs in = inputs(size, DType::float32);
      check_threads_change_no_bit([&] { return results(fused, in, options); });
    });
  }
}

TEST_CASE("Fused causal additive attention: the future changes no bit of the past, across tiles and spans") {
  for (const Size size : {Size{1, 3, 130, 16}, Size{1, 1, 1100, 8}}) {
    for (const Interaction interaction : {Interaction::product, Interaction::add}) {
      const AdditiveAttentionOptions options{.interaction = interaction, .causal = true};
      const AdditiveInputs in = inputs(size, DType::float32);
      const Tensor expected = fused(in, options);
      for (const int64_t t : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{100}, size.n - 520, size.n - 1}) {
        if (t < 1) continue;
        for (const double value : {3.0, kNan, kInfinity}) {
          AdditiveInputs changed = in;
          for (Tensor& x : changed.projections) x = with_tokens(x, 0, t, size.n, value);
          CHECK(linnet::test::same_bits(fused(changed, options).narrow(2, 0, t), expected.narrow(2, 0, t)));
        }
      }
    }
  }
}

TEST_CASE("Fused additive attention needs memory for its results, and little beside") {
  const Size size{1, 4, 8192, 16};
  const AdditiveInputs in = inputs(size, DType::float32);
  const double tensor_bytes = 4.0 * static_cast<double>(in.projections[0].numel());
  for (const bool causal : {false, true}) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : in.tensors()) leaves.push_back(x.detach().set_requires_grad());
    leaves[2] = leaves[0];
    const Tensor g = normal(leaves[0].shape(), 9, DType::float32);
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    const Tensor u = fused(in.with(leaves), {.causal = causal});
    const auto held = static_cast<double>(memory_stats().live - before);
    CHECK(held < 1.1 * tensor_bytes);  // u
    grad({u}, {leaves[0], leaves[1]}, {.grad_outputs = {g.transpose(1, 2).contiguous().transpose(1, 2)}});
    const auto peak = static_cast<double>(memory_stats().peak - before);
    CHECK(peak < 4.4 * tensor_bytes);  // u and its cotangent, the gradients of queries and keys
  }
}
