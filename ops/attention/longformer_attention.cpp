#include <linnet/ops/attention/longformer_attention.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
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
#include <linnet/ops/detail/key_ranges.h>

namespace linnet {
namespace {

/// The global tokens of all sequences.
struct GlobalTokens {
  int64_t count = 0;      ///< the largest number in a sequence
  bool first = true;      ///< they are the first tokens of every sequence
  Tensor mask = {};       ///< bool [B, N]; defined unless `first`
  Tensor positions = {};  ///< int64 [B, count], in order, filled up with N − 1; defined unless `first`
  Tensor exist = {};      ///< bool [B, count]: false where a sequence has fewer; defined unless `first`
};

GlobalTokens global_tokens_of(const Tensor& q, const LongformerAttentionOptions& options) {
  const int64_t batch = q.size(0), tokens = q.size(2);
  if (!options.global_mask.defined()) return {.count = std::min(options.global_tokens, tokens)};
  GlobalTokens global{.first = false, .mask = options.global_mask};
  const std::vector<bool> is_global = options.global_mask.to(Device::cpu).to_vector<bool>();
  std::vector<std::vector<int64_t>> of_sequence(static_cast<size_t>(batch));
  for (int64_t b = 0; b < batch; ++b) {
    auto& positions = of_sequence[static_cast<size_t>(b)];
    for (int64_t i = 0; i < tokens; ++i) {
      if (is_global[static_cast<size_t>(b * tokens + i)]) positions.push_back(i);
    }
    global.count = std::max(global.count, static_cast<int64_t>(positions.size()));
  }
  std::vector<int64_t> positions, exist;
  for (const std::vector<int64_t>& of : of_sequence) {
    for (int64_t r = 0; r < global.count; ++r) {
      const bool has = r < static_cast<int64_t>(of.size());
      positions.push_back(has ? of[static_cast<size_t>(r)] : tokens - 1);
      exist.push_back(has ? 1 : 0);
    }
  }
  global.positions = Recording::constant(tensor(positions, {batch, global.count}), q.device());
  global.exist = Recording::constant(ne(tensor(exist, {batch, global.count}), 0), q.device());
  return global;
}

Tensor both(const Tensor& mask, const Tensor& other) {
  return !mask.defined() ? other : !other.defined() ? mask : logical_and(mask, other);
}

/// The sizes `first`, then those of x from dim 2 on.
Shape joined(Shape first, const Tensor& x) {
  for (int d = 2; d < x.rank(); ++d) first.push_back(x.size(d));
  return first;
}

/// The tokens of each residue class modulo `dilation`, as a sequence of its own: tokens whose distance is a multiple
/// of the dilation become neighbours. x is padded with `value` to N' · dilation tokens.
///
/// Shapes: [B, N, …] → [B · dilation, N', …].
Tensor by_residue(const Tensor& x, int64_t dilation, Scalar value) {
  if (!x.defined() || dilation == 1) return x;
  const int64_t each = detail::ceil_div(x.size(1), dilation);
  Shape widths;
  for (int d = 2; d < x.rank(); ++d) widths.push_back(0), widths.push_back(0);
  widths.push_back(0), widths.push_back(each * dilation - x.size(1));
  const Tensor padded = pad(x, widths, value);
  return padded.reshape(joined({x.size(0), each, dilation}, x))
      .transpose(1, 2)
      .reshape(joined({x.size(0) * dilation, each}, x));
}

/// The inverse of by_residue, for `tokens` tokens.
Tensor from_residues(const Tensor& x, int64_t dilation, int64_t tokens) {
  if (dilation == 1) return x;
  const int64_t batch = x.size(0) / dilation, each = x.size(1);
  const Tensor merged =
      x.reshape(joined({batch, dilation, each}, x)).transpose(1, 2).reshape(joined({batch, each * dilation}, x));
  return merged.narrow(1, 0, tokens);
}

/// by_residue of heads.
///
/// Shapes: [B, H, N, D] → [B · dilation, H, N', D].
Tensor heads_by_residue(const Tensor& x, int64_t dilation) {
  return dilation == 1 ? x : by_residue(x.transpose(1, 2), dilation, 0).transpose(1, 2);
}

/// x [B, …] repeated for each of its sequence's residue classes, [B · dilation, …].
Tensor for_residues(const Tensor& x, int64_t dilation) {
  if (!x.defined() || dilation == 1) return x;
  Shape repeated = joined({x.size(0), dilation, x.size(1)}, x), merged = joined({x.size(0) * dilation, x.size(1)}, x);
  return x.unsqueeze(1).expand(repeated).reshape(merged);
}

/// The dilation of head h. With one of `tokens` or more a token sees itself alone.
int64_t dilation_of(const LongformerAttentionOptions& options, int64_t h, int64_t tokens) {
  const int64_t given = options.dilation[options.dilation.size() == 1 ? 0 : static_cast<size_t>(h)];
  return std::min(given, std::max<int64_t>(tokens, 1));
}

/// One call, whose arguments have been checked.
class Longformer {
 public:
  Longformer(const Tensor& q, const LongformerAttentionOptions& options)
      : options_(options), window_(std::min(options.window, 2 * q.size(2))), global_(global_tokens_of(q, options)) {}

  const GlobalTokens& global() const { return global_; }

  /// Whether `all_rows` computes the call.
  bool is_one_op() const { return global_.first && options_.dilation == std::vector<int64_t>{1}; }

  /// The rows of all tokens, where the global ones come first and nothing is dilated.
  Tensor all_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_global, const Tensor& k_global,
                  const Tensor& v_global) const {
    const int64_t first = global_.count, count = q.size(2) - first;
    std::vector<detail::KeySet> sets = local_sets(q, k, v, 1);
    for (detail::KeySet& set : sets) {
      if (set.ranges.defined()) set.ranges = set.ranges.narrow(2, first, count);
    }
    std::vector<detail::QueryRows> parts;
    parts.push_back({q, first, count, std::move(sets)});
    if (first > 0) parts.push_back(detail::QueryRows::all(q_global, {global_row_set(q, k_global, v_global)}));
    return attend(std::move(parts));
  }

  /// The rows of all tokens, computed as if no query were global, for heads of one dilation.
  Tensor local_rows(const Tensor& q, const Tensor& k, const Tensor& v, int64_t dilation) const {
    const int64_t tokens = q.size(2);
    const Tensor o = attend({detail::QueryRows::all(heads_by_residue(q, dilation), local_sets(q, k, v, dilation))});
    return dilation == 1 ? o : from_residues(o.transpose(1, 2), dilation, tokens).transpose(1, 2);
  }

  /// The rows of the global tokens.
  ///
  /// Shapes: q [B, H, G, D], k and v [B, H, N, D] → [B, H, G, D].
  Tensor global_rows(const Tensor& q, const Tensor& k, const Tensor& v) const {
    return attend({detail::QueryRows::all(q, {global_row_set(q, k, v)})});
  }

  /// Bool [B or 1, H, N, N]: true where a query that is not global does not see a token.
  Tensor unseen(const Tensor& q) const {
    const int64_t heads = q.size(1), tokens = q.size(2);
    std::vector<bool> far;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t dilation = dilation_of(options_, h, tokens);
      const int64_t most = dilation * (options_.causal ? window_ : window_ / 2);
      for (int64_t i = 0; i < tokens; ++i) {
        for (int64_t j = 0; j < tokens; ++j) {
          const int64_t distance = options_.causal ? i - j : std::abs(i - j);
          far.push_back(distance < 0 || distance > most || distance % dilation != 0);
        }
      }
    }
    const Tensor local = Recording::constant(tensor(far, {1, heads, tokens, tokens}), q.device());
    const Tensor unless_global = logical_and(local, logical_not(global_mask(q)).unsqueeze(1).unsqueeze(1));
    const Tensor ahead = detail::unseen(tokens, tokens, {}, options_.causal, q.device());
    return detail::either(unless_global, ahead);
  }
  /// Bool [B or 1, 1, G or 1, N]: true where a global query does not see a token.
  Tensor unseen_by_global(const Tensor& q) const {
    const Tensor j = Recording::constant(arange(q.size(2)).reshape({1, 1, 1, q.size(2)}), q.device());
    return options_.causal ? gt(j, global_positions(q).unsqueeze(1).unsqueeze(-1)) : lt(j, 0);
  }

  /// `local` with the rows of global tokens replaced by those of `global` [B, H, G, D].
  Tensor replaced(const Tensor& local, const Tensor& global) const {
    const int64_t tokens = local.size(2);
    // Both are [B, N, H, D] in memory.
    const Tensor all = local.transpose(1, 2), rows = global.transpose(1, 2);
    if (global_.first) {
      return concat({rows, all.narrow(1, global_.count, tokens - global_.count)}, 1).transpose(1, 2);
    }
    const Tensor number = maximum(cumsum(global_.mask.to(DType::int64), 1) - 1, 0);  // of each global token, [B, N]
    const Tensor at = number.unsqueeze(-1).unsqueeze(-1).expand({all.size(0), tokens, all.size(2), all.size(3)});
    return where(global_.mask.unsqueeze(-1).unsqueeze(-1), detail::gather_elements(rows, 1, at), all).transpose(1, 2);
  }

 private:
  Tensor attend(std::vector<detail::QueryRows> parts) const {
    return detail::softmax_over(
        std::move(parts), {.scale = options_.scale, .dropout = options_.dropout, .generator = options_.generator});
  }

  /// The keys that queries see if they are not global: those near them and the global ones.
  std::vector<detail::KeySet> local_sets(const Tensor& q, const Tensor& k, const Tensor& v, int64_t dilation) const {
    const int64_t tokens = q.size(2), half = window_ / 2;
    const int64_t before = options_.causal ? window_ : half, after = options_.causal ? 0 : half;
    // A global token near a query is among the global keys, so it is left out of the near ones: by the ranges where
    // that is possible, else like padding.
    const bool by_ranges = global_.first && dilation == 1;
    Tensor near = options_.padding_mask;
    if (global_.count > 0 && !by_ranges) near = both(near, logical_not(global_mask(q)));
    if (dilation > 1 && !near.defined()) near = Recording::constant(ones({1, tokens}, DType::boolean), q.device());
    const int64_t of_residue = detail::ceil_div(tokens, dilation);
    std::vector<detail::KeySet> sets{
        {.k = heads_by_residue(k, dilation),
         .v = heads_by_residue(v, dilation),
         .padding_mask = dilation == 1 ? near : by_residue(near.expand({q.size(0), tokens}), dilation, 0),
         .ranges = detail::window_ranges(of_residue, before, after, by_ranges ? global_.count : 0, q.device())}};
    if (global_.count > 0) {
      detail::KeySet to_all{.k = for_residues(of_global(k), dilation),
                            .v = for_residues(of_global(v), dilation),
                            .padding_mask = global_padding_mask(dilation)};
      if (options_.causal) to_all.ranges = global_tokens_up_to(q, dilation);
      sets.push_back(to_all);
    }
    return sets;
  }

  /// The keys that global queries see, on the device of q.
  detail::KeySet global_row_set(const Tensor& q, const Tensor& k, const Tensor& v) const {
    detail::KeySet keys{.k = k, .v = v, .padding_mask = options_.padding_mask};
    if (options_.causal) {
      const Tensor end = global_positions(q).unsqueeze(1) + 1;
      keys.ranges = detail::key_ranges(zeros_like(end), end);
    }
    return keys;
  }

  /// Bool [B or 1, N]: true where a token is global.
  Tensor global_mask(const Tensor& q) const {
    if (!global_.first) return global_.mask;
    return Recording::constant(lt(arange(q.size(2)), global_.count).unsqueeze(0), q.device());
  }
  /// The rows of global tokens, [B, H, G, D].
  Tensor of_global(const Tensor& x) const {
    return global_.first ? x.narrow(2, 0, global_.count) : detail::tokens_at(x, global_.positions.unsqueeze(1));
  }
  /// Bool [B, G] or undefined: false where a global token is padding, or does not exist.
  Tensor global_padding_mask(int64_t dilation) const {
    Tensor mask = options_.padding_mask;
    if (mask.defined())
      mask = global_.first ? mask.narrow(1, 0, global_.count) : detail::gather_elements(mask, 1, global_.positions);
    return for_residues(both(mask, global_.exist), dilation);
  }
  /// int64 [B or 1, G]
  Tensor global_positions(const Tensor& q) const {
    if (!global_.first) return global_.positions;
    return Recording::constant(arange(global_.count).unsqueeze(0), q.device());
  }
  /// The ranges in which each query sees the global tokens up to itself.
  Tensor global_tokens_up_to(const Tensor& q, int64_t dilation) const {
    Tensor end;  // [B, N]
    if (global_.first) {
      end = Recording::constant(minimum(arange(1, q.size(2) + 1), global_.count).unsqueeze(0), q.device());
    } else {
      end = cumsum(global_.mask.to(DType::int64), 1);
    }
    if (dilation > 1) end = by_residue(end.expand({q.size(0), q.size(2)}), dilation, global_.count);
    return detail::key_ranges(zeros_like(end), end).unsqueeze(1);
  }

  const LongformerAttentionOptions& options_;
  int64_t window_;  ///< that of the options, or a smaller one over all tokens
  GlobalTokens global_;
};

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, const LongformerAttentionOptions& options) {
  detail::check_qkv(q, k, v, {});
  detail::check_same_shape(k, "k", q, "q");
  if (options.window < 0 || options.window % 2 != 0) {
    throw ValueError(fmt::format("window is {}; it must be even and not negative", options.window));
  }
  const auto heads = static_cast<size_t>(q.size(1));
  if (options.dilation.size() != 1 && options.dilation.size() != heads) {
    throw ValueError(fmt::format("there are {} dilations for {} heads; give one for all heads, or one for each",
                                 options.dilation.size(), heads));
  }
  for (const int64_t dilation : options.dilation) {
    if (dilation < 1) throw ValueError(fmt::format("dilation is {}; it must be at least 1", dilation));
  }
  if (options.global_tokens < 0) {
    throw ValueError(fmt::format("global_tokens is {}; it must not be negative", options.global_tokens));
  }
  detail::check_dropout(options.dropout, options.generator);
  detail::check_padding_mask(options.padding_mask, q, "q");
  detail::check_token_mask(options.global_mask, "global_mask", "true where a token is global", q, "q");
}

/// Checks the shape of q_global: [B, H, G, D].
void check_global(const Tensor& q_global, const char* name, const Tensor& q, int64_t tokens) {
  if (!q_global.defined()) {
    throw ValueError(fmt::format("{} is undefined, but there are {} global tokens", name, tokens));
  }
  const Shape wanted{q.size(0), q.size(1), tokens, q.size(3)};
  if (q_global.shape() == wanted) return;
  throw ShapeError(fmt::format("{}{} does not fit q{}: it must be {}", name, to_string(q_global.shape()),
                               to_string(q.shape()), to_string(wanted)));
}

}  // namespace

Tensor longformer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_global,
                            const Tensor& k_global, const Tensor& v_global, const LongformerAttentionOptions& options,
                            Where where) {
  const Call call("longformer_attention", where);
  check_arguments(q, k, v, options);
  const Longformer longformer(q, options);
  const int64_t globals = longformer.global().count;
  if (globals > 0) {
    check_global(q_global, "q_global", q, globals);
    check_global(k_global, "k_global", q, q.size(2));
    check_global(v_global, "v_global", q, q.size(2));
  }
  if (longformer.is_one_op()) return longformer.all_rows(q, k, v, q_global, k_global, v_global);
  std::vector<Tensor> heads;  // neighbouring heads of one dilation together
  for (int64_t h = 0, end = 0; h < q.size(1); h = end) {
    const int64_t dilation = dilation_of(options, h, q.size(2));
    while (end < q.size(1) && dilation_of(options, end, q.size(2)) == dilation) ++end;
    const auto some = [&](const Tensor& x) { return end - h == x.size(1) ? x : x.narrow(1, h, end - h); };
    heads.push_back(longformer.local_rows(some(q), some(k), some(v), dilation));
  }
  Tensor local = heads.size() == 1 ? heads[0] : concat(heads, 1);
  if (globals == 0) return local;
  return longformer.replaced(local, longformer.global_rows(q_global, k_global, v_global));
}

Tensor longformer_attention_weights(const Tensor& q, const Tensor& k, const Tensor& q_global, const Tensor& k_global,
                                    const LongformerAttentionOptions& options, Where where) {
  const Call call("longformer_attention_weights", where);
  check_arguments(q, k, k, options);
  const Longformer longformer(q, options);
  const Tensor padding = detail::unseen(q.size(2), q.size(2), options.padding_mask, false, q.device());
  const auto weights = [&](const Tensor& queries, const Tensor& keys, const Tensor& unseen) {
    return detail::softmax_weights(queries, keys, options.scale, detail::either(unseen, padding));
  };
  Tensor local = weights(q, k, longformer.unseen(q));
  if (longformer.global().count == 0) return local;
  check_global(q_global, "q_global", q, longformer.global().count);
  check_global(k_global, "k_global", q, q.size(2));
  return longformer.replaced(local, weights(q_global, k_global, longformer.unseen_by_global(q)));
}

}  // namespace linnet
