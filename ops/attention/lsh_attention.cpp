#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/attention/lsh_attention.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel/parallel.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

/// The score of a token with itself: so low that it sees itself only where it sees nothing else.
constexpr double kSelfScore = -50000;

/// The tokens of one round in the order of their buckets. Tokens that are padding come last.
struct Round {
  Tensor order;    ///< int64 [B, H, N]: the position of each sorted token
  Tensor inverse;  ///< int64 [B, H, N]: the place of each token among the sorted ones
  Tensor ranges;   ///< int64 [B, H, N, 2]: the sorted tokens that each sorted token sees
  Tensor codes;    ///< int32 [B, H, r, N]: AttentionMask::codes of sorted tokens, from the r rounds before
};

/// Sorts one head in one round.
class SortedHead {
 public:
  SortedHead(const int64_t* buckets, const std::vector<bool>& kept, size_t first_kept, int64_t tokens, int64_t chunk,
             bool causal)
      : tokens_(tokens),
        chunk_(chunk),
        causal_(causal),
        order_(static_cast<size_t>(tokens)),
        bucket_(static_cast<size_t>(tokens)) {
    const auto is_kept = [&](int64_t i) { return kept.empty() || kept[first_kept + static_cast<size_t>(i)]; };
    const int64_t behind_all = *std::max_element(buckets, buckets + tokens) + 1;
    std::vector<int64_t> next(static_cast<size_t>(behind_all) + 2);
    for (int64_t i = 0; i < tokens; ++i) ++next[static_cast<size_t>(is_kept(i) ? buckets[i] : behind_all) + 1];
    for (size_t b = 1; b < next.size(); ++b) next[b] += next[b - 1];
    begin_of_ = next;
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t bucket = is_kept(i) ? buckets[i] : behind_all;
      const auto place = static_cast<size_t>(next[static_cast<size_t>(bucket)]++);
      order_[place] = i;
      bucket_[place] = bucket;
    }
    padding_from_ = begin_of_[static_cast<size_t>(behind_all)];
  }

  int64_t position(int64_t place) const { return order_[static_cast<size_t>(place)]; }
  /// The sorted tokens that a sorted token sees: of its bucket, in its chunk and the one before.
  std::pair<int64_t, int64_t> seen(int64_t place) const {
    if (place >= padding_from_) return {place, place};
    const auto bucket = static_cast<size_t>(bucket_[static_cast<size_t>(place)]);
    const int64_t chunk = place / chunk_;
    const int64_t begin = std::max(begin_of_[bucket], (chunk - 1) * chunk_);
    return {begin, causal_ ? place + 1 : std::min(begin_of_[bucket + 1], (chunk + 1) * chunk_)};
  }
  /// A number whose difference between two tokens is 0 or 1 where the first has the bucket of the second, and its
  /// chunk or the one after. Those of padding do not matter: no range includes it.
  int32_t code(int64_t place) const {
    const int64_t chunks = (tokens_ + chunk_ - 1) / chunk_, bucket = bucket_[static_cast<size_t>(place)];
    return static_cast<int32_t>(bucket * (chunks + 2) + place / chunk_);
  }

 private:
  int64_t tokens_, chunk_;
  bool causal_;
  int64_t padding_from_ = 0;             // the first sorted token that is padding
  std::vector<int64_t> order_, bucket_;  // of sorted tokens
  std::vector<int64_t> begin_of_;        // the first sorted token of each bucket
};

/// All rounds of a call.
std::vector<Round> sorted_rounds(const Tensor& buckets, const LshAttentionOptions& options) {
  const int64_t batch = buckets.size(0), heads = buckets.size(1), rounds = buckets.size(2), tokens = buckets.size(3);
  const auto count = static_cast<size_t>(batch * heads * tokens);
  const std::vector<int64_t> bucket_of = buckets.to_vector<int64_t>();
  const std::vector<bool> kept =
      options.padding_mask.defined() ? options.padding_mask.to_vector<bool>() : std::vector<bool>();
  std::vector<std::vector<int32_t>> codes(static_cast<size_t>(rounds), std::vector<int32_t>(count));  // of tokens
  std::vector<Round> sorted;
  for (int64_t r = 0; r < rounds; ++r) {
    std::vector<int64_t> order(count), inverse(count), ranges(2 * count);
    std::vector<int32_t> earlier(count * static_cast<size_t>(r));
    parallel_tasks(tokens > 0 ? batch * heads : 0, [&](int64_t head) {
      const auto first = static_cast<size_t>(head * tokens);
      const SortedHead of_head(bucket_of.data() + (head * rounds + r) * tokens, kept,
                               static_cast<size_t>(head / heads * tokens), tokens, options.chunk, options.causal);
      for (int64_t place = 0; place < tokens; ++place) {
        const int64_t position = of_head.position(place);
        const auto [begin, end] = of_head.seen(place);
        const size_t at = first + static_cast<size_t>(place), from = first + static_cast<size_t>(position);
        order[at] = position;
        inverse[from] = place;
        ranges[2 * at] = begin;
        ranges[2 * at + 1] = end;
        codes[static_cast<size_t>(r)][from] = of_head.code(place);
        for (size_t before = 0; before < static_cast<size_t>(r); ++before) {
          earlier[(static_cast<size_t>(head) * static_cast<size_t>(r) + before) * static_cast<size_t>(tokens) +
                  static_cast<size_t>(place)] = codes[before][from];
        }
      }
    });
    const Device device = buckets.device();
    sorted.push_back({tensor(order, {batch, heads, tokens}).to(device),
                      tensor(inverse, {batch, heads, tokens}).to(device),
                      tensor(ranges, {batch, heads, tokens, 2}).to(device),
                      r > 0 ? tensor(earlier, {batch, heads, r, tokens}).to(device) : Tensor()});
  }
  return sorted;
}

AttentionParams params_of(const AttentionParams& params, const std::vector<RandomKey>& rngs, size_t round) {
  AttentionParams result = params;
  if (!rngs.empty()) result.dropout_rng = rngs[round];
  result.accumulate = round > 0;
  result.has_self_score = round == 0;  // later rounds have seen it
  result.self_score = kSelfScore;
  return result;
}

/// Tensors [B, H, N, D] that lie beside each other in x [B, H, N, count · D], so that one index sorts them.
std::vector<Tensor> parts_of(const Tensor& x, int64_t count) {
  std::vector<Tensor> parts;
  parts.reserve(static_cast<size_t>(count));
  const int64_t width = x.size(3) / count;
  for (int64_t i = 0; i < count; ++i) parts.push_back(x.narrow(3, i * width, width));
  return parts;
}

/// One call: q, k and v [B, H, N, D], k from q.
Tensor attend_in_rounds(const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<Round>& rounds,
                        const AttentionParams& params, const std::vector<RandomKey>& rngs) {
  Op op("lsh_attention", Where{}, {q, k, v});
  Tensor o, denominator;
  {
    const NoGrad no_grad;
    const Tensor inputs = concat({q, k, v}, 3);
    for (size_t r = 0; r < rounds.size(); ++r) {
      const Round& round = rounds[r];
      const std::vector<Tensor> sorted = parts_of(detail::tokens_at(inputs, round.order), 3);
      if (r == 0) {
        o = detail::empty_heads(q.shape(), q.dtype(), q.device());
        denominator = Tensor::empty({q.size(0), q.size(1), q.size(2)}, computed_in(q.dtype()), q.device());
      } else {  // from the order of the round before
        const Tensor index = gather(rounds[r - 1].inverse, 2, round.order);
        o = detail::tokens_at(o, index);
        denominator = gather(denominator, 2, index);
      }
      AttentionMask mask;
      const detail::OptionalView ranges(round.ranges), codes(round.codes);
      mask.ranges = ranges.get();
      mask.codes = codes.get();
      backend(q).attention(detail::view(o), detail::view(denominator), detail::view(sorted[0]),
                           detail::view(sorted[1]), detail::view(sorted[2]), mask, params_of(params, rngs, r));
    }
    o = detail::tokens_at(o, rounds.back().inverse);
    denominator = gather(denominator, 2, rounds.back().inverse);
  }
  return op.record(o, [o = op.save_output(o), denominator = op.save(denominator), q = op.save(q), k = op.save(k),
                       v = op.save(v), rounds, params, rngs](const Tensor& g) {
    Op backward("lsh_attention_backward", Where{}, {g, q(), k(), v()});
    backward.first_derivative_only("lsh_attention_weights and matmul");
    const NoGrad no_grad;
    const Tensor inputs = concat({q(), k(), v(), o(), g}, 3);
    Tensor gradients;
    for (size_t r = 0; r < rounds.size(); ++r) {
      const Round& round = rounds[r];
      const std::vector<Tensor> sorted = parts_of(detail::tokens_at(inputs, round.order), 5);
      const Tensor denominators = gather(denominator(), 2, round.order);
      const Tensor of_tokens =
          detail::empty_heads({g.size(0), g.size(1), g.size(2), 3 * g.size(3)}, g.dtype(), g.device());
      const std::vector<Tensor> of_round = parts_of(of_tokens, 3);
      AttentionMask mask;
      const detail::OptionalView ranges(round.ranges), codes(round.codes);
      mask.ranges = ranges.get();
      mask.codes = codes.get();
      AttentionParams apart = params_of(params, rngs, r);
      apart.accumulate = false;  // the gradients of a round are apart
      backend(g).attention_backward(detail::view(of_round[0]), detail::view(of_round[1]), detail::view(of_round[2]),
                                    detail::view(sorted[4]), detail::view(sorted[3]), detail::view(denominators),
                                    detail::view(sorted[0]), detail::view(sorted[1]), detail::view(sorted[2]), mask,
                                    apart);
      const Tensor unsorted = detail::tokens_at(of_tokens, round.inverse);
      gradients = r == 0 ? unsorted : gradients + unsorted;
    }
    const std::vector<Tensor> each = parts_of(gradients, 3);
    return Grads{each[0], each[1], each[2]};
  });
}

double inverse_root(int64_t width) { return width > 0 ? 1 / std::sqrt(static_cast<double>(width)) : 1; }

/// lsh_keys, fused.
Tensor fused_keys(const Tensor& q) { return rms_norm(q, {}, 1e-6) * inverse_root(q.size(-1)); }

/// LshAttentionOptions::released.
Tensor released_attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<Round>& rounds,
                          const LshAttentionOptions& options) {
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2), width = q.size(3);
  const auto count = static_cast<int64_t>(rounds.size()), chunks = count * tokens / options.chunk;
  std::vector<Tensor> orders, inverses;
  for (const Round& round : rounds) orders.push_back(round.order), inverses.push_back(round.inverse);
  const Tensor order = concat(orders, 2);
  const auto cut = [&](const Tensor& x) {
    return detail::tokens_at(x, order).reshape({batch, heads, chunks, options.chunk, -1});
  };
  const auto with_chunk_before = [&](const Tensor& x) {
    return concat({concat({x.narrow(2, chunks - 1, 1), x.narrow(2, 0, chunks - 1)}, 2), x}, 3);
  };
  const Tensor scores = matmul(cut(q), transpose(with_chunk_before(cut(k)))) * options.scale;
  const Tensor position = order.reshape({batch, heads, chunks, options.chunk, 1});
  const Tensor of_keys = with_chunk_before(position).transpose(3, 4);
  Tensor masked = masked_fill(scores, eq(position, of_keys), kSelfScore);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (options.causal) masked = masked_fill(masked, gt(of_keys, position), kNever);
  if (options.padding_mask.defined()) {
    const Tensor kept = options.padding_mask.unsqueeze(1).unsqueeze(-1).expand({batch, heads, tokens, 1});
    masked = masked_fill(masked, logical_not(with_chunk_before(cut(kept)).transpose(3, 4)), kNever);
  }
  const auto unsorted = [&](const Tensor& x) {  // [B, H, R, N, ·]
    const Tensor of_rounds = x.reshape({batch, heads, count, tokens, x.size(-1)});
    const Tensor index = stack(inverses, 2).unsqueeze(-1).expand(of_rounds.shape());
    return gather(of_rounds, 3, index);
  };
  const Tensor o = unsorted(matmul(softmax(masked), with_chunk_before(cut(v))));
  const Tensor log_sums = unsorted(logsumexp(masked, {-1}, true));
  return sum(o * softmax(log_sums, 2), {2}).reshape({batch, heads, tokens, width});
}

void check_arguments(const Tensor& q, const Tensor& buckets, const LshAttentionOptions& options) {
  detail::check_heads(q, "q");
  if (buckets.rank() != 4 || buckets.size(0) != q.size(0) || buckets.size(1) != q.size(1) || buckets.size(2) < 1 ||
      buckets.size(3) != q.size(2)) {
    throw ShapeError(fmt::format("buckets{} does not fit q{}: it must be [{}, {}, rounds, {}]",
                                 to_string(buckets.shape()), to_string(q.shape()), q.size(0), q.size(1), q.size(2)));
  }
  if (buckets.dtype() != DType::int64) {
    throw DTypeError(fmt::format("buckets is {}; it must be int64", name_of(buckets.dtype())));
  }
  if (options.chunk < 1) throw ValueError(fmt::format("chunk is {}; it must be at least 1", options.chunk));
  if (buckets.numel() > 0 && min(buckets).item<int64_t>() < 0) {
    throw ValueError(fmt::format("buckets has {}; a bucket is a number from 0", min(buckets).item<int64_t>()));
  }
  detail::check_dropout(options.dropout, options.generator);
  detail::check_padding_mask(options.padding_mask, q, "q");
  if (!options.released) return;
  if (options.dropout > 0) {
    throw ValueError(fmt::format("dropout is {}, but the released form has none; leave one out", options.dropout));
  }
  if (q.size(2) % options.chunk != 0) {
    throw ValueError(fmt::format("the released form takes whole chunks, and {} tokens are none of {}; add padding",
                                 q.size(2), options.chunk));
  }
}

}  // namespace

int64_t lsh_bucket_count(int64_t tokens, int64_t chunk) {
  return std::max<int64_t>(2, (tokens + chunk - 1) / chunk) / 2 * 2;
}

Tensor lsh_rotations(int64_t heads, int64_t head_dim, int64_t hashes, int64_t buckets, Generator& generator,
                     DType dtype, Device device, Where where) {
  const Call call("lsh_rotations", where);
  if (hashes < 1 || buckets < 2 || buckets % 2 != 0) {
    throw ValueError(
        fmt::format("{} hashes to {} buckets; there must be at least 1, and an even number", hashes, buckets));
  }
  return randn({heads, head_dim, hashes, buckets / 2}, generator, dtype, device);
}

Tensor lsh_buckets(const Tensor& x, const Tensor& rotations, Where where) {
  const Call call("lsh_buckets", where);
  detail::check_heads(x, "x");
  detail::check_heads(rotations, "rotations");
  if (rotations.size(0) != x.size(1) || rotations.size(1) != x.size(3)) {
    throw ShapeError(fmt::format("rotations{} does not fit x{}: it must be [{}, {}, rounds, buckets/2]",
                                 to_string(rotations.shape()), to_string(x.shape()), x.size(1), x.size(3)));
  }
  constexpr int64_t kMost = 1 << 20;  // numbers at a time
  const NoGrad no_grad;
  const int64_t tokens = x.size(2), rounds = rotations.size(2), half = rotations.size(3);
  const Tensor maps = rotations.reshape({rotations.size(0), rotations.size(1), rounds * half});
  const int64_t each = std::max<int64_t>(1, kMost / std::max<int64_t>(1, x.size(0) * x.size(1) * rounds * half));
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < tokens; first += each) {
    const int64_t count = std::min(each, tokens - first);
    const Tensor rotated =
        matmul(x.detach().narrow(2, first, count), maps).reshape({x.size(0), x.size(1), count, rounds, half});
    const auto [largest, at_largest] = max(rotated, -1);
    const auto [least, at_least] = min(rotated, -1);
    parts.push_back(linnet::where(ge(largest, -least), at_largest, at_least + half).transpose(2, 3));
  }
  return parts.empty() ? zeros({x.size(0), x.size(1), rounds, 0}, DType::int64, x.device()) : concat(parts, 3);
}

Tensor lsh_keys(const Tensor& x, Where where) {
  const Call call("lsh_keys", where);
  return x * (rsqrt(mean(square(x), {-1}, true) + 1e-6) * inverse_root(x.size(-1)));
}

Tensor lsh_attention(const Tensor& q, const Tensor& v, const Tensor& buckets, const LshAttentionOptions& options,
                     Where where) {
  const Call call("lsh_attention", where);
  check_arguments(q, buckets, options);
  detail::check_qkv(q, q, v, {});
  AttentionParams params{};
  params.kind.softmax = true;
  params.scale = detail::attention_scale(options.scale, q.size(3));
  params.dropout = options.dropout;
  std::vector<RandomKey> rngs;
  for (int64_t r = 0; r < buckets.size(2) && options.dropout > 0; ++r) rngs.push_back(options.generator->next());
  // A padded token is a query too, whose content must not reach a key's gradient.
  const Tensor queries = detail::without_padding(q, options.padding_mask);
  const Tensor values = detail::without_padding(v, options.padding_mask);
  const std::vector<Round> rounds = sorted_rounds(buckets, options);
  return options.released ? released_attention(queries, lsh_keys(queries), values, rounds, options)
                          : attend_in_rounds(queries, fused_keys(queries), values, rounds, params, rngs);
}

Tensor lsh_attention_weights(const Tensor& q, const Tensor& buckets, const LshAttentionOptions& options,
                             Where where) {
  const Call call("lsh_attention_weights", where);
  check_arguments(q, buckets, options);
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2);
  const auto matrix = static_cast<size_t>(tokens * tokens);
  std::vector<bool> unseen(static_cast<size_t>(batch * heads) * matrix, true);
  if (q.numel() > 0) {
    for (const Round& round : sorted_rounds(buckets, options)) {
      const std::vector<int64_t> order = round.order.to_vector<int64_t>(), ranges = round.ranges.to_vector<int64_t>();
      for (size_t i = 0; i < order.size(); ++i) {
        const size_t head = i / static_cast<size_t>(tokens), first = head * static_cast<size_t>(tokens);
        for (auto j = static_cast<size_t>(ranges[2 * i]); j < static_cast<size_t>(ranges[2 * i + 1]); ++j) {
          unseen[head * matrix + static_cast<size_t>(order[i] * tokens + order[first + j])] = false;
        }
      }
    }
  }
  const Tensor queries = detail::in_computed(q);
  const Tensor scores =
      matmul(queries, transpose(lsh_keys(queries))) * detail::attention_scale(options.scale, q.size(3));
  const Tensor self = eye(tokens, tokens, DType::float32).to(q.device());
  return detail::masked_softmax(masked_fill(scores, gt(self, 0), kSelfScore),
                                tensor(unseen, {batch, heads, tokens, tokens}).to(q.device()));
}

}  // namespace linnet
