#pragma once

#include <utility>

#include <linnet/ops/cpu/attention/mapped_rows.h>
#include <linnet/ops/cpu/attention/score_tile.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>

/// The inputs of quadratic attention, its tasks, and its keys and values.

namespace linnet::cpu::LINNET_ISA {

struct AttentionInputs {
  View q, k, v;
  AttentionMask mask;
  AttentionParams params;

  int64_t heads() const { return q.shape[0] * q.shape[1]; }
  int64_t sequence(int64_t head) const { return head / q.shape[1]; }
  int64_t queries() const { return q.shape[2]; }
  int64_t keys() const { return k.shape[2]; }
  int64_t width() const { return q.shape[3]; }
  bool maps() const { return params.map != RowMap::none; }
  bool drops_tokens() const { return params.tokens.keep_of_256 % 256 != 0; }

  /// Calls `f(begin, end, task)` in parallel for ranges of tasks. Each head has `splits` tasks, each of `rows`
  /// queries; task(i) gives the head and the split of task i. Tasks go head by head, so that a thread finds a head's
  /// keys again in its cache. With enough sequences for all threads, the heads of one sequence go together instead,
  /// because rows of neighbouring heads share cache lines: with 128 sequences of 4 heads, 49 tokens and a width of
  /// 24, that is 1.4 times as fast. Heads also go together with ranges of keys, because the keys of all heads then
  /// fit into the cache.
  template <class F>
  void for_heads(int64_t splits, int64_t rows, F f) const {
    constexpr int64_t kSequences = 8;
    const bool together = q.shape[0] >= kSequences || mask.ranges != nullptr;
    const int64_t heads_together = together ? std::max(q.shape[1], int64_t{1}) : 1;
    const int64_t grain = std::max(kGrain / std::max(rows * keys() * width(), int64_t{1}), int64_t{1});
    const auto task = [=](int64_t i) {
      const int64_t group = i / (heads_together * splits), index = i / heads_together % splits;
      return std::pair(group * heads_together + i % heads_together, index);
    };
    parallel_for(heads() * splits, round_up(grain, heads_together),
                 [&](int64_t begin, int64_t end) { f(begin, end, task); });
  }
};

/// The rows of one head of x [B, H, N, D]; `head` counts the heads of all sequences, b · H + h.
template <class T>
Rows<T> rows_of(const View& x, int64_t head) {
  return head_of<T>(x, head / x.shape[1], head % x.shape[1]);
}

/// Prefetches the first `count` rows of x together. Where rows are not contiguous the hardware prefetcher does not
/// predict them, and a product would wait for each row in turn.
template <class T>
[[gnu::always_inline]] inline void fetch_rows(Rows<T> x, int64_t count, int64_t width) {
  if (x.stride == width) return;
  for (int64_t r = 0; r < count; ++r) fetch(x[r], width);
}

/// Which keys are not padding: numbers them 0, 1, … in each row of the mask, which is a sequence or a head.
class Padding {
 public:
  explicit Padding(const AttentionInputs& in)
      : in_(in),
        of_heads_(in.mask.padding != nullptr && in.mask.padding->rank == 3),
        rows_(in.mask.padding == nullptr ? 0
              : of_heads_                ? in.heads()
                                         : in.q.shape[0]),
        before_(rows_ * (in.keys() + 1)),
        positions_(rows_ * in.keys()) {
    for (int64_t row = 0; row < rows_; ++row) find_kept(row);
  }

  /// The number of a head's keys.
  int64_t count(int64_t head) const { return count_before(head, in_.keys()); }
  /// The number of keys among the first `positions` positions.
  int64_t count_before(int64_t head, int64_t positions) const {
    return rows_ > 0 ? before_[row_of(head) * (in_.keys() + 1) + positions] : positions;
  }
  /// The position of key j.
  int64_t position(int64_t head, int64_t j) const {
    return rows_ > 0 ? positions_[row_of(head) * in_.keys() + j] : j;
  }

 private:
  int64_t row_of(int64_t head) const { return of_heads_ ? head : in_.sequence(head); }

  void find_kept(int64_t row) {
    const View& mask = *in_.mask.padding;
    const int64_t heads = in_.q.shape[1];
    const int64_t first =
        of_heads_ ? row / heads * mask.strides[0] + row % heads * mask.strides[1] : row * mask.strides[0];
    const int64_t stride = mask.strides[of_heads_ ? 2 : 1];
    int64_t* before = before_.data() + row * (in_.keys() + 1);
    int64_t count = 0;
    for (int64_t p = 0; p < in_.keys(); ++p) {
      before[p] = count;
      if (data<bool>(mask)[first + p * stride]) positions_[row * in_.keys() + count++] = p;
    }
    before[in_.keys()] = count;
  }

  const AttentionInputs& in_;
  bool of_heads_;
  int64_t rows_;  ///< 0 when nothing is padding
  Scratch<int64_t> before_, positions_;
};

/// Keys of one head, without padding, and their values, from key `first` on: each row [D].
template <class T>
struct HeadKeys {
  Rows<const T> first_k, first_v;
  int64_t first;
  MappedRows<T> mapped;  ///< k, if keys are mapped

  Rows<const T> k(int64_t j) const { return first_k.from(j - first); }
  Rows<const T> v(int64_t j) const { return first_v.from(j - first); }
};

/// Keys and values without padding, and mapped if asked for. They are used in place if neither applies, and copied
/// otherwise. So a padded key is never read, not even a NaN that would be multiplied by 0. Backward maps keys again,
/// which costs less than to store them.
template <class T>
class PreparedKeys {
 public:
  PreparedKeys(const AttentionInputs& in, const Padding& padding, int64_t rows)
      : in_(in),
        padding_(padding),
        k_(in.mask.padding != nullptr || in.maps() ? rows * in.width() : 0),
        v_(in.mask.padding != nullptr ? rows * in.width() : 0),
        inverse_(in.maps() ? rows : 0) {}

  /// Prepares a head's keys [begin, end); copies go to the rows from `row` on.
  HeadKeys<T> load(int64_t head, int64_t begin, int64_t end, int64_t row) const {
    const HeadKeys<T> keys = at(head, begin, row);
    const int64_t count = end - begin, width = in_.width();
    const auto position = [&](int64_t r) { return padding_.position(head, begin + r); };
    const Rows<const T> k = rows_of<const T>(in_.k, head), v = rows_of<const T>(in_.v, head);
    if (in_.maps()) {
      keys.mapped.make(count, [&](int64_t r) { return k[position(r)]; });
    } else if (in_.mask.padding != nullptr) {
      for (int64_t r = 0; r < count; ++r) std::copy_n(k[position(r)], width, k_.data() + (row + r) * width);
    }
    if (in_.mask.padding == nullptr) return keys;
    for (int64_t r = 0; r < count; ++r) std::copy_n(v[position(r)], width, v_.data() + (row + r) * width);
    return keys;
  }

  /// A head's keys from `begin` on, which `load` has prepared in the rows from `row` on.
  HeadKeys<T> at(int64_t head, int64_t begin, int64_t row) const {
    const auto rows = [&](const Scratch<T>& own, const View& in_place) {
      if (own.data() == nullptr) return rows_of<const T>(in_place, head).from(begin);
      return Rows<const T>{own.data() + row * in_.width(), in_.width()};
    };
    HeadKeys<T> keys{rows(k_, in_.k), rows(v_, in_.v), begin, {}};
    if (in_.maps()) {
      const Rows<T> y{k_.data() + row * in_.width(), in_.width()};
      keys.mapped = {in_.params.map, false, y, inverse_.data() + row, in_.width()};
    }
    return keys;
  }

 private:
  const AttentionInputs& in_;
  const Padding& padding_;
  Scratch<T> k_, v_, inverse_;
};

}  // namespace linnet::cpu::LINNET_ISA
