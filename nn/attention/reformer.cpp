#include <linnet/nn/attention/reformer.h>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>

namespace linnet::nn {
namespace {

/// The number of buckets. In the released form it is a power of two.
int64_t bucket_count(const ReformerConfig& reformer, int64_t tokens) {
  const int64_t chunks = std::max<int64_t>(1, tokens / reformer.chunk);
  return reformer.released ? static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(2 * chunks)))
                           : lsh_bucket_count(tokens, reformer.chunk);
}

}  // namespace

ReformerAttention::ReformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : Attention(parent, std::move(name), config),
      reformer_(options_of<ReformerConfig>(config)),
      qk_(*this, "qk", config.width, config.width, config.bias),
      v_(*this, "v", config.width, config.width, config.bias),
      out_(*this, "out", config.width, config.width, config.bias) {
  if (config.short_conv > 0) conv_.emplace(*this, "conv", 2 * config.width, config.short_conv, config.causal);
  if (config.rotary) refuse("rotary positions");
  if (reformer_.hashes < 1 || reformer_.chunk < 1) {
    throw ValueError(fmt::format("{}: {} hashes and chunks of {} tokens; both must be at least 1", label(),
                                 reformer_.hashes, reformer_.chunk));
  }
  if (reformer_.released && config.dropout > 0) refuse("dropout in the released form");
  seed_ = buffer("seed", randint(0, int64_t{1} << 32, {1}, generator()));
}

LshAttentionOptions ReformerAttention::options(const Tensor& padding_mask) const {
  return {.chunk = reformer_.chunk,
          .causal = config().causal,
          .scale = reformer_.scale,
          .padding_mask = padding_mask,
          .dropout = training() ? config().dropout : 0,
          .generator = &generator(),
          .released = reformer_.released};
}

Generator ReformerAttention::evaluation_draws() const {
  return Generator(static_cast<uint64_t>(seed_.item<int64_t>()));
}

ReformerAttention::Heads ReformerAttention::project(const Tensor& x, const Tensor& padding_mask,
                                                    Generator& draws) const {
  Tensor qk = qk_(x), v = v_(x);
  if (conv_) {
    const Tensor convolved = (*conv_)(concat({qk, v}, 2), padding_mask);
    qk = convolved.narrow(2, 0, config().width);
    v = convolved.narrow(2, config().width, config().width);
  }
  const Tensor q = split_heads(qk, config().heads);
  const int64_t buckets = bucket_count(reformer_, x.size(1));
  return {q, split_heads(v, config().heads),
          lsh_buckets(
              q, lsh_rotations(config().heads, head_dim(), reformer_.hashes, buckets, draws, q.dtype(), q.device()))};
}

Tensor ReformerAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  Generator of_evaluation = evaluation_draws();
  const auto [q, v, buckets] = project(x, padding_mask, training() ? generator() : of_evaluation);
  return out_(merge_heads(lsh_attention(q, v, buckets, options(padding_mask))));
}

std::vector<AttentionMap> ReformerAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  Generator draws = training() ? generator() : evaluation_draws();  // a copy, so that maps do not change the model's
  const auto [q, v, buckets] = project(x, padding_mask, draws);
  return {{"", lsh_attention_weights(q, buckets, options(padding_mask))}};
}

std::vector<Setting> ReformerAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  all.push_back({"hashes", reformer_.hashes});
  all.push_back({"chunk", reformer_.chunk});
  all.push_back({"scale", reformer_.scale});
  all.push_back({"released", reformer_.released});
  return all;
}

Mechanism reformer_mechanism() {
  Mechanism m{.name = "reformer", .paper = "Kitaev et al. 2020, section 2", .make = maker<ReformerAttention>()};
  m.step = false;  // a new token can move earlier tokens into other chunks
  m.options = ReformerConfig{};
  constexpr int64_t kMost = 1 << 20;
  m.option_list = {
      integer_option("hashes", "rounds of hashing of reformer (default: 4)", &ReformerConfig::hashes, 1, kMost),
      integer_option("chunk", "tokens of a chunk of reformer (default: 64)", &ReformerConfig::chunk, 1, kMost),
  };
  m.complexity = "N·ln N·D";
  // Each token sees two chunks in each round. Hashing takes N·buckets·D/2 multiplications more in each round.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>&) {
    const auto options = options_of<ReformerConfig>(size);
    const auto n = static_cast<double>(size.tokens), rounds = static_cast<double>(options.hashes);
    const double seen = std::min(n, static_cast<double>(2 * options.chunk)) * (size.causal ? 0.75 : 1);
    const double hashing = static_cast<double>(bucket_count(options, size.tokens));
    return static_cast<double>(size.batch * size.heads * size.head_dim) * rounds * n * (14 * seen + hashing);
  };
  m.least_bytes = least_qkv_bytes;
  // There are no linear maps here, so q serves as queries and keys.
  m.core = [](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    const auto reformer = options_of<ReformerConfig>(config);
    return {{}, [=, &rng](const Tensor& q, const Tensor&, const Tensor& v) {
              const Tensor rotations = lsh_rotations(q.size(1), q.size(3), reformer.hashes,
                                                     bucket_count(reformer, q.size(2)), rng, q.dtype(), q.device());
              return lsh_attention(q, v, lsh_buckets(q, rotations),
                                   {.chunk = reformer.chunk,
                                    .causal = config.causal,
                                    .scale = reformer.scale,
                                    .dropout = config.dropout,
                                    .generator = &rng,
                                    .released = reformer.released});
            }};
  };
  return m;
}

}  // namespace linnet::nn
