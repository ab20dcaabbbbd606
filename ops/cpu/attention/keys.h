#pragma once

#include <utility>

#include <linnet/ops/cpu/attention/standardise.h>
#include <linnet/ops/cpu/attention/tile.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>

/// What quadratic attention reads, and how its heads are shared out.

namespace linnet::cpu::LINNET_ISA {

struct AttentionInputs {
  View q, k, v;
  const View* padding_mask;  ///< null when nothing is padding
  AttentionParams params;

  int64_t heads() const { return q.shape[0] * q.shape[1]; }
  int64_t sequence(int64_t head) const { return head / q.shape[1]; }
  int64_t queries() const { return q.shape[2]; }
  int64_t keys() const { return k.shape[2]; }
  int64_t width() const { return q.shape[3]; }
  bool drops_tokens() const { return params.tokens.keep_of_256 % 256 != 0; }

  /// Calls `f(begin, end, task)` for the `pieces` of every head, each of `rows` queries: task(i) is the head and the
  /// piece of number i. They go head by head, so that what a thread makes of a head it finds again in its own cache;
  /// but where there are sequences for all threads, sequence by sequence and in one the heads together, because rows
  /// of neighbouring heads share cache lines: with 128 sequences of 4 heads, 49 tokens and a width of 24, that is 1.4
  /// times as fast.
  template <class F>
  void for_heads(int64_t pieces, int64_t rows, F f) const {
    constexpr int64_t kSequences = 8;
    const int64_t together = q.shape[0] >= kSequences ? std::max(q.shape[1], int64_t{1}) : 1;
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

/// Asks for the first `count` rows of x all at once. Where rows lie apart the processor does not see what comes next,
/// and those that are not near would be waited for one by one, as a product comes to use them.
template <class T>
[[gnu::always_inline]] inline void fetch_rows(Rows<T> x, int64_t count, int64_t width) {
  if (x.stride == width) return;
  for (int64_t r = 0; r < count; ++r) fetch(x[r], width);
}

/// Which keys are no padding.
class Padding {
 public:
  explicit Padding(const AttentionInputs& in)
      : in_(in),
        sequences_(in.padding_mask != nullptr ? in.q.shape[0] : 0),
        before_(sequences_ * (in.keys() + 1)),
        positions_(sequences_ * in.keys()) {
    for (int64_t b = 0; b < sequences_; ++b) find_kept(b);
  }

  /// A head's keys.
  int64_t count(int64_t head) const { return count_before(head, in_.keys()); }
  /// How many of them are among the first `positions`.
  int64_t count_before(int64_t head, int64_t positions) const {
    return sequences_ > 0 ? before_[in_.sequence(head) * (in_.keys() + 1) + positions] : positions;
  }
  int64_t position(int64_t head, int64_t j) const {
    return sequences_ > 0 ? positions_[in_.sequence(head) * in_.keys() + j] : j;
  }

 private:
  void find_kept(int64_t b) {
    const View& padding_mask = *in_.padding_mask;
    int64_t* before = before_.data() + b * (in_.keys() + 1);
    int64_t count = 0;
    for (int64_t p = 0; p < in_.keys(); ++p) {
      before[p] = count;
      if (data<bool>(padding_mask)[b * padding_mask.strides[0] + p * padding_mask.strides[1]])
        positions_[b * in_.keys() + count++] = p;
    }
    before[in_.keys()] = count;
  }

  const AttentionInputs& in_;
  int64_t sequences_;  ///< with padding
  Scratch<int64_t> before_, positions_;
};

/// Keys of one head, without padding, and their values, from key `first` on.
template <class T>
struct Keys {
  Rows<const T> first_k, first_v;
  int64_t first;
  StandardisedRows<T> standardised;  ///< where k is, if it is standardised

  Rows<const T> k(int64_t j) const { return first_k.from(j - first); }
  Rows<const T> v(int64_t j) const { return first_v.from(j - first); }
};

/// Where keys are: in place when all are and nothing is to be standardised, otherwise in rows of its own. So nothing
/// of a padded key is ever read, not even a NaN to be multiplied by 0; and standardised keys need not be kept for
/// backward, as they cost less than that would.
template <class T>
class KeyMemory {
 public:
  KeyMemory(const AttentionInputs& in, const Padding& padding, int64_t rows)
      : in_(in),
        padding_(padding),
        k_(in.padding_mask != nullptr || in.params.standardise ? rows * in.width() : 0),
        v_(in.padding_mask != nullptr ? rows * in.width() : 0),
        inverse_std_(in.params.standardise ? rows : 0) {}

  /// Makes a head's keys [begin, end) ready, in the rows from `row` on.
  Keys<T> load(int64_t head, int64_t begin, int64_t end, int64_t row) const {
    const Keys<T> keys = at(head, begin, row);
    const int64_t count = end - begin, width = in_.width();
    const auto position = [&](int64_t r) { return padding_.position(head, begin + r); };
    const Rows<const T> k = rows_of<const T>(in_.k, head), v = rows_of<const T>(in_.v, head);
    if (in_.params.standardise) {
      keys.standardised.make(count, [&](int64_t r) { return k[position(r)]; });
    } else if (in_.padding_mask != nullptr) {
      for (int64_t r = 0; r < count; ++r) std::copy_n(k[position(r)], width, k_.data() + (row + r) * width);
    }
    if (in_.padding_mask == nullptr) return keys;
    for (int64_t r = 0; r < count; ++r) std::copy_n(v[position(r)], width, v_.data() + (row + r) * width);
    return keys;
  }

  /// A head's keys from `begin` on that are in the rows from `row` on.
  Keys<T> at(int64_t head, int64_t begin, int64_t row) const {
    const auto rows = [&](const Scratch<T>& own, const View& in_place) {
      if (own.data() == nullptr) return rows_of<const T>(in_place, head).from(begin);
      return Rows<const T>{own.data() + row * in_.width(), in_.width()};
    };
    Keys<T> keys{rows(k_, in_.k), rows(v_, in_.v), begin, {}};
    if (in_.params.standardise) {
      keys.standardised = {{k_.data() + row * in_.width(), in_.width()}, inverse_std_.data() + row, in_.width()};
    }
    return keys;
  }

 private:
  const AttentionInputs& in_;
  const Padding& padding_;
  Scratch<T> k_, v_, inverse_std_;
};

}  // namespace linnet::cpu::LINNET_ISA
