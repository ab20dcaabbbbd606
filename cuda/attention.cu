#include <algorithm>

#include <linnet/cuda/first_queries.cuh>
#include <linnet/cuda/group.cuh>
#include <linnet/cuda/heads.cuh>
#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/math.cuh>
#include <linnet/cuda/random_byte.cuh>
#include <linnet/cuda/recording.cuh>
#include <linnet/cuda/scratch.cuh>
#include <linnet/cuda/standardise.cuh>
#include <linnet/cuda/tile.cuh>

/// Quadratic attention, tile by tile of queries and keys: softmax (Vaswani et al. 2017, eq. 1) and the polynomial
/// weights of Fastmax (Gerami et al. 2024, eqs. 7–9) in one skeleton. Scores stay in registers and shared memory,
/// with the running maximum and sum of Milakov & Gimelshein 2018, as in FlashAttention (Dao et al. 2022). A block
/// makes up to kTile columns of its result; wider heads take several blocks, which work out the scores anew. Backward
/// has one kernel for dk and dv and one for dq, so that every sum has a fixed order and needs no atomics.
///
/// The loops over parts are unrolled, so that those stay in registers. What bounds all: multiplications, by tensor
/// cores in bfloat16 alone: 4·N·M·D forward, 14·N·M·D backward (half when causal).

namespace linnet::cuda {
namespace {

/// What all kernels read.
template <class T>
struct Problem {
  Heads<const T> q, k, v;
  const bool* keep;
  int64_t keep_batch_stride = 0, keep_stride = 0;
  int64_t batch, heads, queries, keys, width;
  T scale, a0, a1, a2, kept_factor;
  bool softmax, causal, drops;
  uint64_t threshold;
  int keep_tokens;
  bool shared_normaliser;
  LiveKey key, query_key, key_key;
  FirstQuery first_query;

  Problem(const View& q_view, const View& k_view, const View& v_view, const View* keep_view,
          const AttentionOptions& options, const FirstQueries& first_queries)
      : q(q_view),
        k(k_view),
        v(v_view),
        keep(data<const bool>(keep_view)),
        batch(q_view.shape[0]),
        heads(q_view.shape[1]),
        queries(q_view.shape[2]),
        keys(k_view.shape[2]),
        width(q_view.shape[3]),
        scale(static_cast<T>(options.scale)),
        a0(static_cast<T>(options.kind.a0)),
        a1(static_cast<T>(options.kind.a1)),
        a2(static_cast<T>(options.kind.a2)),
        kept_factor(static_cast<T>(1 / (1 - options.dropout))),
        softmax(options.kind.softmax),
        causal(options.causal),
        drops(options.dropout > 0),
        threshold(keep_threshold(1 - options.dropout)),
        keep_tokens(options.tokens.keep),
        shared_normaliser(options.tokens.shared_normaliser),
        key(options.key),
        query_key(options.tokens.query_key),
        key_key(options.tokens.key_key),
        first_query(first_queries.of()) {
    if (keep_view == nullptr) return;
    keep_batch_stride = keep_view->strides[0];
    keep_stride = keep_view->strides[1];
  }

  int64_t query_tiles() const { return ceil_div(queries, kTile<T>); }
  int64_t key_tiles() const { return ceil_div(keys, kTile<T>); }

  /// Whether whole queries and keys are dropped, and the factors, 0 or 256/keep, of query `i` and key `j`: the bytes
  /// that the CPU's factorised form draws.
  __host__ __device__ bool drops_tokens() const { return !softmax && keep_tokens % 256 != 0; }
  __device__ T query_factor(int64_t head, int64_t i) const { return token_factor(query_key, head, i + lag()); }
  __device__ T key_factor(int64_t head, int64_t j) const { return token_factor(key_key, head, j); }

  /// The keys that query `i` sees are those before this, without padding.
  __device__ int64_t visible(int64_t i) const {
    if (i >= queries) return 0;
    return causal ? min(max(i + 1 + keys - queries, int64_t{0}), keys) : keys;
  }
  __device__ int64_t visible_to_tile(int64_t first) const { return visible(min(first + kTile<T>, queries) - 1); }

 private:
  /// Where the first query is, counted as keys are.
  __device__ int64_t lag() const { return causal ? keys - queries : 0; }
  __device__ T token_factor(RandomKey stream, int64_t head, int64_t position) const {
    const int64_t first = min(lag(), int64_t{0}), positions = max(keys, queries + lag()) - first;
    const int64_t index = head * (ceil_div(positions, 64) * 64) + position - first;
    return random_byte(stream, index) < keep_tokens ? static_cast<T>(256.0 / keep_tokens) : T{0};
  }
};

/// Blocks that share the columns of a tile of results; one even without columns.
template <class T>
int64_t chunks_of(int64_t width) {
  return std::max(ceil_div(width, kTile<T>), int64_t{1});
}

/// One head, some rows, some columns: what a block makes at a time.
template <class T>
struct Task {
  int64_t head, b, h, first, column;

  __device__ Task(const Problem<T>& in, int64_t index, int64_t tiles, int64_t chunks)
      : head(index / chunks / tiles),
        b(head / in.heads),
        h(head % in.heads),
        first(index / chunks % tiles * kTile<T>),
        column(index % chunks * kTile<T>) {}

  template <class U>
  __device__ Rows<U> rows(const Heads<U>& x, int64_t count, int64_t width) const {
    return {x.at(b, h, 0), x.row_stride, 0, count, width, nullptr, 0};
  }
  __device__ Rows<const T> queries(const Problem<T>& in, const Heads<const T>& x) const {
    Rows<const T> result = rows(x, in.queries, in.width);
    result.begin = in.first_query.of(b);
    return result;
  }
  __device__ Rows<const T> keys(const Problem<T>& in, const Heads<const T>& x) const {
    Rows<const T> result = rows(x, in.keys, in.width);
    if (in.keep != nullptr) {
      result.keep = in.keep + b * in.keep_batch_stride;
      result.keep_stride = in.keep_stride;
    }
    return result;
  }
};

/// 0 or 1 / (1 − rate) for the weights of a row, in which neighbours share a block of random words.
template <class T>
class Dropout {
 public:
  __device__ Dropout(const Problem<T>& in, int64_t head, int64_t i)
      : in_(in), row_(static_cast<uint64_t>((head * in.queries + i) * in.keys)) {}

  __device__ T factor(int64_t j) {
    const uint64_t index = row_ + static_cast<uint64_t>(j);
    if (index / 4 != number_) {
      number_ = index / 4;
      words_ = philox(in_.key, number_);
    }
    // Not word[index % 4], which would move the words to memory.
    const uint32_t low = index % 2 == 0 ? words_.word[0] : words_.word[1];
    const uint32_t high = index % 2 == 0 ? words_.word[2] : words_.word[3];
    return (index % 4 < 2 ? low : high) < in_.threshold ? in_.kept_factor : T{0};
  }

 private:
  const Problem<T>& in_;
  uint64_t row_, number_ = ~uint64_t{0};
  PhiloxBlock words_;
};

/// Writes a part of the result: rows first …, columns column …, those that there are.
template <class T, class Value>
__device__ void store_part(const Rows<T>& x, int64_t first, int64_t column, Value value) {
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const int64_t i = first + part_row<T>() + r, d = column + part_column<T>() + c;
      if (i < x.count && d < x.width) x.data[i * x.stride + d] = value(r, c, i);
    }
  }
}

// ---- Forward ----

/// Turns the products q·k of a part into weights, and brings the maximum and the sum of each row up to date. Returns
/// in `fade` by how much what was summed so far has to shrink.
template <class T>
__device__ void weigh(const Problem<T>& in, const Rows<const T>& k, int64_t head, int64_t first_query,
                      int64_t first_key, Part<T>& s, T* maximum, T* total, T* fade) {
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
    const int64_t i = first_query + part_row<T>() + r, visible = in.visible(i);
    bool sees[kPart<T>];
    T largest = -infinity<T>();
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const int64_t j = first_key + part_column<T>() + c;
      sees[c] = j < visible && k.has(j);
      s.of[r][c] *= in.scale;
      if (sees[c] && s.of[r][c] > largest) largest = s.of[r][c];
    }
    fade[r] = 1;
    T base = 0;
    if (in.softmax) {
      largest = Larger()(maximum[r], fold_lanes<kSide>(largest, Larger()));
      base = largest == -infinity<T>() ? T{0} : largest;
      fade[r] = exp(maximum[r] - base);
      maximum[r] = largest;
    }
    const bool drops_tokens = in.drops_tokens() && i < in.queries;
    const T query_factor = drops_tokens ? in.query_factor(head, i) : T{1};
    T sum = 0;
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const T score = s.of[r][c], rest = score * (in.a1 + score * in.a2);
      T weight = in.softmax ? exp(score - base) : in.a0 + rest;
      T summed = weight;
      if (drops_tokens && sees[c]) {
        weight = in.a0 + rest * (query_factor * in.key_factor(head, first_key + part_column<T>() + c));
        if (in.shared_normaliser) summed = weight;
      }
      s.of[r][c] = sees[c] ? weight : T{0};
      sum += sees[c] ? summed : T{0};
    }
    total[r] = total[r] * fade[r] + fold_lanes<kSide>(sum, Plus());
    if (in.drops) {
      Dropout<T> dropout(in, head, i);
#pragma unroll
      for (int c = 0; c < kPart<T>; ++c) s.of[r][c] *= dropout.factor(first_key + part_column<T>() + c);
    }
  }
}

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij), with s_ij = scale · q_i·k_j
template <class T, class S>
__global__ void __launch_bounds__(kThreads)
    attend(Problem<T> in, Heads<T> o, T* normaliser, int64_t tiles, int64_t chunks) {
  __shared__ Tiles<S> shared;
  for (int64_t index = blockIdx.x; index < in.batch * in.heads * tiles * chunks; index += gridDim.x) {
    const Task<T> task(in, index, tiles, chunks);
    const Rows<const T> q = task.queries(in, in.q), k = task.keys(in, in.k), v = task.keys(in, in.v);
    Part<T> sum;
    T maximum[kPart<T>], total[kPart<T>], fade[kPart<T>];
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      maximum[r] = -infinity<T>();
      total[r] = 0;
    }
    for (int64_t key = 0; key < in.visible_to_tile(task.first); key += kTile<T>) {
      Part<T> weights = products_of_rows(shared, q, task.first, k, key);
      weigh(in, k, task.head, task.first, key, weights, maximum, total, fade);
#pragma unroll
      for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
        for (int c = 0; c < kPart<T>; ++c) {
          sum.of[r][c] *= fade[r];
          shared.a[part_column<T>() + c][part_row<T>() + r] = weights.of[r][c];
        }
      }
      load_tile(shared.b, v, key, task.column);
      __syncthreads();
      if (key + kTile<T> <= in.visible(task.first)) {
        add_product(sum, shared.a, shared.b, kTile<T>);
      } else {  // what a row does not see is not read for it: not even an infinity comes back from the future
        add_product(sum, shared.a, shared.b, kTile<T>,
                    [&](int j, int r) { return key + j < in.visible(task.first + part_row<T>() + r); });
      }
      __syncthreads();  // before the next tile of keys takes the place of this one
    }
    store_part(task.rows(o, in.queries, in.width), task.first, task.column,
               [&](int r, int c, int64_t) { return total[r] == 0 ? T{0} : sum.of[r][c] / total[r]; });
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      const int64_t i = task.first + part_row<T>() + r;
      if (task.column > 0 || part_column<T>() > 0 || i >= in.queries) continue;
      normaliser[task.head * in.queries + i] = in.softmax ? maximum[r] + log(total[r]) : total[r];
    }
  }
}

// ---- Backward ----

/// What the backward kernels read besides.
template <class T>
struct Cotangents {
  Heads<const T> d_o, o;
  const T* normaliser;
  T* delta;  ///< [B, H, N]: d_o·o
};

/// A warp for each row.
template <class T>
__global__ void find_deltas(Problem<T> in, Cotangents<T> from) {
  using Warp = Group<kWarp>;
  for (int64_t row = Warp::first_row(); row < in.batch * in.heads * in.queries; row += Warp::row_step()) {
    const int64_t head = row / in.queries, i = row % in.queries, b = head / in.heads, h = head % in.heads;
    const T* g = from.d_o.at(b, h, i);
    const T* y = from.o.at(b, h, i);
    const double delta = Warp::sum<T>(in.width, [=](int64_t d) { return g[d] * y[d]; });
    if (Warp::lane() == 0) from.delta[row] = static_cast<T>(delta);
  }
}

/// Turns the products s = q·k of a part into its weights p (with dropout), and its products ds = d_o·v into the
/// gradients of the products q·k.
///   softmax:     ∂s_j = p_j (d_o·v_j − delta)
///   polynomial:  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g
/// With dropout of whole tokens, whose factors make up c_j, d_o·v_j is multiplied by c_j, and delta too where the
/// denominator g saw the factors.
template <class T>
__device__ void score_gradients(const Problem<T>& in, const Cotangents<T>& from, const Rows<const T>& k, int64_t head,
                                int64_t first_query, int64_t first_key, Part<T>& s, Part<T>& ds) {
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
    const int64_t i = first_query + part_row<T>() + r, visible = in.visible(i);
    const bool there = i < in.queries;
    const T normaliser = there ? from.normaliser[head * in.queries + i] : T{1};
    const T delta = there ? from.delta[head * in.queries + i] : T{0};
    const bool drops_tokens = in.drops_tokens() && there;
    const T query_factor = drops_tokens ? in.query_factor(head, i) : T{1};
    Dropout<T> dropout(in, head, i);
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const int64_t j = first_key + part_column<T>() + c;
      if (j >= visible || !k.has(j)) {
        s.of[r][c] = 0;
        ds.of[r][c] = 0;
        continue;
      }
      const T factor = in.drops ? dropout.factor(j) : T{1};
      const T score = s.of[r][c] * in.scale;
      if (in.softmax) {
        const T weight = exp(score - normaliser);
        s.of[r][c] = weight * factor;
        ds.of[r][c] = weight * (ds.of[r][c] * factor - delta) * in.scale;
      } else {
        const T kept = drops_tokens ? query_factor * in.key_factor(head, j) : T{1};
        const T seen = in.shared_normaliser ? kept : T{1};
        const T difference = (kept * ds.of[r][c] * factor - seen * delta) * in.scale;
        s.of[r][c] = (in.a0 + score * (in.a1 + score * in.a2) * kept) / normaliser * factor;
        ds.of[r][c] = (in.a1 + 2 * in.a2 * score) * difference / normaliser;
      }
    }
  }
}

/// dk_j = sum_i ∂s_ij q_i and dv_j = sum_i p_ij d_o_i, for a tile of keys.
template <class T, class S>
__global__ void __launch_bounds__(kThreads)
    attend_backward_keys(Problem<T> in, Cotangents<T> from, Heads<T> dk, Heads<T> dv, int64_t tiles, int64_t chunks) {
  __shared__ Tiles<S> shared;
  for (int64_t index = blockIdx.x; index < in.batch * in.heads * tiles * chunks; index += gridDim.x) {
    const Task<T> task(in, index, tiles, chunks);
    const Rows<const T> q = task.queries(in, in.q), k = task.keys(in, in.k), v = task.keys(in, in.v);
    const Rows<const T> g = task.queries(in, from.d_o);
    Part<T> dk_sum, dv_sum;
    // The first query that sees any of these keys is task.first + queries − keys.
    const int64_t first = in.causal ? max(task.first + in.queries - in.keys, int64_t{0}) : 0;
    for (int64_t query = first / kTile<T> * kTile<T>; query < in.queries; query += kTile<T>) {
      Part<T> weights = products_of_rows(shared, q, query, k, task.first);
      Part<T> gradients = products_of_rows(shared, g, query, v, task.first);
      score_gradients(in, from, k, task.head, query, task.first, weights, gradients);
      const auto add = [&](Part<T>& sum, const Part<T>& factors, const Rows<const T>& x) {
#pragma unroll
        for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
          for (int c = 0; c < kPart<T>; ++c) shared.a[part_row<T>() + r][part_column<T>() + c] = factors.of[r][c];
        }
        load_tile(shared.b, x, query, task.column);
        __syncthreads();
        if (task.first + kTile<T> <= in.visible(query)) {
          add_product(sum, shared.a, shared.b, kTile<T>);
        } else {
          add_product(sum, shared.a, shared.b, kTile<T>,
                      [&](int i, int r) { return task.first + part_row<T>() + r < in.visible(query + i); });
        }
        __syncthreads();  // before the tiles are filled anew
      };
      add(dv_sum, weights, g);
      add(dk_sum, gradients, q);
    }
    store_part(task.rows(dk, in.keys, in.width), task.first, task.column,
               [&](int r, int c, int64_t j) { return k.has(j) ? dk_sum.of[r][c] : T{0}; });
    store_part(task.rows(dv, in.keys, in.width), task.first, task.column,
               [&](int r, int c, int64_t j) { return k.has(j) ? dv_sum.of[r][c] : T{0}; });
  }
}

/// dq_i = sum_j ∂s_ij k_j, for a tile of queries.
template <class T, class S>
__global__ void __launch_bounds__(kThreads)
    attend_backward_queries(Problem<T> in, Cotangents<T> from, Heads<T> dq, int64_t tiles, int64_t chunks) {
  __shared__ Tiles<S> shared;
  for (int64_t index = blockIdx.x; index < in.batch * in.heads * tiles * chunks; index += gridDim.x) {
    const Task<T> task(in, index, tiles, chunks);
    const Rows<const T> q = task.queries(in, in.q), k = task.keys(in, in.k), v = task.keys(in, in.v);
    const Rows<const T> g = task.queries(in, from.d_o);
    Part<T> sum;
    for (int64_t key = 0; key < in.visible_to_tile(task.first); key += kTile<T>) {
      Part<T> weights = products_of_rows(shared, q, task.first, k, key);
      Part<T> gradients = products_of_rows(shared, g, task.first, v, key);
      score_gradients(in, from, k, task.head, task.first, key, weights, gradients);
#pragma unroll
      for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
        for (int c = 0; c < kPart<T>; ++c) {
          shared.a[part_column<T>() + c][part_row<T>() + r] = gradients.of[r][c];
        }
      }
      load_tile(shared.b, k, key, task.column);
      __syncthreads();
      if (key + kTile<T> <= in.visible(task.first)) {
        add_product(sum, shared.a, shared.b, kTile<T>);
      } else {
        add_product(sum, shared.a, shared.b, kTile<T>,
                    [&](int j, int r) { return key + j < in.visible(task.first + part_row<T>() + r); });
      }
      __syncthreads();  // before the next tile of keys takes the place of this one
    }
    store_part(task.rows(dq, in.queries, in.width), task.first, task.column,
               [&](int r, int c, int64_t) { return sum.of[r][c]; });
  }
}

void attention(View o, View normaliser, View q, View k, View v, const View* keep, AttentionOptions options) {
  const FirstQueries first_queries(q, k, keep, options.causal);
  if (options.standardise) {
    options.standardise = false;
    const Standardised queries(q, nullptr, first_queries.of()), keys(k, keep, {});
    return attention(o, normaliser, queries.view(), keys.view(), v, keep, options);
  }
  dispatch_products(q.dtype, [&](auto zero, auto stored) {
    using T = decltype(zero);
    using S = decltype(stored);
    const Problem<T> in(q, k, v, keep, options, first_queries);
    const int64_t tiles = in.query_tiles(), chunks = chunks_of<T>(in.width);
    launch(attend<T, S>, in.batch * in.heads * tiles * chunks, kThreads, in, Heads<T>(o), data<T>(normaliser), tiles,
           chunks);
  });
}

void attention_backward(View dq, View dk, View dv, View d_o, View o, View normaliser, View q, View k, View v,
                        const View* keep, AttentionOptions options) {
  const FirstQueries first_queries(q, k, keep, options.causal);
  if (options.standardise) {
    options.standardise = false;
    const Standardised queries(q, nullptr, first_queries.of()), keys(k, keep, {});
    attention_backward(dq, dk, dv, d_o, o, normaliser, queries.view(), keys.view(), v, keep, options);
    queries.differentiate(dq);
    keys.differentiate(dk);
    return;
  }
  dispatch_products(q.dtype, [&](auto zero, auto stored) {
    using T = decltype(zero);
    using S = decltype(stored);
    const Problem<T> in(q, k, v, keep, options, first_queries);
    const int64_t heads = in.batch * in.heads, chunks = chunks_of<T>(in.width);
    const Scratch<T> delta(heads * in.queries);
    const Cotangents<T> from{Heads<const T>(d_o), Heads<const T>(o), data<const T>(normaliser), delta.data()};
    launch(find_deltas<T>, ceil_div(heads * in.queries, Group<kWarp>::rows), kThreads, in, from);
    launch(attend_backward_keys<T, S>, heads * in.key_tiles() * chunks, kThreads, in, from, Heads<T>(dk),
           Heads<T>(dv), in.key_tiles(), chunks);
    launch(attend_backward_queries<T, S>, heads * in.query_tiles() * chunks, kThreads, in, from, Heads<T>(dq),
           in.query_tiles(), chunks);
  });
}

}  // namespace

void fill_attention(Backend& table) {
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace linnet::cuda
