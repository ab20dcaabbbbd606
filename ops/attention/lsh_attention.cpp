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
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/detail/lsh_rounds.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

/// The score of a token with itself: so low that it sees itself only where it sees nothing else.
constexpr double kSelfScore = -50000;

/// Some heads of a call, from `first` on, in all rounds.
struct HeadGroup {
  int64_t first, count;
  std::vector<detail::LshRound> rounds;
  std::vector<RandomKey> dropout_rngs;  ///< of the rounds; empty without dropout

  /// The group's part of x [B, H, …].
  Tensor of(const Tensor& x) const { return detail::narrow(x, 1, first, count); }
};

/// Divides the heads of q into groups whose sorted copies are small compared with q in long sequences. There is no
/// group if q is empty.
std::vector<HeadGroup> head_groups(const Tensor& q, const std::vector<detail::LshRound>& rounds,
                                   const LshAttentionOptions& options) {
  constexpr int64_t kMost = 1 << 21;  // elements of a group's queries
  const int64_t heads = q.size(1), of_head = q.size(0) * q.size(2) * q.size(3);
  const int64_t each = std::max<int64_t>(1, kMost / std::max<int64_t>(1, of_head));
  std::vector<HeadGroup> groups;
  for (int64_t first = 0; first < heads && q.numel() > 0; first += each) {
    HeadGroup group{first, std::min(each, heads - first), {}, {}};
    const auto part = [&](const Tensor& x) { return x.defined() ? group.of(x).contiguous() : x; };
    for (const detail::LshRound& round : rounds) {
      group.rounds.push_back({part(round.order), part(round.ranges), part(round.codes)});
      if (options.dropout > 0) group.dropout_rngs.push_back(options.generator->next());
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

AttentionParams params_of(const AttentionParams& params, const HeadGroup& group, size_t round) {
  AttentionParams result = params;
  if (!group.dropout_rngs.empty()) result.dropout_rng = group.dropout_rngs[round];
  result.accumulate = round > 0;
  result.has_self_score = round == 0;  // a later round must not see the token itself again
  result.self_score = kSelfScore;
  return result;
}

/// The tensors [B, H, N, D] that lie side by side in x [B, H, N, count · D].
std::vector<Tensor> parts_of(const Tensor& x, int64_t count) {
  std::vector<Tensor> parts;
  parts.reserve(static_cast<size_t>(count));
  const int64_t width = x.size(3) / count;
  for (int64_t i = 0; i < count; ++i) parts.push_back(detail::narrow(x, 3, i * width, width));
  return parts;
}

/// The mask of a round. Valid while this object exists.
struct RoundMask {
  explicit RoundMask(const detail::LshRound& round) : ranges(round.ranges), codes(round.codes) {
    mask.ranges = ranges.get();
    mask.codes = codes.get();
  }

  detail::OptionalView ranges, codes;
  AttentionMask mask;
};

/// The outputs [B, h, N, D] and denominators [B, h, N] of a group's heads, from its q, k and v.
std::pair<Tensor, Tensor> attend(const Tensor& q, const Tensor& k, const Tensor& v, const HeadGroup& group,
                                 const AttentionParams& params) {
  const std::vector<detail::LshRound>& rounds = group.rounds;
  Tensor o = detail::empty_heads(q.shape(), q.dtype(), q.device());
  Tensor denominator = Tensor::empty({q.size(0), q.size(1), q.size(2)}, computed_in(q.dtype()), q.device());
  for (size_t r = 0; r < rounds.size(); ++r) {
    if (r > 0) {  // reorders the results of the round before
      const Tensor index = detail::gather_elements(rounds[r - 1].inverse(), 2, rounds[r].order);
      o = detail::tokens_at(o, index);
      denominator = detail::gather_elements(denominator, 2, index);
    }
    const auto sorted = [&](const Tensor& x) { return detail::tokens_at(x, rounds[r].order); };
    const Tensor sorted_q = sorted(q), sorted_k = sorted(k), sorted_v = sorted(v);
    const RoundMask of_round(rounds[r]);
    backend(o).attention(detail::view(o), detail::view(denominator), detail::view(sorted_q), detail::view(sorted_k),
                         detail::view(sorted_v), of_round.mask, params_of(params, group, r));
  }
  const Tensor inverse = rounds.back().inverse();
  return {detail::tokens_at(o, inverse), detail::gather_elements(denominator, 2, inverse)};
}

/// Adds the gradients of one round to those of a group's q, k and v, side by side in [B, h, N, 3·D]. `inputs` are the
/// group's q, k, v, o and ∂L/∂o.
void add_gradients(Tensor gradients, const std::vector<Tensor>& inputs, const Tensor& denominator,
                   const HeadGroup& group, size_t r, const AttentionParams& params) {
  const detail::LshRound& round = group.rounds[r];
  const Tensor denominators = detail::gather_elements(denominator, 2, round.order);
  const Tensor of_round = detail::empty_heads(gradients.shape(), gradients.dtype(), gradients.device());
  {
    std::vector<Tensor> sorted;
    sorted.reserve(inputs.size());
    for (const Tensor& x : inputs) sorted.push_back(detail::tokens_at(x, round.order));
    const std::vector<Tensor> d = parts_of(of_round, 3);
    const RoundMask mask(round);
    AttentionParams apart = params_of(params, group, r);
    apart.accumulate = false;  // each round's gradients are computed alone
    backend(of_round).attention_backward(detail::view(d[0]), detail::view(d[1]), detail::view(d[2]),
                                         detail::view(sorted[4]), detail::view(sorted[3]), detail::view(denominators),
                                         detail::view(sorted[0]), detail::view(sorted[1]), detail::view(sorted[2]),
                                         mask.mask, apart);
  }
  const Tensor unsorted = detail::tokens_at(of_round, round.inverse());
  if (r == 0) {
    gradients.copy_(unsorted);
  } else {
    gradients += unsorted;
  }
}

/// One call, for q, k and v [B, H, N, D], where k was computed from q.
Tensor attend_in_rounds(const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<HeadGroup>& groups,
                        const AttentionParams& params) {
  Op op("lsh_attention", Where{}, {q, k, v});
  Tensor o = detail::empty_heads(q.shape(), q.dtype(), q.device());
  Tensor denominator = Tensor::empty({q.size(0), q.size(1), q.size(2)}, computed_in(q.dtype()), q.device());
  {
    const NoGrad no_grad;
    for (const HeadGroup& group : groups) {
      const auto [outputs, denominators] = attend(group.of(q), group.of(k), group.of(v), group, params);
      group.of(o).copy_(outputs);
      group.of(denominator).copy_(denominators);
    }
  }
  return op.record(o, [o = op.save_output(o), denominator = op.save(denominator), q = op.save(q), k = op.save(k),
                       v = op.save(v), groups, params](const Tensor& g) {
    Op backward("lsh_attention_backward", Where{}, {g, q(), k(), v()});
    backward.first_derivative_only("lsh_attention_weights and matmul");
    const NoGrad no_grad;
    const Tensor gradients =
        detail::empty_heads({g.size(0), g.size(1), g.size(2), 3 * g.size(3)}, g.dtype(), g.device());
    for (const HeadGroup& group : groups) {
      const std::vector<Tensor> inputs{group.of(q()), group.of(k()), group.of(v()), group.of(o()), group.of(g)};
      for (size_t r = 0; r < group.rounds.size(); ++r) {
        add_gradients(group.of(gradients), inputs, group.of(denominator()), group, r, params);
      }
    }
    const std::vector<Tensor> each = parts_of(gradients, 3);
    return Grads{each[0], each[1], each[2]};
  });
}

double inverse_root(int64_t width) { return width > 0 ? 1 / std::sqrt(static_cast<double>(width)) : 1; }

/// lsh_keys, fused.
Tensor fused_keys(const Tensor& q) { return rms_norm(q, {}, 1e-6) * inverse_root(q.size(-1)); }

/// LshAttentionOptions::released, for v of any width.
Tensor released_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const std::vector<detail::LshRound>& rounds, const LshAttentionOptions& options) {
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2);
  const auto count = static_cast<int64_t>(rounds.size()), chunks = count * tokens / options.chunk;
  std::vector<Tensor> orders, inverses;
  for (const detail::LshRound& round : rounds) orders.push_back(round.order), inverses.push_back(round.inverse());
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
    return detail::gather_elements(of_rounds, 3, index);
  };
  const Tensor o = unsorted(matmul(softmax(masked), with_chunk_before(cut(v))));
  const Tensor log_sums = unsorted(logsumexp(masked, {-1}, true));
  return detail::without_padding(sum(o * softmax(log_sums, 2), {2}), options.padding_mask);
}

void check_chunk(int64_t chunk) {
  if (chunk < 1) throw ValueError(fmt::format("chunk is {}; it must be at least 1", chunk));
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
  check_chunk(options.chunk);
  detail::check_dropout(options.dropout, options.generator);
  detail::check_padding_mask(options.padding_mask, q, "q");
  if (!options.released) return;
  if (options.dropout > 0) {
    throw ValueError(fmt::format("dropout is {}, but the released form has none; leave one out", options.dropout));
  }
  if (q.size(2) % options.chunk != 0) {
    throw ValueError(
        fmt::format("the released form takes whole chunks, and {} tokens are no multiple of {}; add padding",
                    q.size(2), options.chunk));
  }
}

}  // namespace

int64_t lsh_bucket_count(int64_t tokens, int64_t chunk, Where where) {
  const Call call("lsh_bucket_count", where);
  check_chunk(chunk);
  return std::max<int64_t>(2, detail::ceil_div(tokens, chunk)) / 2 * 2;
}

Tensor lsh_rotations(int64_t heads, int64_t head_dim, int64_t hashes, int64_t buckets, Generator& generator,
                     DType dtype, Device device, Where where) {
  const Call call("lsh_rotations", where);
  if (hashes < 1 || buckets < 2 || buckets % 2 != 0) {
    throw ValueError(fmt::format(
        "{} rounds of hashing to {} buckets; there must be at least 1 round, and an even number of buckets", hashes,
        buckets));
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
  // A padded token is a query too, and its content must not reach the gradient of a key.
  const Tensor queries = detail::without_padding(q, options.padding_mask);
  const Tensor values = detail::without_padding(v, options.padding_mask);
  const std::vector<detail::LshRound> rounds = detail::lsh_rounds(buckets, options);
  if (options.released && q.numel() > 0) {
    return released_attention(queries, lsh_keys(queries), values, rounds, options);
  }
  return attend_in_rounds(queries, fused_keys(queries), values, head_groups(queries, rounds, options), params);
}

Tensor lsh_attention_weights(const Tensor& q, const Tensor& buckets, const LshAttentionOptions& options,
                             Where where) {
  const Call call("lsh_attention_weights", where);
  check_arguments(q, buckets, options);
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2);
  const double scale = detail::attention_scale(options.scale, q.size(3));
  const Tensor queries = detail::in_computed(detail::without_padding(q, options.padding_mask));
  const std::vector<detail::LshRound> rounds = detail::lsh_rounds(buckets, options);
  const Tensor self = eye(tokens, tokens, queries.dtype()).to(q.device());
  if (options.released && q.numel() > 0) {  // the weights are the results for values that are unit vectors
    return released_attention(queries, lsh_keys(queries), self.expand({batch, heads, tokens, tokens}), rounds,
                              options);
  }
  const auto matrix = static_cast<size_t>(tokens * tokens);
  std::vector<bool> unseen(static_cast<size_t>(batch * heads) * matrix, true);
  for (const detail::LshRound& round : rounds) {
    const std::vector<int64_t> order = round.order.to_vector<int64_t>(), ranges = round.ranges.to_vector<int64_t>();
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t head = i / static_cast<size_t>(tokens), first = head * static_cast<size_t>(tokens);
      for (auto j = static_cast<size_t>(ranges[2 * i]); j < static_cast<size_t>(ranges[2 * i + 1]); ++j) {
        unseen[head * matrix + static_cast<size_t>(order[i] * tokens + order[first + j])] = false;
      }
    }
  }
  const Tensor scores = matmul(queries, transpose(lsh_keys(queries))) * scale;
  return detail::masked_softmax(masked_fill(scores, gt(self, 0), kSelfScore),
                                tensor(unseen, {batch, heads, tokens, tokens}).to(q.device()));
}

}  // namespace linnet
