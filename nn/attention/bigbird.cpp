#include <linnet/nn/attention/bigbird.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/random.h>

namespace linnet::nn {

namespace {

/// Whether bigbird_attention is softmax attention. This is so when no block sees random blocks.
bool is_dense(const BigBirdConfig& config, int64_t tokens) {
  return bigbird_random_blocks(tokens, config.block, config.random_blocks, /*heads=*/0, {}).size(1) == 0;
}

}  // namespace

BigBirdAttention::BigBirdAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config), bigbird_(options_of<BigBirdConfig>(config)) {
  if (config.causal) refuse("causal form");
  if (config.rotary) refuse("rotary positions");
  if (bigbird_.block < 1 || bigbird_.random_blocks < 0) {
    throw ValueError(fmt::format("{}: block is {} and random_blocks {}; they must be at least 1 and 0", label(),
                                 bigbird_.block, bigbird_.random_blocks));
  }
  seed_ = buffer("seed", randint(0, int64_t{1} << 32, {1}, generator()));
}

BigBirdAttentionOptions BigBirdAttention::options(int64_t tokens, const Tensor& padding_mask) const {
  return {.block = bigbird_.block,
          .random_blocks = bigbird_random_blocks(tokens, bigbird_.block, bigbird_.random_blocks, config().heads,
                                                 {static_cast<uint64_t>(seed_.item<int64_t>()), 0}),
          .padding_mask = padding_mask,
          .dropout = training() ? config().dropout : 0,
          .generator = &generator()};
}

Tensor BigBirdAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return out_(merge_heads(bigbird_attention(q, k, v, options(x.size(1), padding_mask))));
}

std::vector<AttentionMap> BigBirdAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return {{"", bigbird_attention_weights(q, k, options(x.size(1), padding_mask))}};
}

std::vector<Setting> BigBirdAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  all.push_back({"block", bigbird_.block});
  all.push_back({"random_blocks", bigbird_.random_blocks});
  return all;
}

Mechanism bigbird_mechanism() {
  Mechanism m{.name = "bigbird", .paper = "Zaheer et al. 2020, section 2", .make = maker<BigBirdAttention>()};
  m.causal = m.step = false;
  m.why_not_causal = "every block sees the last one, and the first sees all";
  m.options = BigBirdConfig{};
  constexpr int64_t kMost = 1 << 30;
  m.option_list = {
      integer_option("block", "tokens of a block of bigbird (default: 16)", &BigBirdConfig::block, 1, kMost),
      integer_option("random_blocks", "random blocks that a block of bigbird sees (default: 1)",
                     &BigBirdConfig::random_blocks, 0, kMost),
  };
  m.note = [](const AttentionConfig& config) -> std::string {
    const auto bigbird = options_of<BigBirdConfig>(config);
    if (config.max_tokens == 0 || !is_dense(bigbird, config.max_tokens)) return "";
    return fmt::format("softmax attention, since {} tokens make fewer than {} blocks of {}", config.max_tokens,
                       6 + 2 * bigbird.random_blocks, bigbird.block);
  };
  m.complexity = "N·b·(5 + r)·D";
  // `pairs` counts query–key pairs: a block in the middle sees 5 + r blocks; the first and the last block see all.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>& kernels) {
    const auto options = options_of<BigBirdConfig>(size);
    if (is_dense(options, size.tokens)) return quadratic_operations(size, kernels);
    const auto n = static_cast<double>(size.tokens), block = static_cast<double>(options.block);
    const double seen = std::min(n, static_cast<double>(5 + options.random_blocks) * block);
    const double pairs = n * seen + std::min(2 * block, n) * (n - seen);
    return static_cast<double>(size.batch * size.heads * size.head_dim) * 14 * pairs;
  };
  m.least_bytes = least_qkv_bytes;
  m.core = [](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    const auto bigbird = options_of<BigBirdConfig>(config);
    const RandomKey key = rng.next();
    return {{}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              return bigbird_attention(q, k, v,
                                       {.block = bigbird.block,
                                        .random_blocks = bigbird_random_blocks(q.size(2), bigbird.block,
                                                                               bigbird.random_blocks, q.size(1), key),
                                        .dropout = config.dropout,
                                        .generator = &rng});
            }};
  };
  return m;
}

}  // namespace linnet::nn
