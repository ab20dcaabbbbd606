#pragma once

#include <type_traits>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>

/// Loops over the rows of heads [B, H, N, D], which are short. A thread group of some lanes takes kRowBatch tokens of
/// one head at a time, and issues their loads together to hide the latency. Each lane has packs of neighbouring
/// columns.

namespace linnet::cuda {

constexpr int kRowBatch = 4;  ///< tokens that a thread group takes at a time

/// The type in which the lanes' partial sums of a row are added: float for bfloat16, otherwise double.
template <class E>
using JoinedIn = std::conditional_t<std::is_same_v<E, BFloat16>, float, double>;

/// [B, H, N, D] with unit stride in D.
template <class E>
struct HeadRows : HeadsView<E> {
  bool packed;  ///< whether all rows consist of aligned packs

  explicit HeadRows(const View& x) : HeadsView<E>(x), packed(x.shape[3] % kPack == 0 && is_packed(data<E>(x), 1)) {
    for (int d = 0; d < 3; ++d) packed = packed && x.strides[d] % kPack == 0;
  }
};

/// The sizes of [B, H, N, D].
struct HeadSizes {
  int64_t batch, heads, tokens, width;

  explicit HeadSizes(const View& x) : batch(x.shape[0]), heads(x.shape[1]), tokens(x.shape[2]), width(x.shape[3]) {}
};

/// One pack for each of a thread's tokens.
template <class T>
struct RowPacks {
  Pack<T> of[kRowBatch] = {};
};

/// A thread's tokens in one task. The thread holds packs of their rows.
template <class ThreadGroup>
struct RowBatch {
  static constexpr int kTokens = kRowBatch * ThreadGroup::rows;  ///< tokens of a task

  int64_t b, h;
  int64_t first, row;  ///< the first token: its index within its head, and among the tokens of all heads
  bool has[kRowBatch];

  __host__ __device__ static int64_t tasks(const HeadSizes& all) {
    return all.batch * all.heads * ceil_div(all.tokens, kTokens);
  }

  __device__ RowBatch(const HeadSizes& all, int64_t task) : width_(all.width) {
    const int64_t chunks = ceil_div(all.tokens, kTokens), head = task / chunks;
    b = head / all.heads;
    h = head % all.heads;
    first = task % chunks * kTokens + threadIdx.x / ThreadGroup::size;
    row = head * all.tokens + first;
    const auto left = static_cast<int>(min(all.tokens - first, int64_t{kTokens}));
#pragma unroll
    for (int j = 0; j < kRowBatch; ++j) has[j] = j * ThreadGroup::rows < left;
  }

  __device__ int64_t token(int j) const { return first + j * ThreadGroup::rows; }
  /// The column where this thread's first pack begins.
  __device__ static int64_t column() { return int64_t{ThreadGroup::lane()} * kPack; }

  /// Calls f(c) for the columns c of this thread's further packs, in rows wider than one pack per lane.
  template <class F>
  __device__ void for_further_packs(F f) const {
    if constexpr (ThreadGroup::size == kWarp) {
      for (int64_t c = column() + kWarp * kPack; c < width_; c += kWarp * kPack) f(c);
    }
  }

  /// The columns of the pack at c that lie within the row.
  __device__ int columns(int64_t c) const {
    return static_cast<int>(max(min(width_ - c, int64_t{kPack}), int64_t{0}));
  }

  /// The packs at column c, as T. Elements beyond the end of the row are 0. Tokens that are not `wanted` are 0, and
  /// are not read.
  template <class T, class E>
  __device__ RowPacks<T> load(const HeadRows<E>& x, const bool (&wanted)[kRowBatch], int64_t c) const {
    using Value = std::remove_const_t<E>;
    const E* from = x.at(b, h, first) + c;
    const int64_t step = ThreadGroup::rows * x.row_stride;
    const int count = columns(c);
    RowPacks<T> y;
    if (x.packed) {
      RowPacks<Value> loaded;
#pragma unroll
      for (int j = 0; j < kRowBatch; ++j) {
        if (wanted[j] && count > 0) loaded.of[j] = *reinterpret_cast<const Pack<Value>*>(from + j * step);
      }
#pragma unroll
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) y.of[j].of[k] = static_cast<T>(loaded.of[j].of[k]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) {
          if (wanted[j] && k < count) y.of[j].of[k] = static_cast<T>(from[j * step + k]);
        }
      }
    }
    return y;
  }

  /// Stores the packs at column c of the tokens that exist.
  template <class T, class E>
  __device__ void store(const HeadRows<E>& y, int64_t c, const RowPacks<T>& x) const {
    E* to = y.at(b, h, first) + c;
    const int64_t step = ThreadGroup::rows * y.row_stride;
    const int count = columns(c);
#pragma unroll
    for (int j = 0; j < kRowBatch; ++j) {
      Pack<E> rounded;
      for (int k = 0; k < kPack; ++k) rounded.of[k] = static_cast<E>(x.of[j].of[k]);
      if (y.packed) {
        if (has[j] && count > 0) *reinterpret_cast<Pack<E>*>(to + j * step) = rounded;
      } else {
        for (int k = 0; k < kPack; ++k) {
          if (has[j] && k < count) to[j * step + k] = rounded.of[k];
        }
      }
    }
  }

  /// Adds up each row's sums over the lanes, and multiplies by `factor`.
  template <class Sum, class T>
  __device__ static void reduce(T (&x)[kRowBatch], Sum factor = 1) {
#pragma unroll
    for (int j = 0; j < kRowBatch; ++j)
      x[j] = static_cast<T>(ThreadGroup::reduce(static_cast<Sum>(x[j]), Plus()) * factor);
  }

 private:
  int64_t width_;
};

/// Calls `f` with the thread group for rows of `width` columns.
template <class F>
void for_row_group(int64_t width, F&& f) {
  if (width <= 8 * kPack) return f(ThreadGroup<8>());
  if (width <= 16 * kPack) return f(ThreadGroup<16>());
  f(ThreadGroup<kWarp>());
}

}  // namespace linnet::cuda
