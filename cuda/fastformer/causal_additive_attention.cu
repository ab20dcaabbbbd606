#include <cmath>

#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastformer/additive_attention.cuh>
#include <linnet/cuda/fastformer/row_lanes.cuh>

/// Additive attention (Wu et al. 2021, eqs. 3–6) that is causal, or with heads too wide for additive_attention.cu.
/// Time and memory are linear in the tokens. It consists of two stages of attention pooling, with a pass over the
/// tokens before each stage and after both. Memory bounds it. A single fused pass per stage would read each column
/// once; this reads it about three times. Tensors of tokens have elements of type E. All else has type T: float for
/// bfloat16, otherwise E.

namespace linnet::cuda {
namespace {

/// A view [B, H, N, D] with any strides, or [B, H, N], for which D is 1. If N is 1, its stride is 0, so that all
/// tokens share the values.
template <class T>
struct StridedHeads {
  T* data;
  int64_t stride[4];

  explicit StridedHeads(const View& x) : data(static_cast<T*>(x.data)) {
    for (int d = 0; d < 4; ++d) stride[d] = d < x.rank ? x.strides[d] : 0;
    if (x.shape[2] == 1) stride[2] = 0;
  }
  StridedHeads(T* elements, int64_t batch, int64_t head, int64_t token, int64_t column)
      : data(elements), stride{batch, head, token, column} {}

  __device__ T& operator()(int64_t b, int64_t h, int64_t i, int64_t d = 0) const {
    return data[b * stride[0] + h * stride[1] + i * stride[2] + d * stride[3]];
  }
};

/// The arguments of all kernels.
template <class T, class E>
struct CausalAdditiveInputs {
  StridedHeads<const E> q, k, v;
  const T *w_q, *w_k;
  int64_t w_q_stride[2], w_k_stride[2];
  PaddingMask padding_mask;
  int64_t batch, heads, tokens, width;
  T scale, kept_factor;
  bool adds, causal, drops;
  uint64_t threshold;
  LiveKey dropout_rng[2];

  explicit CausalAdditiveInputs(const AdditiveAttentionInputs& given)
      : q(given.q),
        k(given.k),
        v(given.v),
        w_q(data<const T>(given.w_q)),
        w_k(data<const T>(given.w_k)),
        w_q_stride{given.w_q.strides[0], given.w_q.strides[1]},
        w_k_stride{given.w_k.strides[0], given.w_k.strides[1]},
        padding_mask(given.padding_mask),
        batch(given.q.shape[0]),
        heads(given.q.shape[1]),
        tokens(given.q.shape[2]),
        width(given.q.shape[3]),
        scale(static_cast<T>(width > 0 ? 1 / std::sqrt(static_cast<double>(width)) : 1)),
        kept_factor(static_cast<T>(1 / (1 - given.dropout))),
        adds(given.add),
        causal(given.causal),
        drops(given.dropout > 0),
        threshold(keep_threshold(1 - given.dropout)),
        dropout_rng{given.dropout_rng[0], given.dropout_rng[1]} {}

  __host__ __device__ int64_t rows() const { return batch * heads * tokens; }
  int64_t results() const { return causal ? tokens : 1; }
  /// Dropout's factor of a token's weight in a stage: 0 or 1 / (1 − rate); 1 without dropout.
  __device__ T factor(int stage, int64_t row) const {
    if (!drops) return 1;
    return random_word(dropout_rng[stage], static_cast<uint64_t>(row)) < threshold ? kept_factor : T{0};
  }
  /// The vector that a stage pools: q_i in stage 0; in stage 1 p_i = q ∘ k_i (with `add` q + k_i), with the global
  /// query q.
  __device__ T value(int stage, const StridedHeads<T>& global_query, int64_t b, int64_t h, int64_t i,
                     int64_t d) const {
    if (stage == 0) return static_cast<T>(q(b, h, i, d));
    const T g = global_query(b, h, i, d), x = static_cast<T>(k(b, h, i, d));
    return adds ? g + x : g * x;
  }
  /// Element d of w/√D.
  __device__ T weight(int stage, int64_t h, int64_t d) const {
    return scale *
           (stage == 0 ? w_q[h * w_q_stride[0] + d * w_q_stride[1]] : w_k[h * w_k_stride[0] + d * w_k_stride[1]]);
  }
};

/// One token of one head: row `row` of [B, H, N] in row-major order.
struct Token {
  int64_t b, h, i;

  template <class T, class E>
  __device__ Token(const CausalAdditiveInputs<T, E>& in, int64_t row) {
    i = take_inner(row, in.tokens);
    h = take_inner(row, in.heads);
    b = row;
  }
};

/// A contiguous tensor in scratch memory or in `pools`.
template <class T>
struct Dense {
  int64_t shape[4], strides[4];
  T* data;

  Dense(T* elements, int64_t batch_stride, int64_t batch, int64_t heads, int64_t tokens, int64_t width)
      : shape{batch, heads, tokens, width}, strides{batch_stride, tokens * width, width, 1}, data(elements) {}

  View rank4() const { return {data, dtype_of<T>, 4, shape, strides}; }
  View rank3() const { return {data, dtype_of<T>, 3, shape, strides}; }
  StridedHeads<T> columns() const { return StridedHeads<T>(rank4()); }
};

/// A stage's results in `pools`, `size` elements for each sequence: the pooled vectors, and the maximum and sum of
/// their softmax.
template <class T>
struct StageResults {
  Dense<T> out, maximum, total;

  static int64_t size(int64_t heads, int64_t results, int64_t width) { return heads * results * (width + 2); }

  template <class E>
  StageResults(const CausalAdditiveInputs<T, E>& in, const View& pools, int index)
      : StageResults(in, data<T>(pools) + index * in.batch * size(in.heads, in.results(), in.width)) {}

 private:
  template <class E>
  StageResults(const CausalAdditiveInputs<T, E>& in, T* base)
      : out(base, step(in), in.batch, in.heads, in.results(), in.width),
        maximum(base + in.heads * in.results() * in.width, step(in), in.batch, in.heads, in.results(), 1),
        total(base + in.heads * in.results() * (in.width + 1), step(in), in.batch, in.heads, in.results(), 1) {}
  template <class E>
  static int64_t step(const CausalAdditiveInputs<T, E>& in) {
    return size(in.heads, in.results(), in.width);
  }
};

/// Scratch memory with a row for each token: [B, H, N, width].
template <class T>
struct TokenScratch {
  Scratch<T> memory;
  Dense<T> dense;

  template <class E>
  TokenScratch(const CausalAdditiveInputs<T, E>& in, int64_t width)
      : memory(in.rows() * width),
        dense(memory.data(), in.heads * in.tokens * width, in.batch, in.heads, in.tokens, width) {}
};

/// Computes each token's score w·x_i/√D, and x_i times its dropout factor, which is then pooled. A few lanes take one
/// token. Padding is 0, and is not read.
template <class T, class E>
__global__ void score_tokens(CausalAdditiveInputs<T, E> in, int stage, int lanes, StridedHeads<T> global_query,
                             T* scores, T* pooled) {
  for_rows(in.rows(), lanes, [&](int64_t row, int lane, bool exists) {
    const Token at(in, row);
    const bool kept = exists && in.padding_mask.has(at.b, at.i);
    const T factor = in.factor(stage, row);
    T score = 0;
    for (int64_t first = lane; exists && first < in.width; first += int64_t{kPack} * lanes) {
      T x[kPack];
#pragma unroll
      for (int c = 0; c < kPack; ++c) {
        const int64_t d = first + c * lanes;
        x[c] = kept && d < in.width ? in.value(stage, global_query, at.b, at.h, at.i, d) : T{0};
      }
#pragma unroll
      for (int c = 0; c < kPack; ++c) {
        const int64_t d = first + c * lanes;
        if (d >= in.width) continue;
        pooled[row * in.width + d] = x[c] * factor;
        score += in.weight(stage, at.h, d) * x[c];  // exponent of [Fastformer eq.3], of [Fastformer eq.5]
      }
    }
    const double sum = sum_of_row(static_cast<double>(score), lanes);
    if (exists && lane == 0) scores[row] = static_cast<T>(sum);
  });
}

/// u_i = k ∘ v_i (with `add` k + v_i) with the global key k; 0 if the sum of k has no token.
template <class T, class E>
__global__ void finish(CausalAdditiveInputs<T, E> in, StridedHeads<T> global_key, StridedHeads<T> total,
                       StridedHeads<E> u) {
  for (int64_t e = first_item(); e < in.rows() * in.width; e += item_step()) {
    int64_t row = e;
    const int64_t d = take_inner(row, in.width);
    const Token at(in, row);
    const T g = global_key(at.b, at.h, at.i, d), x = static_cast<T>(in.v(at.b, at.h, at.i, d));
    u(at.b, at.h, at.i, d) = total(at.b, at.h, at.i) == 0 ? T{0} : in.adds ? g + x : g * x;
  }
}

/// The gradient of `finish`: `dv`, of type D, and each token's part of the global key's gradient.
template <class T, class E, class D>
__global__ void finish_backward(CausalAdditiveInputs<T, E> in, StridedHeads<T> global_key, StridedHeads<T> total,
                                StridedHeads<const E> du, T* dglobal, StridedHeads<D> dv) {
  for (int64_t e = first_item(); e < in.rows() * in.width; e += item_step()) {
    int64_t row = e;
    const int64_t d = take_inner(row, in.width);
    const Token at(in, row);
    const T g = total(at.b, at.h, at.i) == 0 ? T{0} : static_cast<T>(du(at.b, at.h, at.i, d));
    const T x = in.adds || g == 0 ? T{1} : static_cast<T>(in.v(at.b, at.h, at.i, d));
    dglobal[e] = g * x;
    dv(at.b, at.h, at.i, d) = in.adds ? g : g * global_key(at.b, at.h, at.i, d);
  }
}

/// The gradient of score_tokens: turns `dpooled` into the gradient of x_i, and writes each token's part of w's
/// gradient.
template <class T, class E>
__global__ void pooled_backward(CausalAdditiveInputs<T, E> in, int stage, StridedHeads<T> global_query,
                                const T* dscores, T* dpooled, T* dw) {
  for (int64_t e = first_item(); e < in.rows() * in.width; e += item_step()) {
    int64_t row = e;
    const int64_t d = take_inner(row, in.width);
    const Token at(in, row);
    if (!in.padding_mask.has(at.b, at.i)) {
      dpooled[e] = 0;
      dw[e] = 0;
      continue;
    }
    const T ds = dscores[row];
    dpooled[e] = dpooled[e] * in.factor(stage, row) + ds * in.weight(stage, at.h, d);
    dw[e] = ds * in.scale * in.value(stage, global_query, at.b, at.h, at.i, d);
  }
}

/// Computes from the gradient of p_i = q ∘ k_i `dk` and each token's part of the global query's gradient. Padding is
/// not read.
template <class T, class E>
__global__ void keys_backward(CausalAdditiveInputs<T, E> in, StridedHeads<T> global_query, const T* dp, T* dglobal,
                              StridedHeads<E> dk) {
  for (int64_t e = first_item(); e < in.rows() * in.width; e += item_step()) {
    int64_t row = e;
    const int64_t d = take_inner(row, in.width);
    const Token at(in, row);
    const bool kept = in.padding_mask.has(at.b, at.i);
    const T g = dp[e];
    dglobal[e] = in.adds ? g : kept ? g * static_cast<T>(in.k(at.b, at.h, at.i, d)) : T{0};
    dk(at.b, at.h, at.i, d) = in.adds ? g : kept ? g * global_query(at.b, at.h, at.i, d) : T{0};
  }
}

/// dq = the gradient of stage 0, plus dv if queries and values are shared.
template <class T, class E>
__global__ void queries_backward(CausalAdditiveInputs<T, E> in, const T* dvalue, const T* dv, StridedHeads<E> dq) {
  for (int64_t e = first_item(); e < in.rows() * in.width; e += item_step()) {
    int64_t row = e;
    const int64_t d = take_inner(row, in.width);
    const Token at(in, row);
    dq(at.b, at.h, at.i, d) = dvalue[e] + (dv == nullptr ? T{0} : dv[e]);
  }
}

/// Forward and backward of one call.
template <class T, class E>
class AdditiveAttention {
 public:
  AdditiveAttention(const AdditiveAttentionInputs& given, const View& pools)
      : in_(given), padding_mask_(given.padding_mask), query_(in_, pools, 0), key_(in_, pools, 1) {}

  void forward(const View& u) const {
    const TokenScratch<T> scores(in_, 1), pooled(in_, in_.width);
    for (const int stage : {0, 1}) {
      score(stage, scores, pooled);
      const StageResults<T>& to = stage == 0 ? query_ : key_;
      // [Fastformer eq.3] [Fastformer eq.4], in stage 1 [Fastformer eq.5] [Fastformer eq.6]
      cuda_backend().attention_pool(to.out.rank4(), to.maximum.rank3(), to.total.rank3(), scores.dense.rank3(),
                                    pooled.dense.rank4(), padding_mask_, in_.causal);
    }
    launch(finish<T, E>, blocks(), kThreads, in_, key_.out.columns(), key_.total.columns(), StridedHeads<E>(u));
  }

  void backward(const AdditiveAttentionGradients& out, const View& du) const {
    const TokenScratch<T> dglobal(in_, in_.width), dvalue(in_, in_.width);
    const bool shared = out.dv == nullptr;
    const TokenScratch<T> own_dv(in_, shared ? in_.width : 0);
    if (shared) {
      differentiate_result(du, dglobal, own_dv.dense.columns());
    } else {
      differentiate_result(du, dglobal, StridedHeads<E>(*out.dv));
    }
    stage_backward(1, dglobal, dvalue, out.dw_k);
    launch(keys_backward<T, E>, blocks(), kThreads, in_, query_.out.columns(), dvalue.memory.data(),
           dglobal.memory.data(), StridedHeads<E>(out.dk));
    stage_backward(0, dglobal, dvalue, out.dw_q);
    launch(queries_backward<T, E>, blocks(), kThreads, in_, dvalue.memory.data(), own_dv.memory.data(),
           StridedHeads<E>(out.dq));
  }

 private:
  int64_t blocks() const { return blocks_for(in_.rows() * in_.width); }

  template <class D>
  void differentiate_result(const View& du, const TokenScratch<T>& dglobal, const StridedHeads<D>& dv) const {
    launch(finish_backward<T, E, D>, blocks(), kThreads, in_, key_.out.columns(), key_.total.columns(),
           StridedHeads<const E>(du), dglobal.memory.data(), dv);
  }

  void score(int stage, const TokenScratch<T>& scores, const TokenScratch<T>& pooled) const {
    const int lanes = lanes_for(in_.width);
    launch(score_tokens<T, E>, blocks_for(in_.rows() * lanes), kThreads, in_, stage, lanes, query_.out.columns(),
           scores.memory.data(), pooled.memory.data());
  }

  /// The gradient of a stage: computes from each token's part of the gradient of its result the gradients `dvalue` of
  /// the vectors that it pools, and that of w.
  void stage_backward(int stage, const TokenScratch<T>& dglobal, const TokenScratch<T>& dvalue,
                      const View& dw) const {
    const StageResults<T>& from = stage == 0 ? query_ : key_;
    const TokenScratch<T> scores(in_, 1), dscores(in_, 1), pooled(in_, in_.width);
    const Scratch<T> sum(in_.causal ? 0 : in_.batch * in_.heads * in_.width);
    const Dense<T> total(sum.data(), in_.heads * in_.width, in_.batch, in_.heads, 1, in_.width);
    if (!in_.causal) cuda_backend().reduce(Reduce::sum, total.rank4(), dglobal.dense.rank4());
    score(stage, scores, pooled);
    // Gradient of [Fastformer eq.3] [Fastformer eq.4], in stage 1 of [Fastformer eq.5] [Fastformer eq.6].
    cuda_backend().attention_pool_backward(dscores.dense.rank3(), dvalue.dense.rank4(),
                                           in_.causal ? dglobal.dense.rank4() : total.rank4(), from.out.rank4(),
                                           from.maximum.rank3(), from.total.rank3(), scores.dense.rank3(),
                                           pooled.dense.rank4(), padding_mask_, in_.causal);
    // `pooled` is no longer needed, so its memory is used for the tokens' parts of dw.
    launch(pooled_backward<T, E>, blocks(), kThreads, in_, stage, query_.out.columns(), dscores.memory.data(),
           dvalue.memory.data(), pooled.memory.data());
    const int64_t shape[] = {1, in_.heads, 1, in_.width}, strides[] = {0, dw.strides[0], 0, dw.strides[1]};
    cuda_backend().reduce(Reduce::sum, {dw.data, dw.dtype, 4, shape, strides}, pooled.dense.rank4());
  }

  CausalAdditiveInputs<T, E> in_;
  const View* padding_mask_;
  StageResults<T> query_, key_;
};

int64_t additive_attention_pools(int64_t heads, int64_t tokens, int64_t width, bool causal) {
  if (is_whole_additive(heads, width, causal)) return whole_additive_pools(heads, width);
  return StageResults<double>::size(heads, causal ? tokens : 1, width);
}

void additive_attention(View u, View pools, AdditiveAttentionInputs in) {
  if (is_whole_additive(u.shape[1], u.shape[3], in.causal)) return whole_additive_attention(u, pools, in);
  dispatch_computed(u.dtype, [&](auto element, auto computed) {
    AdditiveAttention<decltype(computed), decltype(element)>(in, pools).forward(u);
  });
}

void additive_attention_backward(AdditiveAttentionGradients out, View du, View pools, AdditiveAttentionInputs in) {
  if (is_whole_additive(du.shape[1], du.shape[3], in.causal)) {
    return whole_additive_attention_backward(out, du, pools, in);
  }
  dispatch_computed(du.dtype, [&](auto element, auto computed) {
    AdditiveAttention<decltype(computed), decltype(element)>(in, pools).backward(out, du);
  });
}

}  // namespace

void fill_additive_attention(Backend& table) {
  table.additive_attention_pools = additive_attention_pools;
  table.additive_attention = additive_attention;
  table.additive_attention_backward = additive_attention_backward;
}

}  // namespace linnet::cuda
