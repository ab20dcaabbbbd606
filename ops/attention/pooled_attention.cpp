#include <linnet/ops/attention/pooled_attention.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

using Kind = TokenPooling::Kind;

constexpr double kNever = -std::numeric_limits<double>::infinity();

int64_t pools_of(int64_t tokens, const TokenPooling& pooling) { return detail::ceil_div(tokens, pooling.stride); }

void check_pooling(const TokenPooling& pooling, const Tensor& x) {
  if (pooling.kernel < 1 || pooling.stride < 1) {
    throw ValueError(fmt::format("a pool of {} tokens with a stride of {}; both must be at least 1", pooling.kernel,
                                 pooling.stride));
  }
  if (pooling.kernel > INT32_MAX) {
    throw ValueError(fmt::format("a pool of {} tokens; at most {} are possible", pooling.kernel, INT32_MAX));
  }
  if (pooling.kind != Kind::convolution) return;
  if (!pooling.weight.defined()) throw ValueError("pooling by convolution needs a weight [kernel, width]");
  const Shape wanted{pooling.kernel, x.size(3)};
  if (pooling.weight.shape() == wanted) return;
  throw ShapeError(fmt::format("the pooling's weight{} must be {} for a kernel of {} and heads of {}",
                               to_string(pooling.weight.shape()), to_string(wanted), pooling.kernel, x.size(3)));
}

/// Token t of each pool along dim `dim` of x, for those pools that have a token t.
Tensor tokens_of_place(const Tensor& x, int64_t dim, int64_t t, int64_t stride) {
  const int64_t tokens = x.size(dim);
  return x.slice(dim, std::min(t, tokens), tokens, stride);
}

/// The pools of one tensor of heads.
class Pools {
 public:
  Pools(const Tensor& x, const TokenPooling& pooling, const Tensor& padding_mask)
      : pooling_(pooling),
        tokens_(x.size(2)),
        count_(pools_of(tokens_, pooling)),
        x_(detail::without_padding(x, padding_mask)) {
    // Whether place t of each pool has a token: it has none beyond the last token, or if the token is padding.
    const Tensor exists =
        padding_mask.defined() ? padding_mask : Recording::constant(ones({1, tokens_}, DType::boolean), x.device());
    std::vector<Tensor> places;
    places.reserve(static_cast<size_t>(pooling.kernel));
    for (int64_t t = 0; t < pooling.kernel; ++t) places.push_back(place(exists, 1, t));
    exist_ = stack(places, -1).unsqueeze(1);
  }

  /// Bool [B or 1, P]: false where a pool has no token.
  Tensor are_some() const { return any(exist_, {-1}).squeeze(1); }

  /// The weights of the tokens in each pool, [B or 1, 1 or H, P, κ]. Not for Kind::max.
  Tensor weights() const {
    if (pooling_.kind == Kind::convolution) {
      const Tensor scores = matmul(detail::in_computed(centres()), transpose(detail::in_computed(pooling_.weight)));
      return detail::masked_softmax(scores, logical_not(exist_)).to(x_.dtype());
    }
    const Tensor counted = exist_.to(x_.dtype());
    return counted / maximum(sum(counted, {-1}, true), 1);
  }

  Tensor pooled() const {
    Tensor result;
    if (pooling_.kind == Kind::max) {
      for (int64_t t = 0; t < pooling_.kernel; ++t) {
        const Tensor token = masked_fill(place(x_, 2, t), logical_not(exist_.narrow(-1, t, 1)), kNever);
        result = result.defined() ? maximum(result, token) : token;
      }
      return masked_fill(result, logical_not(any(exist_, {-1}, true)), 0);
    }
    return weighted_sum(weights());
  }

 private:
  /// Token t of each pool, in dim `dim` of x: a view, or a copy with zeros where the last pools lack the token.
  /// Padding x itself would copy every token.
  Tensor place(const Tensor& x, int64_t dim, int64_t t) const {
    Tensor tokens = tokens_of_place(x, dim, t, pooling_.stride);
    const int64_t missing = count_ - tokens.size(dim);
    if (missing == 0) return tokens;
    std::vector<int64_t> widths(static_cast<size_t>(2 * (x.rank() - dim)));
    widths.back() = missing;
    return pad(tokens, widths);
  }

  /// Σ_t w_t · (token t of each pool), as one op: composed of ops, it would keep the gradients of all places until
  /// the last one is computed.
  Tensor weighted_sum(const Tensor& w) const {
    std::vector<Tensor> inputs(static_cast<size_t>(pooling_.kernel), x_);
    inputs.push_back(w);
    Op op("pool_tokens", Where{}, inputs);
    Tensor result;
    {
      const NoGrad no_grad;
      for (int64_t t = 0; t < pooling_.kernel; ++t) {
        const Tensor part = place(x_, 2, t) * w.narrow(-1, t, 1);
        result = result.defined() ? result + part : part;
      }
    }
    return op.record(result, [x = op.save(x_), w = op.save(w), kernel = pooling_.kernel,
                              w_needs_grad = op.needs_grad(static_cast<size_t>(pooling_.kernel)),
                              stride = pooling_.stride](const Tensor& g) {
      Grads gradients;
      std::vector<Tensor> of_weights;
      for (int64_t t = 0; t < kernel; ++t) {
        const Tensor tokens = tokens_of_place(x(), 2, t, stride);
        const int64_t some = tokens.size(2), missing = g.size(2) - some;
        const Tensor of_pools = g.narrow(2, 0, some);
        gradients.push_back(
            PartialGrad{of_pools * w().narrow(-1, t, 1).narrow(2, 0, some), 2, std::min(t, x().size(2)), stride});
        if (w_needs_grad) of_weights.push_back(pad(sum(of_pools * tokens, {-1}, true), {0, 0, 0, missing}));
      }
      gradients.push_back(w_needs_grad ? concat(of_weights, -1) : Tensor());
      return gradients;
    });
  }

  /// Each pool's token nearest to its centre, the earlier of two; 0 for a pool without tokens.
  Tensor centres() const {
    std::vector<int64_t> farthest_first(static_cast<size_t>(pooling_.kernel));
    std::iota(farthest_first.begin(), farthest_first.end(), int64_t{0});
    std::ranges::sort(farthest_first, std::greater(), [&](int64_t t) {
      const int64_t twice = 2 * t - (pooling_.kernel - 1);
      return std::pair(std::abs(twice), twice);
    });
    Tensor nearest;
    for (const int64_t t : farthest_first) {
      const Tensor token = place(x_, 2, t);
      nearest = nearest.defined() ? linnet::where(exist_.narrow(-1, t, 1), token, nearest) : token;
    }
    return nearest;
  }

  const TokenPooling& pooling_;
  int64_t tokens_, count_;
  Tensor x_;
  Tensor exist_;  ///< bool [B or 1, 1, P, κ]
};

/// The pools that each query sees, as ranges [1, 1, N, 2].
Tensor seen_pools(int64_t tokens, const PooledAttentionOptions& options, Device device) {
  const int64_t stride = options.keys.stride, kernel = options.keys.kernel, pools = pools_of(tokens, options.keys);
  const int64_t window = std::min(options.window, 2 * tokens + kernel);  // no pool is farther away
  std::vector<int64_t> ranges;
  int64_t begin = 0, end = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    const auto doubled_centre = [&](int64_t p) { return 2 * p * stride + kernel - 1; };
    while (begin < pools && doubled_centre(begin) < 2 * i - window) ++begin;
    while (end < pools && doubled_centre(end) <= 2 * i + window &&
           (!options.causal || end * stride + kernel - 1 <= i)) {
      ++end;
    }
    ranges.insert(ranges.end(), {begin, std::max(begin, end)});
  }
  return Recording::constant(tensor(ranges, {1, 1, tokens, 2}), device);
}

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, const PooledAttentionOptions& options) {
  detail::check_qkv(q, k, v, options.padding_mask);
  detail::check_same_shape(k, "k", q, "q");
  if (options.window < 0) throw ValueError(fmt::format("window is {}; it must not be negative", options.window));
  if (options.keys.kernel != options.values.kernel || options.keys.stride != options.values.stride) {
    throw ValueError(fmt::format("keys are pooled with kernel {} and stride {}, values with {} and {}; use the same",
                                 options.keys.kernel, options.keys.stride, options.values.kernel,
                                 options.values.stride));
  }
  check_pooling(options.keys, k);
  check_pooling(options.values, v);
  detail::check_dropout(options.dropout, options.generator);
}

}  // namespace

Tensor pool_tokens(const Tensor& x, const TokenPooling& pooling, const Tensor& padding_mask, Where where) {
  const Call call("pool_tokens", where);
  detail::check_heads(x, "x");
  detail::check_padding_mask(padding_mask, x, "x");
  check_pooling(pooling, x);
  if (x.size(2) == 0) return x;
  return Pools(x, pooling, padding_mask).pooled();
}

Tensor pooled_attention(const Tensor& q, const Tensor& k, const Tensor& v, const PooledAttentionOptions& options,
                        Where where) {
  const Call call("pooled_attention", where);
  check_arguments(q, k, v, options);
  detail::KeySet set{.k = k, .v = v, .ranges = seen_pools(q.size(2), options, q.device())};
  if (q.size(2) > 0) {
    const Pools keys(k, options.keys, options.padding_mask);
    set.k = keys.pooled();
    set.v = Pools(v, options.values, options.padding_mask).pooled();
    if (options.padding_mask.defined()) set.padding_mask = keys.are_some();
  }
  return detail::softmax_over({detail::QueryRows::all(q, {set})},
                              {.scale = options.scale, .dropout = options.dropout, .generator = options.generator});
}

Tensor pooled_attention_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                const PooledAttentionOptions& options, Where where) {
  const Call call("pooled_attention_weights", where);
  check_arguments(q, k, v, options);
  const int64_t tokens = q.size(2);
  const Tensor queries = detail::in_computed(q), keys = detail::in_computed(k), values = detail::in_computed(v);
  if (tokens == 0) return matmul(queries, transpose(keys));  // [B, H, 0, 0]
  const Pools of_keys(keys, options.keys, options.padding_mask);
  const Tensor pools = of_keys.pooled();
  const Tensor ranges = seen_pools(tokens, options, q.device());
  const Tensor p = Recording::constant(arange(pools.size(2)), q.device());
  Tensor unseen = logical_or(lt(p, ranges.narrow(-1, 0, 1)), ge(p, ranges.narrow(-1, 1, 1)));
  unseen = logical_or(unseen, logical_not(of_keys.are_some()).unsqueeze(1).unsqueeze(1));
  const Tensor of_pools = detail::softmax_weights(queries, pools, options.scale, unseen);  // [B, H, N, P]
  // The weights of tokens in the pools go to the tokens' positions. A place without a token goes to one more column,
  // which is cut off.
  TokenPooling even = options.values;
  if (even.kind == Kind::max) even.kind = Kind::mean;
  const Tensor in_pools = Pools(values, even, options.padding_mask).weights();
  std::vector<int64_t> positions;
  for (int64_t pool = 0; pool < pools.size(2); ++pool) {
    for (int64_t t = 0; t < even.kernel; ++t) positions.push_back(std::min(pool * even.stride + t, tokens));
  }
  const Shape shape{q.size(0), q.size(1), pools.size(2), even.kernel};
  const Tensor at =
      Recording::constant(tensor(positions, {1, 1, pools.size(2), even.kernel}), q.device()).expand(shape);
  const Tensor none = zeros({q.size(0), q.size(1), pools.size(2), tokens + 1}, queries.dtype(), q.device());
  const Tensor of_tokens = detail::scatter_add_elements(none, 3, at, in_pools.expand(shape)).narrow(3, 0, tokens);
  return matmul(of_pools, of_tokens);
}

}  // namespace linnet
