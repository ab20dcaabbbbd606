#include <string>

#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/attention/bigbird_attention.h>
#include <linnet/ops/attention/longformer_attention.h>
#include <linnet/ops/attention/lsh_attention.h>
#include <linnet/ops/attention/pooled_attention.h>

#include "tests/cuda/agreement.h"
#include "tests/cuda/bfloat16.h"

/// Softmax attention over sets of keys with ranges, at sizes of several tiles.

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

constexpr int64_t kTokens = 150;  // more than two tiles

/// Tokens of two sequences, some of them padding.
Tensor padding_mask(Device device) { return lt(ids({2, kTokens}, 4, device), 3); }

/// Tests each attention with q, k, v [2, 2, kTokens, width].
std::vector<std::pair<std::string, Moves>> attentions(double rate) {
  std::vector<std::pair<std::string, Moves>> all;
  for (const bool causal : {false, true}) {
    for (const bool padded : {false, true}) {
      const std::string suffix = std::string(causal ? ", causal" : "") + (padded ? ", padding" : "");
      const auto mask = [padded](const Tensor& x) { return padded ? padding_mask(x.device()) : Tensor(); };
      for (const int64_t dilation : {1, 2}) {
        all.emplace_back("longformer" + suffix, [=](const Inputs& in) {
          Generator generator(6);
          return longformer_attention(in[0], in[1], in[2], in[0].narrow(2, 0, 3), in[2], in[1],
                                      {.window = 20,
                                       .dilation = {dilation},
                                       .global_tokens = 3,
                                       .causal = causal,
                                       .padding_mask = mask(in[0]),
                                       .dropout = rate,
                                       .generator = &generator});
        });
      }
      for (const auto& [name, kind] : {std::pair{"mean", TokenPooling::Kind::mean},
                                       {"max", TokenPooling::Kind::max},
                                       {"conv", TokenPooling::Kind::convolution}}) {
        all.emplace_back(name + (" of pools" + suffix), [=, pool_kind = kind](const Inputs& in) {
          Generator generator(6);
          const auto pooling = [&](uint64_t seed) {
            const Tensor weight = held({5, in[0].size(3)}, seed, Device::cpu).to(in[0].device()).to(in[0].dtype());
            return TokenPooling{.kind = pool_kind, .weight = weight};
          };
          return pooled_attention(in[0], in[1], in[2],
                                  {.keys = pooling(7),
                                   .values = pooling(8),
                                   .window = 60,
                                   .causal = causal,
                                   .padding_mask = mask(in[0]),
                                   .dropout = rate,
                                   .generator = &generator});
        });
      }
      if (!causal) {
        all.emplace_back("bigbird" + suffix, [=](const Inputs& in) {
          Generator generator(6);
          return bigbird_attention(in[0], in[1], in[2],
                                   {.block = 8,
                                    .random_blocks = bigbird_random_blocks(kTokens, 8, 2, 2, {1, 2}),
                                    .padding_mask = mask(in[0]),
                                    .dropout = rate,
                                    .generator = &generator});
        });
      }
    }
  }
  return all;
}

/// Reformer's attention with given buckets, since rounding could change hashed ones.
Moves lsh(bool causal, bool padded, double rate) {
  return [=](const Inputs& in) {
    Generator generator(6);
    const Tensor buckets = ids({2, 2, 3, kTokens}, 4, in[0].device());
    return lsh_attention(in[0], in[2], buckets,
                         {.chunk = 16,
                          .causal = causal,
                          .padding_mask = padded ? padding_mask(in[0].device()) : Tensor(),
                          .dropout = rate,
                          .generator = &generator});
  };
}

}  // namespace

TEST_CASE("gpu: attention to windows, blocks, pools and buckets agrees with the CPU's, with gradients") {
  if (!has_gpu("sparse attentions on the GPU")) return;
  for (const auto& [dtype, allowed] : kPrecisions) {
    for (const double rate : {0.0, 0.2}) {
      const auto check = [&, dtype = dtype, allowed = allowed](const std::string& what, size_t inputs,
                                                               const Moves& attend) {
        agree(what, 4 * allowed, [&](Device device) {
          Inputs in;
          for (uint64_t i = 0; i < inputs; ++i) in.push_back(spread({2, 2, kTokens, 12}, i + 1, dtype, device));
          return with_gradients(
              in, [&](const Inputs& at) { return attend(inputs == 2 ? Inputs{at[0], at[0], at[1]} : at); });
        });
      };
      for (const auto& [what, attend] : attentions(rate)) check(what, 3, attend);
      for (const bool causal : {false, true}) {
        for (const bool padded : {false, true}) check("buckets", 2, lsh(causal, padded, rate));
      }
    }
  }
}

TEST_CASE("gpu: attention of bfloat16 to windows, blocks, pools and buckets is float32's to rounding") {
  if (!has_gpu("sparse attentions of bfloat16 on the GPU")) return;
  for (const int64_t width : {8, 40, 80}) {
    for (const auto& [what, attend] : attentions(0)) {
      // The largest of five values in (−1, 1) are 0.67 ± 0.14. Gradients depend on their differences, but
      // are computed from results that were rounded together with this mean.
      const double allowed = what.starts_with("max") ? kRoundings * 0.67 / 0.14 : kRoundings;
      agree_in_bfloat16(what + " " + std::to_string(width), allowed, std::vector<Shape>(3, {2, 2, kTokens, width}),
                        attend);
    }
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        agree_in_bfloat16(
            "buckets " + std::to_string(width), kRoundings, std::vector<Shape>(2, {2, 2, kTokens, width}),
            [attend = lsh(causal, padded, 0)](const Inputs& in) { return attend({in[0], in[0], in[1]}); });
      }
    }
  }
}

}  // namespace linnet::test
