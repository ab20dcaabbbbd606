#pragma once

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
  bool standardised;

  int64_t heads() const { return q.shape[0] * q.shape[1]; }
  int64_t sequence(int64_t head) const { return head / q.shape[1]; }
  int64_t queries() const { return q.shape[2]; }
  int64_t keys() const { return k.shape[2]; }
  int64_t width() const { return q.shape[3]; }
  bool drops_tokens() const { return options.tokens.keep % 256 != 0; }

  /// How many pieces of `rows` queries, of one head after another, are worth a thread. Where there are sequences for
  /// all threads the heads of one stay together, because rows of neighbouring heads share cache lines: with 128
  /// sequences of 4 heads, 49 tokens and a width of 24, that is 1.4 times as fast.
  int64_t grain(int64_t rows) const {
    constexpr int64_t kSequences = 8;
    const int64_t together = q.shape[0] >= kSequences ? q.shape[1] : 1;
    return round_up(std::max(kGrain / std::max(rows * keys() * width(), int64_t{1}), int64_t{1}), together);
  }
};

/// The rows of x [B, H, N, D] that belong to a head, counted over all sequences.
template <class T>
Rows<T> rows_of(const View& x, int64_t head) {
  return head_of<T>(x, head / x.shape[1], head % x.shape[1]);
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
        k_(in.keep != nullptr || in.standardised ? in.heads() * in.keys() * in.width() : 0),
        v_(in.keep != nullptr ? in.heads() * in.keys() * in.width() : 0),
        inverse_std_(in.standardised ? in.heads() * in.keys() : 0) {
    for (int64_t b = 0; b < sequences_; ++b) find_kept(b);
  }

  /// Makes a head's keys from `begin` on, up to `end` at most, ready for `k` and `v`.
  void prepare(int64_t head, int64_t begin, int64_t end) const {
    if (k_.data() == nullptr) return;
    const Rows<const T> keys = rows_of<const T>(in_.k, head), values = rows_of<const T>(in_.v, head);
    const int64_t rows = std::min(end, count(head)) - begin, width = in_.width();
    const auto key = [&](int64_t r) { return keys[position(head, begin + r)]; };
    const Rows<T> to_k = own(k_, head).from(begin);
    if (in_.standardised) {
      T* inverse_std = inverse_std_.data() + head * in_.keys() + begin;
      with_width(width, [&](auto constant) { standardise<T>(rows, key, to_k.data, inverse_std, constant); });
    } else {
      for (int64_t r = 0; r < rows; ++r) std::copy_n(key(r), width, to_k[r]);
    }
    if (v_.data() == nullptr) return;
    const Rows<T> to_v = own(v_, head).from(begin);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(values[position(head, begin + r)], width, to_v[r]);
  }

  /// The same for all heads, when several tasks read them.
  void prepare() const {
    if (k_.data() == nullptr) return;
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

  /// From the gradients of the keys [begin, end) as they are used to those of the keys, in place.
  void backward(int64_t head, int64_t begin, int64_t end, Rows<T> gradients) const {
    if (!in_.standardised) return;
    const Rows<const T> keys = k(head);
    with_width(in_.width(), [&](auto width) {
      standardise_backward(end - begin, gradients.from(begin), keys.from(begin),
                           inverse_std_.data() + head * in_.keys() + begin, width);
    });
  }

 private:
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
  Scratch<T> k_, v_, inverse_std_;
};

/// Some queries of one head, standardised where that is asked for: then into `memory`, [rows, D].
template <class T>
class Queries {
 public:
  Queries(const AttentionInputs& in, int64_t head, int64_t first, int64_t count, T* memory)
      : standardised_(in.standardised),
        count_(count),
        width_(in.width()),
        rows_(rows_of<const T>(in.q, head).from(first)) {
    if (!standardised_) return;
    const auto query = [&](int64_t r) { return rows_[r]; };
    with_width(width_, [&](auto width) { standardise<T>(count_, query, memory, inverse_std_, width); });
    rows_ = {memory, width_};
  }

  Rows<const T> rows() const { return rows_; }

  /// From the gradients of the queries as they are used to those of the queries, in place.
  void backward(Rows<T> gradients) const {
    if (!standardised_) return;
    with_width(width_, [&](auto width) { standardise_backward(count_, gradients, rows_, inverse_std_, width); });
  }

 private:
  bool standardised_;
  int64_t count_, width_;
  Rows<const T> rows_;
  T inverse_std_[kQueries];
};

}  // namespace linnet::cpu::LINNET_ISA
