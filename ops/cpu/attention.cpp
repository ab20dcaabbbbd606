#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/attention.h>
#include <linnet/ops/cpu/attention_rows.h>
#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/head_rows.h>
#include <linnet/ops/cpu/kernel.h>
#include <linnet/ops/cpu/scratch.h>

/// Quadratic attention, block by block of query rows: softmax (Vaswani et al. 2017, eq. 1) and the polynomial
/// weights of Fastmax (Gerami et al. 2024, eqs. 7–9) in one skeleton. Memory beside the results is linear in
/// the keys.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Query rows that are handled together.
constexpr int64_t kBlock = 64;
/// Rows of a block whose weighted sums share a matrix product when they see different numbers of keys.
constexpr int64_t kStrip = 16;

/// The keys of one head that are no padding: in place when all are, otherwise copied together, so that
/// nothing of a padded key is ever read, not even a NaN to be multiplied by 0.
template <class T>
class Keys {
 public:
  Keys(const View& k, const View& v, const View* keep, int64_t b, int64_t h)
      : positions_(k.shape[2]),
        count_(positions_),
        k_(head_of<const T>(k, b, h)),
        v_(head_of<const T>(v, b, h)),
        padded_(keep != nullptr),
        before_(padded_ ? positions_ + 1 : 0),
        gathered_(padded_ ? 2 * positions_ * k.shape[3] : 0) {
    if (!padded_) return;
    const int64_t width = k.shape[3];
    const Rows<T> to_k{gathered_.data(), stride_for(0, width)};
    const Rows<T> to_v = to_k.from(positions_);
    count_ = 0;
    for (int64_t p = 0; p < positions_; ++p) {
      before_[p] = count_;
      if (!data<bool>(*keep)[b * keep->strides[0] + p * keep->strides[1]]) continue;
      std::copy_n(k_[p], width, to_k[count_]);
      std::copy_n(v_[p], width, to_v[count_]);
      ++count_;
    }
    before_[positions_] = count_;
    k_ = to_k;
    v_ = to_v;
  }

  /// Padding included.
  int64_t positions() const { return positions_; }
  /// Without padding.
  int64_t count() const { return count_; }
  /// How many of the keys are among the first `positions`.
  int64_t count_before(int64_t positions) const { return padded_ ? before_[positions] : positions; }
  bool kept(int64_t position) const { return count_before(position + 1) > count_before(position); }
  Rows<const T> k() const { return k_; }
  Rows<const T> v() const { return v_; }

 private:
  int64_t positions_, count_;
  Rows<const T> k_, v_;
  bool padded_;
  Scratch<int64_t> before_;
  Scratch<T> gathered_;
};

/// Where the gradients of a head's keys (or values) are summed: in place, or where there is padding in rows
/// of the others alone, which `finish` spreads out.
template <class T>
class KeyGradients {
 public:
  KeyGradients(const Keys<T>& keys, Rows<T> result, int64_t width)
      : keys_(keys),
        result_(result),
        rows_(result),
        width_(width),
        compact_(keys.count() < keys.positions() ? keys.count() * width : 0) {
    if (keys.count() < keys.positions()) rows_ = {compact_.data(), stride_for(0, width)};
    for (int64_t j = 0; j < keys.count(); ++j) std::fill_n(rows_[j], width, T{0});
  }

  Rows<T> rows() const { return rows_; }

  void finish() {
    if (keys_.count() == keys_.positions()) return;
    for (int64_t p = 0; p < keys_.positions(); ++p) {
      if (keys_.kept(p)) {
        std::copy_n(rows_[keys_.count_before(p)], width_, result_[p]);
      } else {
        std::fill_n(result_[p], width_, T{0});
      }
    }
  }

 private:
  const Keys<T>& keys_;
  Rows<T> result_, rows_;
  int64_t width_;
  Scratch<T> compact_;
};

/// Some query rows of one head, and how many keys each of them sees: never fewer than the row before.
struct Block {
  int64_t first, rows;
  int64_t visible[kBlock];

  template <class T>
  Block(int64_t first_row, int64_t queries, const Keys<T>& keys, bool causal)
      : first(first_row), rows(std::min(kBlock, queries - first_row)) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t positions = causal ? first + r + 1 + keys.positions() - queries : keys.positions();
      visible[r] = keys.count_before(std::clamp(positions, int64_t{0}, keys.positions()));
    }
  }

  int64_t seen_by_all() const { return visible[0]; }
  int64_t seen_by_any() const { return visible[rows - 1]; }
};

/// out = alpha · a · bᵀ: [rows, width] · [columns, width]ᵀ
template <class T>
void product_transposed(int64_t rows, int64_t columns, int64_t width, T alpha, Rows<const T> a, Rows<const T> b,
                        Rows<T> out) {
  gemm<T>(false, true, rows, columns, width, alpha, a.data, a.stride, b.data, b.stride, 0, out.data, out.stride);
}

/// out += aᵀ · b: [rows, columns]ᵀ · [rows, width]
template <class T>
void add_transposed_product(int64_t rows, int64_t columns, int64_t width, Rows<const T> a, Rows<const T> b,
                            Rows<T> out) {
  gemm<T>(true, false, columns, width, rows, 1, a.data, a.stride, b.data, b.stride, 1, out.data, out.stride);
}

/// out = weights · x, each row over the keys that it sees: what a row does not see is not read for it, so
/// that not even an infinity comes back from the future. BLAS takes the keys that all rows of a strip see.
template <class T>
void visible_product(const Block& block, int64_t width, Rows<const T> weights, Rows<const T> x, Rows<T> out) {
  const int64_t strip = block.seen_by_all() == block.seen_by_any() ? block.rows : kStrip;
  for (int64_t first = 0; first < block.rows; first += strip) {
    const int64_t rows = std::min(strip, block.rows - first), common = block.visible[first];
    gemm<T>(false, false, rows, width, common, 1, weights[first], weights.stride, x.data, x.stride, 0, out[first],
            out.stride);
    for (int64_t r = first; r < first + rows; ++r) {
      add_weighted_rows(out[r], weights[r] + common, x[common], x.stride, block.visible[r] - common, width);
    }
  }
}

/// What both passes read.
struct Inputs {
  View q, k, v;
  const View* keep;
  AttentionOptions options;

  int64_t heads() const { return q.shape[0] * q.shape[1]; }
  int64_t queries() const { return q.shape[2]; }
  int64_t keys() const { return k.shape[2]; }
  int64_t width() const { return q.shape[3]; }
  /// How many pieces of `rows` queries are worth a thread.
  int64_t grain(int64_t rows) const {
    return std::max(kGrain / std::max(rows * keys() * width(), int64_t{1}), int64_t{1});
  }
};

/// What dropout of whole tokens multiplies with, 0 or 256/keep each: the bytes that the factorised form draws.
template <class T>
class TokenFactors {
 public:
  TokenFactors(const Inputs& in, int64_t head, const Keys<T>& keys)
      : drops_(in.options.tokens.keep % 256 != 0),
        queries_(drops_ ? in.queries() : 0),
        keys_(drops_ ? in.keys() : 0) {
    if (!drops_) return;
    const int64_t lag = in.options.causal ? in.keys() - in.queries() : 0, first = std::min(lag, int64_t{0});
    const int64_t positions = std::max(in.keys(), in.queries() + lag) - first;
    const int64_t before = head * ((positions + 63) / 64 * 64) - first;
    draw(in.options.tokens.query_key, before + lag, in.queries(), in.options.tokens.keep, queries_.data());
    draw(in.options.tokens.key_key, before, in.keys(), in.options.tokens.keep, keys_.data());
    for (int64_t p = 0; p < keys.positions(); ++p) {
      if (keys.kept(p)) keys_[keys.count_before(p)] = keys_[p];
    }
  }

  bool drops() const { return drops_; }
  T query(int64_t i) const { return queries_[i]; }
  /// In the order of Keys, without padding.
  const T* keys() const { return keys_.data(); }

 private:
  static void draw(RandomKey key, int64_t first, int64_t count, int keep, T* out) {
    const T kept = static_cast<T>(256.0 / keep);
    for (int64_t block = first / 16; block * 16 < first + count; ++block) {
      const PhiloxBlock random = philox(key, static_cast<uint64_t>(block));
      for (int64_t byte = 0; byte < 16; ++byte) {
        const int64_t i = block * 16 + byte - first;
        if (i < 0 || i >= count) continue;
        const auto value = static_cast<int>(random.word[byte / 4] >> (byte % 4 * 8) & 255);
        out[i] = value < keep ? kept : T{0};
      }
    }
  }

  bool drops_;
  Scratch<T> queries_, keys_;
};

/// One head of one sequence; `index` counts over both.
template <class T>
class Head {
 public:
  Head(const Inputs& in, int64_t index)
      : in_(in),
        index_(index),
        width_(in.width()),
        q_(rows<const T>(in.q)),
        keys_(in.k, in.v, in.keep, index / in.q.shape[1], index % in.q.shape[1]),
        drops_(in.options.dropout > 0),
        factors_(drops_ ? in.keys() : 0),
        tokens_(in, index, keys_) {}

  /// Writes the outputs and normalisers of the block of queries that starts at `first`.
  void forward(int64_t first, const View& o, const View& normaliser) {
    const Block block(first, in_.queries(), keys_, in_.options.causal);
    const Scratch<T> memory(block.rows * padded<T>(block.seen_by_any()));
    const Rows<T> weights = scores(block, memory.data());
    T totals[kBlock], maxima[kBlock];
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t n = block.visible[r];
      const RowSum<T> sum = weigh(first + r, weights[r], n);
      totals[r] = sum.total;
      maxima[r] = sum.maximum;
      if (drops_) multiply(weights[r], dropout_factors(first + r, n), n);
    }
    set_normalisers(row_values(normaliser) + first, totals, maxima, block.rows);

    // o_i = sum_j f(s_ij) v_j / sum_j f(s_ij)
    const Rows<T> out = rows<T>(o).from(first);
    visible_product<T>(block, width_, weights, keys_.v(), out);
    for (int64_t r = 0; r < block.rows; ++r) {
      if (block.visible[r] > 0) scale_by(out[r], 1 / totals[r], width_);
    }
  }

  /// Writes the gradients of the whole head, block by block of queries, so that dk and dv are sums in a fixed
  /// order.
  void backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                const View& normaliser) {
    KeyGradients<T> to_k(keys_, rows<T>(dk), width_), to_v(keys_, rows<T>(dv), width_);
    const Scratch<T> memory(2 * std::min(kBlock, in_.queries()) * padded<T>(keys_.count()));
    for (int64_t first = 0; first < in_.queries(); first += kBlock) {
      const Block block(first, in_.queries(), keys_, in_.options.causal);
      const int64_t extent = block.seen_by_any();
      const Rows<const T> g = rows<const T>(d_o).from(first), y = rows<const T>(o).from(first);
      const Rows<T> weights = scores(block, memory.data());
      const Rows<T> ds = weights.from(block.rows);
      product_transposed<T>(block.rows, extent, width_, 1, g, keys_.v(), ds);
      for (int64_t r = 0; r < block.rows; ++r) {
        const int64_t n = block.visible[r];
        const T* factors = drops_ ? dropout_factors(first + r, n) : nullptr;
        if (factors != nullptr) multiply(ds[r], factors, n);
        differentiate(first + r, weights[r], ds[r], n, dot(g[r], y[r], width_), row_values(normaliser)[first + r]);
        if (factors != nullptr) multiply(weights[r], factors, n);
        std::fill(weights[r] + n, weights[r] + extent, T{0});
        std::fill(ds[r] + n, ds[r] + extent, T{0});
      }
      visible_product<T>(block, width_, ds, keys_.k(), rows<T>(dq).from(first));
      add_transposed_product<T>(block.rows, extent, width_, ds, q_.from(first), to_k.rows());
      add_transposed_product<T>(block.rows, extent, width_, weights, g, to_v.rows());
    }
    to_k.finish();
    to_v.finish();
  }

 private:
  template <class U>
  Rows<U> rows(const View& x) const {
    return head_of<U>(x, index_ / in_.q.shape[1], index_ % in_.q.shape[1]);
  }

  /// This head's part of a contiguous [B, H, N].
  T* row_values(const View& x) const { return data<T>(x) + index_ * in_.queries(); }

  /// s_ij = scale · q_i·k_j, for the keys that any row of the block sees.
  Rows<T> scores(const Block& block, T* memory) const {
    const int64_t extent = block.seen_by_any();
    const Rows<T> s{memory, stride_for(0, padded<T>(extent))};
    product_transposed<T>(block.rows, extent, width_, static_cast<T>(in_.options.scale), q_.from(block.first),
                          keys_.k(), s);
    return s;
  }

  RowSum<T> weigh(int64_t i, T* s, int64_t n) const {
    const AttentionKind& kind = in_.options.kind;
    if (kind.softmax) return weigh_softmax(s, n);
    if (!tokens_.drops()) return weigh_polynomial(s, n, kind);
    return weigh_dropped(s, n, kind, tokens_.query(i), tokens_.keys(), in_.options.tokens.shared_normaliser);
  }

  /// What backward needs to make the normalised weights again: of softmax max + log Σ exp(s − max), else the sum.
  void set_normalisers(T* normaliser, const T* totals, const T* maxima, int64_t n) const {
    if (!in_.options.kind.softmax) {
      std::copy_n(totals, n, normaliser);
      return;
    }
#pragma omp simd
    for (int64_t r = 0; r < n; ++r) normaliser[r] = maxima[r] + vec::log(totals[r]);
  }

  void differentiate(int64_t i, T* s, T* ds, int64_t n, T delta, T normaliser) const {
    const AttentionKind& kind = in_.options.kind;
    const T scale = static_cast<T>(in_.options.scale);
    if (!tokens_.drops()) return score_gradients(s, ds, n, delta, normaliser, scale, kind);
    dropped_score_gradients(s, ds, n, delta, normaliser, scale, kind, tokens_.query(i), tokens_.keys(),
                            in_.options.tokens.shared_normaliser);
  }

  /// 0 or 1 / (1 − rate) for the first `n` keys of query `i`.
  const T* dropout_factors(int64_t i, int64_t n) const {
    const uint64_t threshold = keep_threshold(1 - in_.options.dropout);
    const T kept = static_cast<T>(1 / (1 - in_.options.dropout));
    const int64_t begin = (index_ * in_.queries() + i) * in_.keys();
    int64_t count = 0;
    for (int64_t block = begin / 4; count < n; ++block) {
      const PhiloxBlock random = philox(in_.options.key, static_cast<uint64_t>(block));
      for (int64_t w = 0; w < 4 && count < n; ++w) {
        const int64_t position = block * 4 + w - begin;
        if (position < 0 || !keys_.kept(position)) continue;
        factors_[count++] = random.word[w] < threshold ? kept : T{0};
      }
    }
    return factors_.data();
  }

  const Inputs& in_;
  int64_t index_, width_;
  Rows<const T> q_;
  Keys<T> keys_;
  bool drops_;
  Scratch<T> factors_;
  TokenFactors<T> tokens_;
};

}  // namespace

void attention(View o, View normaliser, View q, View k, View v, const View* keep, AttentionOptions options) {
  const Inputs in{q, k, v, keep, options};
  const int64_t blocks = (in.queries() + kBlock - 1) / kBlock;
  dispatch_floating(q.dtype, [&]<class T>(T) {
    parallel_for(in.heads() * blocks, in.grain(kBlock), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        Head<T>(in, task / blocks).forward(task % blocks * kBlock, o, normaliser);
      }
    });
  });
}

void attention_backward(View dq, View dk, View dv, View d_o, View o, View normaliser, View q, View k, View v,
                        const View* keep, AttentionOptions options) {
  const Inputs in{q, k, v, keep, options};
  dispatch_floating(q.dtype, [&]<class T>(T) {
    parallel_for(in.heads(), in.grain(in.queries()), [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) Head<T>(in, head).backward(dq, dk, dv, d_o, o, normaliser);
    });
  });
}

void fill_attention(Backend& table) {
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
