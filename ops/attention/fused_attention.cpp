#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/fused_attention.h>

#include <tuple>
#include <utility>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>

/// The two attentions with kernels of their own: weight by weight (softmax and Fastmax), and factorised Fastmax. Both
/// save q, k, v, o and every row's denominator for backward, so memory is linear in the tokens.

namespace linnet::detail {
namespace {

constexpr const char* kParts = "its weights (softmax_attention_weights, fastmax_weights) and matmul";

Tensor empty_denominator(const Tensor& q) {
  return Tensor::empty({q.size(0), q.size(1), q.size(2)}, computed_in(q.dtype()), q.device());
}

/// The inputs of one op. A tensor that is used several times as queries, as keys or as values is one input, and its
/// gradients are added in one place.
class Inputs {
 public:
  enum class Kind : uint8_t { query, key, value };

  explicit Inputs(const std::vector<QueryRows>& parts) {
    size_t most = 0;
    for (const QueryRows& rows : parts) most += 1 + 2 * rows.sets.size();
    tensors_.reserve(most);
    kinds_.reserve(most);
    for (const QueryRows& rows : parts) {
      add(Kind::query, rows.q);
      for (const KeySet& set : rows.sets) add(Kind::key, set.k), add(Kind::value, set.v);
    }
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// The index of x, or where it would be added.
  size_t index_of(Kind kind, const Tensor& x) const {
    size_t i = 0;
    while (i < tensors_.size() && !(kinds_[i] == kind && tensors_[i].is(x))) ++i;
    return i;
  }

 private:
  void add(Kind kind, const Tensor& x) {
    if (index_of(kind, x) < tensors_.size()) return;
    tensors_.push_back(x);
    kinds_.push_back(kind);
  }

  std::vector<Tensor> tensors_;
  std::vector<Kind> kinds_;
};

/// A KeySet, with ranges for each sequence and head, and the indices of k and v among the inputs.
struct SavedKeySet {
  Saved k, v, padding_mask, ranges, positions;
  RandomKey dropout_rng;
  size_t dk, dv;
};

/// QueryRows, with the index of q among the inputs.
struct SavedQueryRows {
  Saved q, denominator;
  int64_t first, count;
  std::vector<SavedKeySet> sets;
  size_t dq;

  Tensor of(const Tensor& x) const { return count == x.size(2) ? x : detail::narrow(x, 2, first, count); }
};

/// The rows of x that a set has: all, or copies of those at the positions.
Tensor rows_of_set(const Tensor& x, const Tensor& positions) {
  if (!positions.defined()) return x;
  const NoGrad no_grad;
  return tokens_at(x, positions);
}

/// The parameters of set `index` of some rows.
AttentionParams params_of(AttentionParams params, RandomKey dropout_rng, size_t index) {
  params.dropout_rng = dropout_rng;
  params.accumulate = index > 0;
  return params;
}

/// Computes the gradients that go through the keys of some rows.
class RowsBackward {
 public:
  /// g = ∂L/∂o and o have the rows of all parts.
  RowsBackward(const SavedQueryRows& rows, const Tensor& g, const Tensor& o, const AttentionParams& params,
               std::vector<Tensor>& grads)
      : rows_(rows),
        g_(rows.of(g)),
        o_(rows.of(o)),
        q_(rows.q()),
        q_rows_(rows.of(q_)),
        denominator_(rows.denominator()),
        params_(params),
        grads_(grads) {}

  void run() {
    for (size_t i = 0; i < rows_.sets.size(); ++i)
      add_set(rows_.sets[i], params_of(params_, rows_.sets[i].dropout_rng, i));
  }

 private:
  void add_set(const SavedKeySet& set, AttentionParams params) {
    const Tensor padding_mask = set.padding_mask(), ranges = set.ranges(), positions = set.positions();
    Tensor dk, dv;
    {
      const Tensor k = rows_of_set(set.k(), positions), v = rows_of_set(set.v(), positions);
      params.accumulate_keys = !positions.defined() && (grads_[set.dk].defined() || grads_[set.dv].defined());
      std::tie(dk, dv) = destinations(set, k, v, params.accumulate_keys, positions.defined());
      backend(q_).attention_backward(detail::view(dq_), detail::view(dk), detail::view(dv), detail::view(g_),
                                     detail::view(o_), detail::view(denominator_), detail::view(q_rows_),
                                     detail::view(k), detail::view(v),
                                     {OptionalView(padding_mask).get(), OptionalView(ranges).get()}, params);
    }
    if (!positions.defined()) return;
    for (auto& [input, of_copies] : {std::pair(set.dk, &dk), std::pair(set.dv, &dv)}) {
      grads_[input] = sums_at(*of_copies, positions, set.k().size(2));
      *of_copies = Tensor();
    }
  }

  /// The gradients of k and v, or of their copies. Allocates them, and that of q, if they do not exist yet.
  std::pair<Tensor, Tensor> destinations(const SavedKeySet& set, const Tensor& k, const Tensor& v, bool has_keys,
                                         bool are_copies) {
    Tensor &dq = grads_[rows_.dq], &dk = grads_[set.dk], &dv = grads_[set.dv];
    const bool has_queries = dq.defined();
    std::vector<Tensor> made;
    if (has_queries && !has_keys) made = empty_gradients({k, v});
    if (!has_queries) made = has_keys ? empty_gradients({q_}) : empty_gradients({q_, k, v});
    if (!has_queries) {
      dq = made[0];
      if (rows_.count < dq.size(2)) dq.fill_(0);  // rows of q that are in no part get the gradient 0
    }
    if (!dq_.defined()) dq_ = rows_.of(dq);
    if (has_keys) {  // a tensor may be the keys of two sets with different values
      if (!dk.defined()) dk = zeros_of(k);
      if (!dv.defined()) dv = zeros_of(v);
      return {dk, dv};
    }
    const Tensor new_dk = made[made.size() - 2], new_dv = made.back();
    if (!are_copies) dk = new_dk, dv = new_dv;
    return {new_dk, new_dv};
  }

  static Tensor zeros_of(const Tensor& x) { return empty_heads(x.shape(), x.dtype(), x.device()).fill_(0); }

  const SavedQueryRows& rows_;
  Tensor g_, o_, q_, q_rows_, denominator_;
  Tensor dq_;  ///< of the rows; undefined before the first set
  AttentionParams params_;
  std::vector<Tensor>& grads_;
};

Grads quadratic_attention_backward(const Tensor& grad, const Tensor& o, const std::vector<SavedQueryRows>& parts,
                                   size_t inputs, const AttentionParams& params) {
  Op op("attention_backward", Where{}, {grad, parts[0].q()});
  op.first_derivative_only(kParts);
  const Tensor g = with_plain_rows(grad);
  std::vector<Tensor> grads(inputs);
  for (const SavedQueryRows& rows : parts) RowsBackward(rows, g, o, params, grads).run();
  return {grads.begin(), grads.end()};
}

Grads fused_fastmax_backward(const Tensor& grad, const Tensor& o, const Tensor& denominator, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                             const FastmaxParams& params) {
  Op op("fastmax_backward", Where{}, {grad, q, k, v});
  op.first_derivative_only(kParts);
  const std::vector<Tensor> gradients = empty_gradients({q, k, v});
  const Tensor g = with_plain_rows(grad);
  backend(q).fastmax_backward(detail::view(gradients[0]), detail::view(gradients[1]), detail::view(gradients[2]),
                              detail::view(g), detail::view(o), detail::view(denominator), detail::view(q),
                              detail::view(k), detail::view(v), OptionalView(padding_mask).get(), params);
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace

Tensor quadratic_attention(const std::vector<QueryRows>& parts, const AttentionParams& params) {
  const Inputs inputs(parts);
  Shape shape = parts[0].q.shape();
  shape[2] = 0;
  for (const QueryRows& rows : parts) shape[2] += rows.count;
  Op op("attention", Where{}, inputs.tensors());
  const Tensor o = empty_heads(shape, op.floating_dtype(), parts[0].q.device());
  std::vector<Tensor> plain_rows(inputs.tensors().size());
  const auto plain = [&](size_t input) {
    if (!plain_rows[input].defined()) plain_rows[input] = with_plain_rows(inputs.tensors()[input]);
    return plain_rows[input];
  };
  std::vector<SavedQueryRows> saved;
  saved.reserve(parts.size());
  for (const QueryRows& rows : parts) {
    const size_t dq = inputs.index_of(Inputs::Kind::query, rows.q);
    SavedQueryRows part{{}, {}, rows.first, rows.count, {}, dq};
    const Tensor q = part.of(plain(dq)), out = part.of(o), denominator = empty_denominator(q);
    part.sets.reserve(rows.sets.size());
    for (size_t i = 0; i < rows.sets.size(); ++i) {
      const KeySet& set = rows.sets[i];
      const size_t dk = inputs.index_of(Inputs::Kind::key, set.k), dv = inputs.index_of(Inputs::Kind::value, set.v);
      const bool is_copy = set.positions.defined();
      const Tensor k = is_copy ? rows_of_set(set.k, set.positions) : plain(dk);
      const Tensor v = is_copy ? rows_of_set(set.v, set.positions) : plain(dv);
      const Tensor ranges = set.ranges.defined() ? set.ranges.expand({q.size(0), q.size(1), q.size(2), 2}) : Tensor();
      backend(o).attention(detail::view(out), detail::view(denominator), detail::view(q), detail::view(k),
                           detail::view(v), {OptionalView(set.padding_mask).get(), OptionalView(ranges).get()},
                           params_of(params, set.dropout_rng, i));
      part.sets.push_back({op.save(is_copy ? set.k : k), op.save(is_copy ? set.v : v), op.save(set.padding_mask),
                           op.save(ranges), op.save(set.positions), set.dropout_rng, dk, dv});
    }
    part.q = op.save(plain(dq));
    part.denominator = op.save(denominator);
    saved.push_back(std::move(part));
  }
  return op.record(o, [o = op.save_output(o), parts = std::move(saved), inputs = inputs.tensors().size(), params](
                          const Tensor& g) { return quadratic_attention_backward(g, o(), parts, inputs, params); });
}

Tensor softmax_over(std::vector<QueryRows> parts, const SoftmaxAttentionOptions& options) {
  AttentionParams params{};
  params.kind.softmax = true;
  params.scale = attention_scale(options.scale, parts[0].q.size(3));
  params.causal = options.causal;
  params.dropout = options.dropout;
  for (QueryRows& rows : parts) {
    for (KeySet& set : rows.sets) {
      if (options.dropout > 0) set.dropout_rng = options.generator->next();
    }
  }
  return quadratic_attention(parts, params);
}

Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                     const FastmaxParams& params) {
  Op op("fastmax", Where{}, {q, k, v});
  const DType dtype = op.floating_dtype();
  check_qkv(q, k, v, padding_mask);
  const Tensor queries = with_plain_rows(q), keys = with_plain_rows(k), values = with_plain_rows(v);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Tensor denominator = empty_denominator(q);
  backend(q).fastmax(detail::view(o), detail::view(denominator), detail::view(queries), detail::view(keys),
                     detail::view(values), OptionalView(padding_mask).get(), params);
  return op.record(
      o, [o = op.save_output(o), denominator = op.save(denominator), q = op.save(queries), k = op.save(keys),
          v = op.save(values), padding_mask = op.save(padding_mask), params](const Tensor& g) {
        return fused_fastmax_backward(g, o(), denominator(), q(), k(), v(), padding_mask(), params);
      });
}

}  // namespace linnet::detail
