#pragma once

#include <utility>

#include <linnet/ops/cpu/attention_tile.h>
#include <linnet/ops/cpu/kernel.h>
#include <linnet/ops/cpu/scratch.h>
#include <linnet/ops/cpu/standardise.h>

/// What quadratic attention reads: all keys made ready before the heads are shared out, and queries block by block.

namespace linnet::cpu::LINNET_ISA {

struct AttentionInputs {
  View q, k, v;
  const View* keep;  ///< null when nothing is padding
  AttentionOptions options;
  /// Where queries and keys are when they are standardised, the keys without padding: q and k are then its. Forward
  /// makes them of `raw_q` and `raw_k`.
  const StandardisedHeads* kept = nullptr;
  const View *raw_q = nullptr, *raw_k = nullptr;

  int64_t heads() const { return q.shape[0] * q.shape[1]; }
  int64_t sequence(int64_t head) const { return head / q.shape[1]; }
  int64_t queries() const { return q.shape[2]; }
  int64_t keys() const { return k.shape[2]; }
  int64_t width() const { return q.shape[3]; }
  bool drops_tokens() const { return options.tokens.keep % 256 != 0; }

  /// Calls `f(begin, end, task)` for the `pieces` of every head, each of `rows` queries: task(i) is the head and the
  /// piece of number i. They go head by head, so that what a thread makes of a head it finds again in its own cache;
  /// but where there are sequences for all threads, sequence by sequence and in one the heads together, because rows
  /// of neighbouring heads share cache lines: with 128 sequences of 4 heads, 49 tokens and a width of 24, that is 1.4
  /// times as fast.
  template <class F>
  void for_heads(int64_t pieces, int64_t rows, F f) const {
    constexpr int64_t kSequences = 8;
    const int64_t together = q.shape[0] >= kSequences ? q.shape[1] : 1;
    const int64_t worth = std::max(kGrain / std::max(rows * keys() * width(), int64_t{1}), int64_t{1});
    const auto task = [=](int64_t i) {
      const int64_t group = i / (together * pieces), piece = i / together % pieces;
      return std::pair(group * together + i % together, piece);
    };
    parallel_for(heads() * pieces, round_up(worth, together),
                 [&](int64_t begin, int64_t end) { f(begin, end, task); });
  }
};

/// The rows of x [B, H, N, D] that belong to a head, counted over all sequences.
template <class T>
Rows<T> rows_of(const View& x, int64_t head) {
  return head_of<T>(x, head / x.shape[1], head % x.shape[1]);
}

/// Standardises `rows` tokens row(r) into y [B, H, N, D] and rstd [B, H, N], where a head has its own from `first`
/// on.
template <class T, class Row>
void standardise_tokens(int64_t rows, Row row, const View& y, const View& rstd, int64_t head, int64_t first) {
  const int64_t at = head * y.shape[2] + first, width = y.shape[3];
  with_width<T>(width, [&](auto w) { standardise<T>(rows, row, data<T>(y) + at * width, data<T>(rstd) + at, w); });
}

/// From the gradients of a head's tokens [first, last) of y to those of what was standardised, in place.
template <class T>
void through_standardisation(Rows<T> gradients, const View& y, const View& rstd, int64_t head, int64_t first,
                             int64_t last) {
  const int64_t at = head * y.shape[2] + first;
  with_width<T>(y.shape[3], [&](auto w) {
    standardise_backward(last - first, gradients, rows_of<const T>(y, head).from(first), data<const T>(rstd) + at, w);
  });
}

/// The keys that are no padding, and their values: in place when all are and nothing is to be standardised, otherwise
/// copied together by `prepare`, so that nothing of a padded key is ever read, not even a NaN to be multiplied by 0.
template <class T>
class Keys {
 public:
  explicit Keys(const AttentionInputs& in)
      : in_(in),
        sequences_(in.keep != nullptr ? in.q.shape[0] : 0),
        before_(sequences_ * (in.keys() + 1)),
        positions_(sequences_ * in.keys()),
        k_(in.keep != nullptr && in.kept == nullptr ? in.heads() * in.keys() * in.width() : 0),
        v_(in.keep != nullptr ? in.heads() * in.keys() * in.width() : 0) {
    for (int64_t b = 0; b < sequences_; ++b) find_kept(b);
  }

  /// Makes a head's keys from `begin` on, up to `end` at most, ready for `k` and `v`.
  void prepare(int64_t head, int64_t begin, int64_t end) const {
    if (!prepares()) return;
    const int64_t rows = std::min(end, count(head)) - begin, width = in_.width();
    if (in_.raw_k != nullptr) {
      const Rows<const T> keys = rows_of<const T>(*in_.raw_k, head);
      standardise_tokens<T>(
          rows, [&](int64_t r) { return keys[position(head, begin + r)]; }, in_.kept->k, in_.kept->k_rstd, head,
          begin);
    }
    const auto copy = [&](const View& from, const Scratch<T>& to) {
      if (to.data() == nullptr) return;
      const Rows<const T> source = rows_of<const T>(from, head);
      const Rows<T> out = own(to, head).from(begin);
      for (int64_t r = 0; r < rows; ++r) std::copy_n(source[position(head, begin + r)], width, out[r]);
    };
    copy(in_.k, k_);
    copy(in_.v, v_);
  }

  /// The same for all heads, when several tasks read them.
  void prepare() const {
    if (!prepares()) return;
    const int64_t pieces = (in_.keys() + kKeys - 1) / kKeys;
    constexpr int64_t kCost = 8;  // of an element, in additions
    parallel_for(in_.heads() * pieces, kGrain / (kCost * kKeys * std::max(in_.width(), int64_t{1})) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     prepare(task / pieces, task % pieces * kKeys, (task % pieces + 1) * kKeys);
                   }
                 });
  }

  /// Without padding.
  int64_t count(int64_t head) const { return count_before(head, in_.keys()); }
  /// How many of a head's keys are among the first `positions`.
  int64_t count_before(int64_t head, int64_t positions) const {
    return sequences_ > 0 ? before_[in_.sequence(head) * (in_.keys() + 1) + positions] : positions;
  }
  int64_t position(int64_t head, int64_t j) const {
    return sequences_ > 0 ? positions_[in_.sequence(head) * in_.keys() + j] : j;
  }
  Rows<const T> k(int64_t head) const { return k_.data() != nullptr ? own(k_, head) : rows_of<const T>(in_.k, head); }
  Rows<const T> v(int64_t head) const { return v_.data() != nullptr ? own(v_, head) : rows_of<const T>(in_.v, head); }

 private:
  bool prepares() const { return in_.keep != nullptr || in_.raw_k != nullptr; }

  Rows<T> own(const Scratch<T>& rows, int64_t head) const {
    return {rows.data() + head * in_.keys() * in_.width(), in_.width()};
  }

  void find_kept(int64_t b) {
    const View& keep = *in_.keep;
    int64_t* before = before_.data() + b * (in_.keys() + 1);
    int64_t count = 0;
    for (int64_t p = 0; p < in_.keys(); ++p) {
      before[p] = count;
      if (data<bool>(keep)[b * keep.strides[0] + p * keep.strides[1]]) positions_[b * in_.keys() + count++] = p;
    }
    before[in_.keys()] = count;
  }

  const AttentionInputs& in_;
  int64_t sequences_;  ///< with padding
  Scratch<int64_t> before_, positions_;
  Scratch<T> k_, v_;
};

/// Standardises the queries [begin, end) of a head, where that is asked for.
template <class T>
void standardise_queries(const AttentionInputs& in, int64_t head, int64_t begin, int64_t end) {
  if (in.raw_q == nullptr) return;
  const Rows<const T> queries = rows_of<const T>(*in.raw_q, head).from(begin);
  standardise_tokens<T>(end - begin, [&](int64_t r) { return queries[r]; }, in.kept->q, in.kept->q_rstd, head, begin);
}

}  // namespace linnet::cpu::LINNET_ISA
