#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/attention/bigbird_attention.h>
#include <linnet/ops/attention/longformer_attention.h>
#include <linnet/ops/attention/lsh_attention.h>
#include <linnet/ops/attention/pooled_attention.h>

#include "tests/support/op_case.h"

/// The attentions in which a token sees only some other tokens.

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Batch, heads, tokens, width.
struct Size {
  int64_t b, h, n, d;
};

/// In the first sequence the first and last token are hidden, in the second all.
Tensor padding(int64_t tokens) {
  Tensor padding_mask = ones({2, tokens}, DType::boolean);
  const auto kept = padding_mask.mutable_data<bool>();
  kept[0] = kept[tokens - 1] = false;
  for (int64_t i = 0; i < tokens; ++i) kept[tokens + i] = false;
  return padding_mask.to(case_device());
}

class Cases {
 public:
  explicit Cases(Registry& registry) : registry_(registry) {}

  void longformer(const std::string& variant, Size size, int64_t globals, LongformerAttentionOptions options) {
    if (!options.global_mask.defined()) options.global_tokens = globals;
    Inputs inputs = heads(size, 3);
    inputs.push_back(draw({size.b, size.h, globals, size.d}));
    for (Tensor& x : heads(size, 2)) inputs.push_back(x);
    add("longformer_attention", variant, inputs, [options](const Inputs& in) mutable {
      Generator generator(7);  // draws the same masks at each call
      options.generator = &generator;
      return longformer_attention(in[0], in[1], in[2], in[3], in[4], in[5], options);
    });
    options.dropout = 0;
    add(
        "longformer_attention_weights", variant, {inputs[0], inputs[1], inputs[3], inputs[4]},
        [options](const Inputs& in) { return longformer_attention_weights(in[0], in[1], in[2], in[3], options); },
        true);
  }

  void bigbird(const std::string& variant, Size size, int64_t random, BigBirdAttentionOptions options) {
    options.random_blocks = bigbird_random_blocks(size.n, options.block, random, size.h, {5, 6});
    add("bigbird_attention", variant, heads(size, 3), [options](const Inputs& in) mutable {
      Generator generator(7);
      options.generator = &generator;
      return bigbird_attention(in[0], in[1], in[2], options);
    });
    options.dropout = 0;
    add(
        "bigbird_attention_weights", variant, heads(size, 2),
        [options](const Inputs& in) { return bigbird_attention_weights(in[0], in[1], options); }, true);
  }

  void pooled(const std::string& variant, Size size, PooledAttentionOptions options) {
    options.values = options.keys;
    Inputs inputs = heads(size, 3);
    const bool convolution = options.keys.kind == TokenPooling::Kind::convolution;
    for (int i = 0; i < 2 && convolution; ++i) inputs.push_back(draw({options.keys.kernel, size.d}));
    const auto with_weights = [options, convolution](const Inputs& in) {
      PooledAttentionOptions given = options;
      if (convolution) given.keys.weight = in[3], given.values.weight = in[4];
      return given;
    };
    add("pooled_attention", variant, inputs, [with_weights](const Inputs& in) {
      Generator generator(7);
      PooledAttentionOptions given = with_weights(in);
      given.generator = &generator;
      return pooled_attention(in[0], in[1], in[2], given);
    });
    add(
        "pooled_attention_weights", variant, inputs,
        [with_weights](const Inputs& in) {
          PooledAttentionOptions given = with_weights(in);
          given.dropout = 0;
          return pooled_attention_weights(in[0], in[1], in[2], given);
        },
        true);
    Inputs of_pools = heads(size, 1);
    if (convolution) of_pools.push_back(inputs[3]);
    add(
        "pool_tokens", variant, of_pools,
        [pooling = options.keys, mask = options.padding_mask, convolution](const Inputs& in) mutable {
          if (convolution) pooling.weight = in[1];
          return pool_tokens(in[0], pooling, mask);
        },
        true);
  }

  void lsh(const std::string& variant, Size size, int64_t hashes, LshAttentionOptions options) {
    Generator rng(3);
    const Tensor rotations = lsh_rotations(size.h, size.d, hashes, 4, rng, DType::float64);
    const Tensor buckets = lsh_buckets(draw({size.b, size.h, size.n, size.d}), rotations).to(case_device());
    add(
        "lsh_attention", variant, heads(size, 2),
        [options, buckets](const Inputs& in) mutable {
          Generator generator(7);
          options.generator = &generator;
          return lsh_attention(in[0], in[1], buckets, options);
        },
        options.released);
    options.released = false;
    options.dropout = 0;
    add(
        "lsh_attention_weights", variant, heads(size, 1),
        [options, buckets](const Inputs& in) { return lsh_attention_weights(in[0], buckets, options); }, true);
    add("lsh_keys", variant, heads(size, 1), [](const Inputs& in) { return lsh_keys(in[0]); }, true);
  }

  Tensor draw(const Shape& shape) { return randn(shape, generator_, DType::float64); }

 private:
  void add(const std::string& op, const std::string& variant, Inputs inputs, std::function<Tensor(const Inputs&)> f,
           bool twice = false) {
    registry_.differentiable.push_back({op, variant, std::move(inputs), std::move(f), twice});
  }

  Inputs heads(Size size, int count) {
    Inputs all;
    for (int i = 0; i < count; ++i) all.push_back(draw({size.b, size.h, size.n, size.d}));
    return all;
  }

  Registry& registry_;
  Generator generator_{23};
};

void add_longformer_cases(Cases& cases) {
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? ", causal" : "";
    cases.longformer("window" + suffix, {2, 2, 7, 3}, 2, {.window = 2, .causal = causal});
    cases.longformer("no global tokens" + suffix, {1, 2, 6, 3}, 0, {.window = 4, .causal = causal});
    cases.longformer("dilation" + suffix, {1, 2, 7, 2}, 2, {.window = 2, .dilation = {1, 2}, .causal = causal});
    cases.longformer("all global" + suffix, {1, 1, 4, 2}, 4, {.window = 2, .causal = causal});
    cases.longformer("two tiles" + suffix, {1, 1, 67, 2}, 2, {.window = 6, .causal = causal, .scale = 0.3});
    cases.longformer("size 1" + suffix, {1, 1, 1, 1}, 1, {.causal = causal});
    cases.longformer("no tokens" + suffix, {2, 1, 0, 2}, 0, {.causal = causal});
    cases.longformer("padding" + suffix, {2, 2, 6, 3}, 1,
                     {.window = 2, .causal = causal, .padding_mask = padding(6)});
    cases.longformer("global mask" + suffix, {2, 1, 6, 2}, 4,
                     {.window = 2, .global_mask = padding(6), .causal = causal, .padding_mask = {}});
    cases.longformer("dropout" + suffix, {2, 2, 7, 3}, 2, {.window = 2, .causal = causal, .dropout = 0.2});
  }
}

void add_bigbird_cases(Cases& cases) {
  cases.bigbird("random blocks", {2, 2, 21, 2}, 1, {.block = 2});
  cases.bigbird("no random blocks", {1, 2, 13, 3}, 0, {.block = 2, .scale = 0.3});
  cases.bigbird("dense", {1, 2, 6, 3}, 1, {.block = 2});
  cases.bigbird("two tiles", {1, 1, 79, 2}, 1, {.block = 8});
  cases.bigbird("size 1", {1, 1, 1, 1}, 1, {});
  cases.bigbird("no tokens", {2, 1, 0, 2}, 1, {});
  cases.bigbird("padding", {2, 2, 17, 2}, 1, {.block = 2, .padding_mask = padding(17)});
  cases.bigbird("dropout", {2, 2, 17, 2}, 1, {.block = 2, .dropout = 0.2});
}

void add_pooled_cases(Cases& cases) {
  using Kind = TokenPooling::Kind;
  for (const Kind kind : {Kind::mean, Kind::max, Kind::convolution}) {
    for (const bool causal : {false, true}) {
      const std::string suffix = std::string(kind == Kind::mean  ? ", mean"
                                             : kind == Kind::max ? ", max"
                                                                 : "") +
                                 (causal ? ", causal" : "");
      const TokenPooling pooling{.kind = kind, .kernel = 3, .stride = 2};
      cases.pooled("window" + suffix, {2, 2, 9, 3}, {.keys = pooling, .window = 6, .causal = causal});
      cases.pooled("scale" + suffix, {1, 1, 6, 2}, {.keys = pooling, .window = 9, .causal = causal, .scale = 0.3});
      cases.pooled("size 1" + suffix, {1, 1, 1, 1}, {.keys = pooling, .causal = causal});
      cases.pooled("no tokens" + suffix, {2, 1, 0, 2}, {.keys = pooling, .causal = causal});
      cases.pooled("padding" + suffix, {2, 2, 7, 2},
                   {.keys = pooling, .window = 8, .causal = causal, .padding_mask = padding(7)});
      cases.pooled("dropout" + suffix, {2, 1, 9, 2},
                   {.keys = pooling, .window = 8, .causal = causal, .dropout = 0.2});
    }
  }
}

void add_lsh_cases(Cases& cases) {
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? ", causal" : "";
    cases.lsh("rounds" + suffix, {2, 2, 9, 3}, 3, {.chunk = 2, .causal = causal});
    cases.lsh("scale" + suffix, {1, 1, 7, 2}, 1, {.chunk = 3, .causal = causal, .scale = 0.3});
    cases.lsh("two tiles" + suffix, {1, 1, 70, 2}, 2, {.chunk = 8, .causal = causal});
    cases.lsh("size 1" + suffix, {1, 1, 1, 3}, 2, {.chunk = 2, .causal = causal});
    cases.lsh("no tokens" + suffix, {2, 1, 0, 2}, 2, {.chunk = 2, .causal = causal});
    cases.lsh("padding" + suffix, {2, 2, 9, 2}, 2, {.chunk = 2, .causal = causal, .padding_mask = padding(9)});
    cases.lsh("dropout" + suffix, {2, 1, 9, 2}, 2, {.chunk = 2, .causal = causal, .dropout = 0.2});
    cases.lsh("released" + suffix, {1, 2, 8, 3}, 2, {.chunk = 2, .causal = causal, .released = true});
  }
}

}  // namespace

void add_sparse_attention_cases(Registry& registry) {
  Cases cases(registry);
  add_longformer_cases(cases);
  add_bigbird_cases(cases);
  add_pooled_cases(cases);
  add_lsh_cases(cases);
  registry.non_differentiable.push_back({"lsh_buckets", {cases.draw({1, 2, 5, 3})}, [](const Inputs& in) {
                                           Generator rng(3);
                                           return lsh_buckets(
                                               in[0], lsh_rotations(2, 3, 2, 4, rng, DType::float64, in[0].device()));
                                         }});
  registry.exempt.emplace_back("bigbird_random_blocks", "draws numbers");
  registry.exempt.emplace_back("lsh_rotations", "draws random numbers");
  registry.exempt.emplace_back("lsh_bucket_count", "returns a number");
}

}  // namespace linnet::test
