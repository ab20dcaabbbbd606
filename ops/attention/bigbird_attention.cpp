#include <linnet/ops/attention/bigbird_attention.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/detail/key_ranges.h>

namespace linnet {
namespace {

int64_t blocks_of(int64_t tokens, int64_t block) { return detail::ceil_div(tokens, block); }

/// Whether there are so few blocks, 5 + 2·random at most, that all tokens see all tokens.
bool is_dense(int64_t blocks, int64_t random) { return (blocks - 4) / 2 <= random; }

/// Whether block row i, neither the first nor the last, sees block j without random blocks.
bool sees_always(int64_t i, int64_t j, int64_t blocks) {
  return j == 0 || j == blocks - 1 || (i - 1 <= j && j <= i + 1);
}

/// One call, whose arguments have been checked. A middle row is any block row except the first and the last.
struct BlockPattern {
  int64_t heads, tokens, block, blocks, random;
  std::vector<int64_t> random_blocks;  ///< [heads, blocks − 2, random]

  BlockPattern(const Tensor& q, const BigBirdAttentionOptions& options)
      : heads(q.size(1)),
        tokens(q.size(2)),
        block(options.block),
        blocks(blocks_of(tokens, block)),
        random(options.random_blocks.defined() ? options.random_blocks.size(2) : 0) {
    if (!dense() && random > 0) random_blocks = options.random_blocks.to_vector<int64_t>();
  }

  bool dense() const { return is_dense(blocks, random); }
  int64_t middle_rows() const { return blocks - 2; }
  /// The first token after block j.
  int64_t end_of(int64_t j) const { return std::min((j + 1) * block, tokens); }
  int64_t random_block(int64_t h, int64_t i, int64_t r) const {
    return random_blocks[static_cast<size_t>((h * middle_rows() + i - 1) * random + r)];
  }

  /// The ranges of keys that the queries of the middle rows see; `range(i)` gives that of row i.
  template <class F>
  Tensor ranges(const F& range, Device device) const {
    std::vector<int64_t> values;
    for (int64_t i = 1; i <= middle_rows(); ++i) {
      const std::pair<int64_t, int64_t> seen = range(i);
      for (int64_t token = 0; token < block; ++token) values.insert(values.end(), {seen.first, seen.second});
    }
    return Recording::constant(tensor(values, {1, 1, middle_rows() * block, 2}), device);
  }
};

void check_random_blocks(const BlockPattern& pattern, const Tensor& random_blocks) {
  if (!random_blocks.defined() || pattern.dense()) return;
  const Shape wanted{pattern.heads, pattern.middle_rows(), pattern.random};
  if (!(random_blocks.shape() == wanted)) {
    throw ShapeError(fmt::format("random_blocks{} does not fit {} blocks of {} tokens: it must be {}",
                                 to_string(random_blocks.shape()), pattern.blocks, pattern.block, to_string(wanted)));
  }
  for (int64_t h = 0; h < pattern.heads; ++h) {
    for (int64_t i = 1; i <= pattern.middle_rows(); ++i) {
      for (int64_t r = 0; r < pattern.random; ++r) {
        const int64_t j = pattern.random_block(h, i, r);
        bool twice = false;
        for (int64_t other = 0; other < r; ++other) twice = twice || pattern.random_block(h, i, other) == j;
        if (j > 0 && j < pattern.blocks && !twice && !sees_always(i, j, pattern.blocks)) continue;
        throw ValueError(fmt::format("random block {} of block {} is not from 1 to {}, or is seen already", j, i,
                                     pattern.blocks - 2));
      }
    }
  }
}

/// Checks the arguments of a call, and returns its pattern.
BlockPattern checked_pattern(const Tensor& q, const Tensor& k, const Tensor& v,
                             const BigBirdAttentionOptions& options) {
  detail::check_qkv(q, k, v, {});
  detail::check_same_shape(k, "k", q, "q");
  if (options.block < 1) throw ValueError(fmt::format("block is {}; it must be at least 1", options.block));
  const Tensor& random = options.random_blocks;
  if (random.defined() && (random.rank() != 3 || random.dtype() != DType::int64 || random.device() != Device::cpu)) {
    throw ValueError(fmt::format("random_blocks{} is {} on {}; it must be int64 [heads, blocks - 2, r] on the CPU",
                                 to_string(random.shape()), name_of(random.dtype()), name_of(random.device())));
  }
  detail::check_dropout(options.dropout, options.generator);
  detail::check_padding_mask(options.padding_mask, q, "q");
  BlockPattern pattern(q, options);
  check_random_blocks(pattern, options.random_blocks);
  return pattern;
}

/// The keys of the first and the last block. The row beside one of these blocks already has it as a neighbour, and
/// does not see it here. The last block comes first, so that the ranges do not decrease.
detail::KeySet end_blocks(const BlockPattern& pattern, const Tensor& k, const Tensor& v, const Tensor& padding_mask) {
  const int64_t last = (pattern.blocks - 1) * pattern.block, rest = pattern.tokens - last;
  const auto ends = [&](const Tensor& x, int64_t dim) {
    return concat({x.narrow(dim, last, rest), x.narrow(dim, 0, pattern.block)}, dim);
  };
  const Tensor ranges = pattern.ranges(
      [&](int64_t i) { return std::pair(i == pattern.blocks - 2 ? rest : 0, i == 1 ? rest : rest + pattern.block); },
      k.device());
  return {.k = ends(k, 2),
          .v = ends(v, 2),
          .padding_mask = padding_mask.defined() ? ends(padding_mask, 1) : padding_mask,
          .ranges = ranges};
}

/// The keys of the random blocks, row after row.
detail::KeySet random_keys(const BlockPattern& pattern, const Tensor& k, const Tensor& v,
                           const Tensor& padding_mask) {
  std::vector<int64_t> positions;
  for (int64_t h = 0; h < pattern.heads; ++h) {
    for (int64_t i = 1; i <= pattern.middle_rows(); ++i) {
      for (int64_t r = 0; r < pattern.random; ++r) {
        const int64_t first = pattern.random_block(h, i, r) * pattern.block;
        for (int64_t token = 0; token < pattern.block; ++token) positions.push_back(first + token);
      }
    }
  }
  const int64_t each = pattern.random * pattern.block, count = pattern.middle_rows() * each;
  const Tensor at = Recording::constant(tensor(positions, {1, pattern.heads, count}), k.device());
  Tensor mask;
  if (padding_mask.defined()) {
    const int64_t batch = k.size(0);
    mask = detail::gather_elements(padding_mask.unsqueeze(1).expand({batch, pattern.heads, pattern.tokens}), 2,
                                   at.expand({batch, pattern.heads, count}));
  }
  return {.k = k,
          .v = v,
          .padding_mask = mask,
          .ranges = pattern.ranges([&](int64_t i) { return std::pair((i - 1) * each, i * each); }, k.device()),
          .positions = at};
}

}  // namespace

Tensor bigbird_random_blocks(int64_t tokens, int64_t block, int64_t count, int64_t heads, RandomKey key,
                             Where where) {
  const Call call("bigbird_random_blocks", where);
  if (tokens < 0 || block < 1 || count < 0 || heads < 0) {
    throw ValueError(fmt::format(
        "{} blocks for {} heads and {} tokens in blocks of {}; a block needs a token, and no number may be negative",
        count, heads, tokens, block));
  }
  const int64_t blocks = blocks_of(tokens, block);
  if (is_dense(blocks, count)) return zeros({heads, 0, count}, DType::int64);
  std::vector<int64_t> chosen;
  uint64_t draws = 0;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 1; i < blocks - 1; ++i) {
      std::set<int64_t> excluded{0, i - 1, i, i + 1, blocks - 1};
      for (int64_t r = 0; r < count; ++r) {
        const uint64_t left = static_cast<uint64_t>(blocks) - excluded.size();
        auto j = static_cast<int64_t>(random_word(key, draws++) * left >> 32);  // among those that are left
        for (const int64_t other : excluded) j += other <= j ? 1 : 0;
        chosen.push_back(j);
        excluded.insert(j);
      }
    }
  }
  return tensor(chosen, {heads, blocks - 2, count});
}

Tensor bigbird_attention(const Tensor& q, const Tensor& k, const Tensor& v, const BigBirdAttentionOptions& options,
                         Where where) {
  const Call call("bigbird_attention", where);
  const BlockPattern pattern = checked_pattern(q, k, v, options);
  const auto attend = [&](std::vector<detail::QueryRows> parts) {
    return detail::softmax_over(std::move(parts),
                                {.scale = options.scale, .dropout = options.dropout, .generator = options.generator});
  };
  const detail::KeySet all{.k = k, .v = v, .padding_mask = options.padding_mask};
  if (pattern.dense()) return attend({detail::QueryRows::all(q, {all})});

  const int64_t first = pattern.block, last = (pattern.blocks - 1) * pattern.block;
  detail::KeySet neighbours = all;
  neighbours.ranges = pattern.ranges(
      [&](int64_t i) { return std::pair((i - 1) * pattern.block, pattern.end_of(i + 1)); }, q.device());
  std::vector<detail::KeySet> sets;
  if (pattern.random > 0) sets.push_back(random_keys(pattern, k, v, options.padding_mask));
  sets.insert(sets.end(), {neighbours, end_blocks(pattern, k, v, options.padding_mask)});
  return attend({{q, first, last - first, sets}, {q, 0, first, {all}}, {q, last, pattern.tokens - last, {all}}});
}

Tensor bigbird_attention_weights(const Tensor& q, const Tensor& k, const BigBirdAttentionOptions& options,
                                 Where where) {
  const Call call("bigbird_attention_weights", where);
  const BlockPattern pattern = checked_pattern(q, k, k, options);
  Tensor unseen = detail::unseen(q.size(2), q.size(2), options.padding_mask, false, q.device());
  if (!pattern.dense()) {
    std::vector<bool> hidden;
    for (int64_t h = 0; h < pattern.heads; ++h) {
      for (int64_t token = 0; token < pattern.tokens; ++token) {
        const int64_t i = token / pattern.block;
        std::vector<bool> of_blocks;
        for (int64_t j = 0; j < pattern.blocks; ++j) {
          bool seen = i == 0 || i == pattern.blocks - 1 || sees_always(i, j, pattern.blocks);
          for (int64_t r = 0; r < pattern.random && !seen; ++r) seen = pattern.random_block(h, i, r) == j;
          of_blocks.push_back(!seen);
        }
        for (int64_t j = 0; j < pattern.tokens; ++j)
          hidden.push_back(of_blocks[static_cast<size_t>(j / pattern.block)]);
      }
    }
    const Tensor far =
        Recording::constant(tensor(hidden, {1, pattern.heads, pattern.tokens, pattern.tokens}), q.device());
    unseen = detail::either(unseen, far);
  }
  return detail::softmax_weights(q, k, options.scale, unseen);
}

}  // namespace linnet
