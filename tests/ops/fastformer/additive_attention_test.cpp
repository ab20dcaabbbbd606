#include <string>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/compare.h>

#include "tests/ops/fastformer/additive_reference.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using namespace linnet::test;

namespace {

Tensor run(const AdditiveInputs& in, const AdditiveAttentionOptions& options) {
  return additive_attention(in.projections, in.stages, options);
}

/// The gradients of all tensors of `in`, then u.
std::vector<Tensor> forward_backward(const AdditiveInputs& in, const AdditiveAttentionOptions& options,
                                     const Tensor& cotangent) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : in.tensors()) leaves.push_back(x.detach().set_requires_grad());
  const Tensor u = run(in.with(leaves), options);
  std::vector<Tensor> results = grad({u}, leaves, {.grad_outputs = {cotangent}});
  results.push_back(u.detach());
  return results;
}

/// Every combination of options, with the kind of inputs that it needs.
template <class F>
void for_each_option(F&& f) {
  for (const int64_t projections : {2, 3, 4}) {
    for (const Interaction interaction : {Interaction::product, Interaction::add, Interaction::concat}) {
      for (const bool causal : {false, true}) {
        for (const bool full : {false, true}) {
          const AdditiveKind kind{projections, interaction == Interaction::concat, full, full};
          f(kind, AdditiveAttentionOptions{.interaction = interaction, .causal = causal});
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("additive_attention is eqs. 3–6 written out, with every option") {
  const Tensor padding_mask = keep_all_but(2, 17, {{0, 0}, {0, 5}, {0, 16}, {1, 0}, {1, 1}});
  for_each_option([&](AdditiveKind kind, AdditiveAttentionOptions options) {
    const AdditiveInputs in = additive_inputs(2, 2, 17, 5, kind);
    CHECK(relative_error(run(in, options), additive_reference(in, options)) < 1e-13);
    options.padding_mask = padding_mask;
    CHECK(relative_error(run(in, options), additive_reference(in, options)) < 1e-13);
    Generator generator(5), same(5);
    options.dropout = 0.4;
    options.generator = &generator;
    std::vector<RandomKey> keys;
    for (int64_t i = 1; i < kind.projections; ++i) keys.push_back(same.next());
    CHECK(relative_error(run(in, options), additive_reference(in, options, keys)) < 1e-13);
    CHECK(generator.state().draws == same.state().draws);
  });
}

TEST_CASE("additive_attention in float32 is as good as float32") {
  const AdditiveInputs single = additive_inputs(1, 2, 60, 32, {}, DType::float32);
  std::vector<Tensor> exact;
  for (const Tensor& x : single.tensors()) exact.push_back(x.to(DType::float64));
  for (const bool causal : {false, true}) {
    CHECK(relative_error(run(single, {.causal = causal}),
                         additive_reference(single.with(exact), {.causal = causal})) < 1e-6);
  }
}

TEST_CASE("additive_attention does not care for the order of the tokens, but when causal") {
  const auto swapped = [](const Tensor& x) { return concat({x.narrow(2, 4, 5), x.narrow(2, 0, 4)}, 2); };
  for_each_option([&](AdditiveKind kind, const AdditiveAttentionOptions& options) {
    const AdditiveInputs in = additive_inputs(1, 2, 9, 4, kind);
    AdditiveInputs turned = in;
    for (Tensor& x : turned.projections) x = swapped(x);
    const double change = relative_error(run(turned, options), swapped(run(in, options)).to_vector<double>());
    CHECK((options.causal ? change > 0.01 : change < 1e-13));
  });
}

TEST_CASE("additive_attention leaves out padding; where nothing is left it is 0 without gradient") {
  const Tensor padding_mask = keep_all_but(2, 6, {{0, 0}, {0, 5}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  for_each_option([&](AdditiveKind kind, AdditiveAttentionOptions options) {
    options.padding_mask = padding_mask;
    const AdditiveInputs in = additive_inputs(2, 2, 6, 3, kind);
    const std::vector<Tensor> expected = forward_backward(in, options, normal({2, 2, 6, 3}, 6));
    const Tensor zero = zeros({1, 2, 6, 3}, DType::float64);
    for (size_t i = 0; i < in.projections.size(); ++i) CHECK(same_bits(expected[i].narrow(0, 1, 1), zero));
    CHECK(same_bits(expected.back().narrow(0, 1, 1), zero));

    // Values at padding must not matter, except those of the last projection, from which a token's own result is
    // made.
    for (const double value : {1e30, kNan, kInfinity}) {
      AdditiveInputs changed = in;
      for (size_t i = 0; i + 1 < in.projections.size(); ++i) {
        Tensor& x = changed.projections[i];
        x = with_tokens(with_tokens(with_tokens(x, 0, 0, 1, value), 0, 5, 6, value), 1, 0, 6, value);
      }
      const std::vector<Tensor> results = forward_backward(changed, options, normal({2, 2, 6, 3}, 6));
      for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
      changed.projections.back() = with_tokens(in.projections.back(), 0, 5, 6, value);
      CHECK(same_bits(run(changed, options).narrow(0, 0, 1).narrow(2, 0, 5),
                      expected.back().narrow(0, 0, 1).narrow(2, 0, 5)));

      // Backward multiplies the values of the last projection with gradients, which may be 0.
      const Tensor g = with_tokens(normal({2, 2, 6, 3}, 6), 0, 5, 6, 0);
      const std::vector<Tensor> gradients = forward_backward(changed, options, g);
      changed.projections.back() = in.projections.back();
      const std::vector<Tensor> without = forward_backward(changed, options, g);
      for (size_t i = 0; i + 1 < gradients.size(); ++i) CHECK(allclose(gradients[i], without[i], 0, 0));
    }
  });
}

TEST_CASE("Causal additive_attention: the future changes no bit of the past") {
  for_each_option([&](AdditiveKind kind, const AdditiveAttentionOptions& options) {
    if (!options.causal) return;
    const AdditiveInputs in = additive_inputs(1, 2, 150, 8, kind, DType::float32);
    const Tensor expected = run(in, options);
    for (const int64_t t : {1, 16, 63, 64, 149}) {
      for (const double value : {3.0, kNan, kInfinity}) {
        AdditiveInputs changed = in;
        for (Tensor& x : changed.projections) x = with_tokens(x, 0, t, 150, value);
        CHECK(same_bits(run(changed, options).narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
    }
  });
}

TEST_CASE("additive_attention takes the heads of a fused projection, on any number of threads") {
  const int64_t b = 3, n = 200, h = 4, d = 16, c = h * d;
  const Tensor qkv = normal({b, n, 3 * c}, 5, DType::float32);
  const auto heads = [&](int64_t i) { return qkv.narrow(2, i * c, c).reshape({b, n, h, d}).transpose(1, 2); };
  AdditiveInputs strided = additive_inputs(b, h, n, d, {}, DType::float32);
  strided.projections = {heads(0), heads(1), heads(2)};
  AdditiveInputs dense = strided;
  for (Tensor& x : dense.projections) x = x.contiguous();
  const Tensor g = normal({b, h, n, d}, 8, DType::float32);
  for (const bool causal : {false, true}) {
    check_threads_change_no_bit([&] {
      const std::vector<Tensor> results = forward_backward(strided, {.causal = causal}, g);
      check_same_bits(results, forward_backward(dense, {.causal = causal}, g));
      return results;
    });
  }
}

TEST_CASE("additive_attention says what is wrong") {
  const AdditiveInputs in = additive_inputs(2, 3, 4, 5);
  const auto message = [&](const std::function<void(AdditiveInputs&, AdditiveAttentionOptions&)>& spoil) {
    AdditiveInputs spoiled = in;
    AdditiveAttentionOptions options;
    spoil(spoiled, options);
    try {
      additive_attention(spoiled.projections, spoiled.stages, options, {"a.cpp", 1});
      return std::string("nothing was thrown");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(message([](auto& x, auto&) { x.projections.resize(1); }) ==
        "additive_attention: there is 1 projection; at least 2 are needed, usually 3: queries, keys and values "
        "(a.cpp:1)");
  CHECK(message([](auto& x, auto&) { x.stages.resize(1); }) ==
        "additive_attention: 3 projections need 2 stages, one between each two, not 1 (a.cpp:1)");
  CHECK(
      message([](auto& x, auto&) { x.projections[1] = x.projections[1].narrow(2, 0, 3); }) ==
      "additive_attention: projection 2 [2, 3, 3, 5] and projection 1 [2, 3, 4, 5] must have one shape; reshape() or "
      "expand() one of them (a.cpp:1)");
  CHECK(message([](auto& x, auto&) { x.stages[1].weight = normal({5, 3}, 1); }) ==
        "additive_attention: weight[5, 3] of stage 2 does not fit projection 1 [2, 3, 4, 5]: it must be [heads, "
        "width], "
        "[3, 5], or full, [3, 15] (a.cpp:1)");
  CHECK(message([](auto& x, auto&) { x.stages[1].weight = {}; }) ==
        "additive_attention: stage 2 has no weight (a.cpp:1)");
  CHECK(message([](auto& x, auto&) { x.stages[0].bias = normal({5}, 1); }) ==
        "additive_attention: bias[5] of stage 1 does not fit projection 1 [2, 3, 4, 5]: it must be [3] (a.cpp:1)");
  CHECK(message([](auto&, auto& options) { options.interaction = Interaction::concat; }) ==
        "additive_attention: stage 1 has no concat_weight; Interaction::concat needs one, [3, 10, 5] (a.cpp:1)");
  CHECK(message([](auto& x, auto&) { x.stages[0].concat_weight = normal({3, 10, 5}, 1); }) ==
        "additive_attention: stage 1 has a concat_weight, which only Interaction::concat uses (a.cpp:1)");
  CHECK(message([](auto& x, auto& options) {
          options.interaction = Interaction::concat;
          for (AdditiveStage& stage : x.stages) stage.concat_weight = normal({3, 5, 5}, 1);
        }) ==
        "additive_attention: concat_weight[3, 5, 5] of stage 1 does not fit projection 1 [2, 3, 4, 5]: it must be "
        "[3, 10, 5] (a.cpp:1)");
  CHECK(message([](auto&, auto& options) { options.padding_mask = ones({2, 5}, DType::boolean); }) ==
        "additive_attention: padding_mask[2, 5] does not fit projection 1 [2, 3, 4, 5]: it must be [batch, tokens], "
        "[2, 4] "
        "(a.cpp:1)");
  CHECK(message([](auto&, auto& options) { options.dropout = 0.1; }) ==
        "additive_attention: dropout 0.1 needs a generator; set options.generator (a.cpp:1)");
  CHECK(message([](auto&, auto& options) { options.dropout = -0.1; }) ==
        "additive_attention: dropout is -0.1; it must be in [0, 1] (a.cpp:1)");
  AdditiveInputs mixed = in;
  mixed.projections[1] = mixed.projections[1].to(DType::float32);
  CHECK_THROWS_AS(run(mixed, {}), DTypeError);
}
