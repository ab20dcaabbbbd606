#include <linnet/ops/attention/informer_attention.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/index_check.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/detail/sum.h>

namespace linnet {
namespace {

void check_samples(const Tensor& samples, const Tensor& q) {
  const int64_t batch = q.size(0), tokens = q.size(2);
  const int rank = samples.rank();
  const bool fits = (rank == 2 && samples.size(0) == tokens) ||
                    (rank == 3 && samples.size(0) == batch && samples.size(1) == tokens);
  if (!fits || samples.size(-1) == 0) {
    throw ShapeError(fmt::format("samples{} do not fit q{}: they must be [{}, u] or [{}, {}, u], with u of 1 or more",
                                 to_string(samples.shape()), to_string(q.shape()), tokens, batch, tokens));
  }
  if (samples.device() != q.device()) {
    throw DeviceError(fmt::format("samples are on {}, q on {}; move one with to(Device)", name_of(samples.device()),
                                  name_of(q.device())));
  }
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const InformerAttentionOptions& options) {
  detail::check_qkv(q, k, v, options.padding_mask);
  if (q.size(2) != k.size(2)) {
    throw ShapeError(
        fmt::format("q{} and k{} differ in tokens ({} ≠ {}); queries and keys must be of the same tokens",
                    to_string(q.shape()), to_string(k.shape()), q.size(2), k.size(2)));
  }
  detail::check_dtypes(q, k, v);
  if (options.queries < 0) {
    throw ValueError(fmt::format("queries is {}; it must be at least 1, or 0 for a number that grows with the tokens",
                                 options.queries));
  }
  detail::check_dropout(options.dropout, options.generator);
  if (options.samples.defined()) check_samples(options.samples, q);
}

/// u for `tokens` tokens, none of them padding.
int64_t queries_of(int64_t tokens, const InformerAttentionOptions& options) {
  if (options.samples.defined()) return std::min(tokens, options.samples.size(-1));
  return options.queries > 0 ? std::min(tokens, options.queries) : informer_queries(tokens, options.factor);
}

/// Whether all queries of all sequences are chosen, however many of their tokens are padding. Even if u is N, it may
/// be less than the length of a shorter sequence: for a factor of 3 it is 8 of 8 tokens and 6 of 7.
bool chooses_all(int64_t tokens, const InformerAttentionOptions& options) {
  const int64_t fewest = options.padding_mask.defined() ? 1 : tokens;
  for (int64_t kept = fewest; kept <= tokens; ++kept) {
    if (queries_of(kept, options) < kept) return false;
  }
  return true;
}

/// queries_of for each count of an int64 tensor, which the host does not read.
Tensor queries_of(const Tensor& counts, int64_t most, const InformerAttentionOptions& options) {
  if (options.samples.defined() || options.queries > 0) return minimum(counts, most);
  const Tensor logarithm = log(clamp(counts.to(DType::float64), 1)), whole = logarithm.to(DType::int64);
  const Tensor ceiling = whole + gt(logarithm, whole.to(DType::float64)).to(DType::int64);
  return minimum(counts, clamp(ceiling * options.factor, 1));
}

/// Tokens that are not padding.
struct Kept {
  Tensor count;    ///< int64 [B, 1]
  Tensor queries;  ///< u of each sequence, int64 [B, 1]
  Tensor places;   ///< int64 [B, N]: where the first, second, … of them is
  Tensor numbers;  ///< int64 [B, N]: how many of them are before each
};

Kept kept_tokens(const Tensor& padding_mask, int64_t most, const InformerAttentionOptions& options) {
  const Tensor kept = padding_mask.to(DType::int64);
  const Tensor count = sum(kept, {1}, true);
  return {.count = count,
          .queries = queries_of(count, most, options),
          .places = sort(kept, 1, true).indices,
          .numbers = clamp(cumsum(kept, 1) - 1, 0)};
}

/// Finds the queries with the largest M.
class Choice {
 public:
  Choice(const Tensor& q, const Tensor& k, const InformerAttentionOptions& options, int64_t queries)
      : options_(options), batch_(q.size(0)), heads_(q.size(1)), tokens_(q.size(2)), queries_(queries) {
    const NoGrad no_grad;
    if (options.padding_mask.defined()) {
      kept_ = kept_tokens(options.padding_mask, queries, options);
      within_ = lt(Recording::constant(arange(queries), q.device()), kept_.queries);
    }
    if (options.samples.defined()) {
      samples_ = detail::checked_index(options.samples, "samples", k.shape(), "k", 2);
      if (samples_.rank() == 2) samples_ = samples_.unsqueeze(0);
    } else {
      words_ = draw_words(q.device());
    }
    Tensor measure = sparsity(q, k);
    if (has_padding()) {
      measure = masked_fill(measure, logical_not(options.padding_mask).unsqueeze(-1),
                            -std::numeric_limits<double>::infinity());
    }
    index_ = topk(measure.transpose(1, 2), queries).indices;
  }

  bool has_padding() const { return options_.padding_mask.defined(); }
  /// How many tokens of each sequence are not padding, but at least 1; int64 [B, 1]. Needs a padding mask.
  Tensor counts() const { return clamp(kept_.count, 1); }

  /// The chosen queries of q [B, H, N, D], [B, H, u, D]; 0 beyond the u of a shorter sequence.
  Tensor chosen(const Tensor& q) const {
    Shape shape = q.shape();
    shape[2] = queries_;
    const Tensor rows = detail::gather_elements(q, 2, index_.unsqueeze(-1).expand(shape).contiguous());
    return has_padding() ? masked_fill(rows, logical_not(within_).reshape({batch_, 1, queries_, 1}), 0) : rows;
  }

  /// For each query 0, or 1 plus its place among the chosen ones; int64 [B, N, H].
  Tensor places() const {
    const NoGrad no_grad;
    Tensor place = Recording::constant(arange(1, queries_ + 1), index_.device());
    place = place.expand({batch_, heads_, queries_});
    if (has_padding()) place = where(within_.unsqueeze(1), place, 0);
    const Tensor none = zeros({batch_, heads_, tokens_}, DType::int64, index_.device());
    return detail::scatter_add_elements(none, 2, index_, place.contiguous()).transpose(1, 2);
  }

 private:
  /// Random numbers below 2³¹, int32 [N, u]. Each stream gives 16 columns, so that the numbers of a token are the
  /// same for any N and u.
  Tensor draw_words(Device device) const {
    if (options_.generator == nullptr) {
      throw ValueError("drawing samples needs a generator; set options.generator, or give options.samples");
    }
    constexpr int64_t kColumns = 16;
    std::vector<Tensor> columns;
    for (int64_t first = 0; first < queries_; first += kColumns) {
      columns.push_back(randint(0, kWords, {tokens_, kColumns}, *options_.generator, DType::int32, device));
    }
    return concat(columns, 1).narrow(1, 0, queries_);
  }

  /// The sampled keys of the queries from `first` on, int64 [B, count, u], or [1, count, u] for all sequences.
  Tensor sampled(int64_t first, int64_t count) const {
    if (samples_.defined()) return samples_.narrow(1, first, count);
    constexpr double kUnit = 1.0 / kWords;
    if (!has_padding()) {
      return (words_.narrow(0, first, count).to(DType::float64) * (kUnit * static_cast<double>(tokens_)))
          .to(DType::int64)
          .unsqueeze(0);
    }
    const Tensor numbers = kept_.numbers.narrow(1, first, count).reshape({batch_ * count});
    const Tensor words = detail::select_slices(words_, 0, numbers).reshape({batch_, count * queries_});
    const Tensor drawn = words.to(DType::float64) * (kept_.count.to(DType::float64) * kUnit);
    return detail::gather_elements(kept_.places, 1, drawn.to(DType::int64)).reshape({batch_, count, queries_});
  }

  /// M of every query, [B, N, H]. Takes so few queries at a time that their scores stay in a core's cache.
  Tensor sparsity(const Tensor& q, const Tensor& k) const {
    const int64_t step = std::max<int64_t>(1, kScores / std::max<int64_t>(1, batch_ * queries_ * heads_));
    const Tensor queries = detail::with_plain_rows(detail::in_computed(q));
    const Tensor keys = detail::with_plain_rows(detail::in_computed(k));
    std::vector<Tensor> parts;
    for (int64_t first = 0; first < tokens_; first += step) {
      const int64_t count = std::min(step, tokens_ - first);
      const Tensor index = sampled(first, count).expand({batch_, count, queries_});
      const Tensor some = queries.narrow(2, first, count);
      const Tensor s = Tensor::empty({batch_, count, heads_, queries_}, queries.dtype(), queries.device());
      if (s.numel() > 0) {
        backend(s).sampled_scores(detail::view(s), detail::view(some), detail::view(keys), detail::view(index));
      }
      parts.push_back(max_minus_mean(s));
    }
    return concat(parts, 1);
  }

  /// M [B, n, H] of sampled scores [B, n, H, u]                                                  [Zhou eq.4]
  Tensor max_minus_mean(const Tensor& s) const {
    if (!has_padding()) return max(s, {3}) - sum(s, {3}) / tokens_;
    const Tensor count = counts().to(s.dtype()).reshape({batch_, 1, 1});
    if (samples_.defined()) return max(s, {3}) - sum(s, {3}) / count;
    const Tensor beyond = logical_not(within_).reshape({batch_, 1, 1, queries_});
    const Tensor largest = max(masked_fill(s, beyond, -std::numeric_limits<double>::infinity()), {3});
    return largest - sum(masked_fill(s, beyond, 0), {3}) / count;
  }

  static constexpr int64_t kWords = int64_t{1} << 31;
  static constexpr int64_t kScores = int64_t{1} << 18;

  InformerAttentionOptions options_;
  int64_t batch_, heads_, tokens_, queries_;
  Kept kept_;
  Tensor within_;  // bool [B, u]: which of the chosen queries are among the u of the sequence itself
  Tensor samples_, words_;
  Tensor index_;  // int64 [B, H, u]
};

/// The mean of the values that are not padding, [B, H, 1, D].
Tensor mean_value(const Tensor& v, const Choice& choice, const Tensor& padding_mask) {
  const DType dtype = computed_in(v.dtype());
  const Tensor total = detail::sum_in(dtype, detail::without_padding(v, padding_mask), {2}, true);
  const Tensor mean =
      choice.has_padding() ? total / choice.counts().to(dtype).reshape({v.size(0), 1, 1, 1}) : total / v.size(2);
  return mean.to(v.dtype());
}

/// The rows [B, H, u, D] of the chosen queries at their places, and `others` [B, H, 1, D] elsewhere.
Tensor combined(const Tensor& rows, const Tensor& others, const Tensor& places) {
  const int64_t batch = rows.size(0), heads = rows.size(1), queries = rows.size(2), width = rows.size(3);
  // In memory the rows are in the order of sequence, place and head.
  const Tensor first = arange(batch).reshape({batch, 1, 1}) * (queries * heads) + arange(heads);
  const Tensor row = (clamp(places, 1) - 1) * heads + Recording::constant(first, rows.device());
  const Tensor picked = detail::select_slices(rows.transpose(1, 2).reshape({batch * queries * heads, width}), 0,
                                              row.reshape({row.numel()}));
  return where(gt(places, 0).unsqueeze(-1), picked.reshape({batch, places.size(1), heads, width}),
               others.transpose(1, 2))
      .transpose(1, 2);
}

}  // namespace

int64_t informer_queries(int64_t tokens, int64_t factor, Where where) {
  const Call call("informer_queries", where);
  if (factor < 1) throw ValueError(fmt::format("factor is {}; it must be at least 1", factor));
  if (tokens < 2 || factor >= tokens) return tokens;
  return std::min(tokens, factor * static_cast<int64_t>(std::ceil(std::log(static_cast<double>(tokens)))));
}

Tensor informer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const InformerAttentionOptions& options,
                          Where where) {
  const Call call("informer_attention", where);
  check(q, k, v, options);
  const int64_t queries = queries_of(q.size(2), options);
  const SoftmaxAttentionOptions softmax{
      .padding_mask = options.padding_mask, .dropout = options.dropout, .generator = options.generator};
  if (chooses_all(q.size(2), options)) return softmax_attention(q, k, v, softmax);
  const Choice choice(q, k, options, queries);
  const Tensor rows = softmax_attention(choice.chosen(q), k, v, softmax);  // [Zhou eq.3]
  return combined(rows, mean_value(v, choice, options.padding_mask), choice.places());
}

Tensor informer_attention_weights(const Tensor& q, const Tensor& k, const InformerAttentionOptions& options,
                                  Where where) {
  const Call call("informer_attention_weights", where);
  check(q, k, k, options);
  const int64_t queries = queries_of(q.size(2), options);
  Tensor rows = softmax_attention_weights(q, k, {.padding_mask = options.padding_mask});
  if (chooses_all(q.size(2), options)) return rows;
  const Choice choice(q, k, options, queries);
  const Tensor chosen = gt(choice.places(), 0).transpose(1, 2).unsqueeze(-1);
  if (!choice.has_padding()) return linnet::where(chosen, rows, 1 / static_cast<double>(q.size(2)));
  const Tensor uniform = options.padding_mask.to(rows.dtype()) / choice.counts().to(rows.dtype());
  return linnet::where(chosen, rows, uniform.unsqueeze(1).unsqueeze(1));
}

}  // namespace linnet
