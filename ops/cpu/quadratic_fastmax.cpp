#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/attention.h>
#include <linnet/ops/cpu/head_rows.h>
#include <linnet/ops/cpu/kernel.h>
#include <linnet/ops/cpu/scratch.h>

/// Fastmax weight by weight (Gerami et al. 2024, eqs. 5–12): attention.cpp on standardised queries and keys. These
/// are made anew for backward, which takes less time than one more op would, and no memory in between.

namespace linnet::cpu::LINNET_ISA {
namespace {

constexpr double kEpsilon = 1e-5;
/// What an element costs, in additions.
constexpr int64_t kCost = 8;

/// y = (x − mean(x)) / std(x)                                                               Eqs. 5 and 6
template <class T, class Width>
void standardise(const T* x, T* y, T& inverse_std, Width width) {
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  T sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t d = 0; d < width; ++d) sum += x[d];
  const T mean = sum * inverse_width;
#pragma omp simd reduction(+ : squares)
  for (int64_t d = 0; d < width; ++d) {
    y[d] = x[d] - mean;
    squares += y[d] * y[d];
  }
  inverse_std = 1 / std::sqrt(squares * inverse_width + static_cast<T>(kEpsilon));
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) y[d] *= inverse_std;
}

/// From ∂y to ∂x, in place:  ∂x = (∂y − mean(∂y) − y mean(∂y ∘ y)) / std(x)
template <class T, class Width>
void standardise_backward(T* g, const T* y, T inverse_std, Width width) {
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  T sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int64_t d = 0; d < width; ++d) {
    sum += g[d];
    product += g[d] * y[d];
  }
  const T mean = sum * inverse_width, slope = product * inverse_width;
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) g[d] = (g[d] - mean - y[d] * slope) * inverse_std;
}

/// The rows of x [B, H, N, D], token by token, as they usually lie in memory.
struct TokenRows {
  const View& x;

  int64_t count() const { return x.shape[0] * x.shape[1] * x.shape[2]; }
  int64_t sequence(int64_t row) const { return row / (x.shape[1] * x.shape[2]); }
  int64_t token(int64_t row) const { return row / x.shape[1] % x.shape[2]; }
  template <class T>
  T* at(int64_t row) const {
    return head_of<T>(x, sequence(row), row % x.shape[1])[token(row)];
  }
};

/// Queries and keys, standardised, in memory as [B, N, H, D].
template <class T>
class Standardised {
 public:
  Standardised(const View& q, const View& k)
      : queries_{q},
        keys_{k},
        width_(q.shape[3]),
        rows_((queries_.count() + keys_.count()) * width_),
        inverse_(queries_.count() + keys_.count()),
        strides_{strides(q), strides(k)} {
    for_each_row([&](const TokenRows& side, int64_t row, int64_t at, auto width) {
      standardise<T>(side.at<T>(row), &rows_[at * width_], inverse_[at], width);
    });
  }

  View queries() const { return view(queries_.x, rows_.data(), strides_[0].data()); }
  View keys() const { return view(keys_.x, rows_.data() + queries_.count() * width_, strides_[1].data()); }

  /// From the gradients of what was standardised to those of queries and keys; those of padding are 0 and stay so.
  void backward(const View& dq, const View& dk, const View* keep) const {
    const TokenRows dqueries{dq}, dkeys{dk};
    for_each_row([&](const TokenRows& side, int64_t row, int64_t at, auto width) {
      const bool is_key = &side == &keys_;
      if (is_key && keep != nullptr && !kept(*keep, side.sequence(row), side.token(row))) return;
      standardise_backward<T>((is_key ? dkeys : dqueries).at<T>(row), &rows_[at * width_], inverse_[at], width);
    });
  }

 private:
  using Strides = std::array<int64_t, 4>;

  static Strides strides(const View& x) {
    return {x.shape[2] * x.shape[1] * x.shape[3], x.shape[3], x.shape[1] * x.shape[3], 1};
  }
  static View view(const View& like, T* elements, const int64_t* strides) {
    return {elements, like.dtype, 4, like.shape, strides};
  }
  static bool kept(const View& keep, int64_t b, int64_t token) {
    return data<bool>(keep)[b * keep.strides[0] + token * keep.strides[1]];
  }

  /// Calls `f(side, row of it, row of all, width)`, the queries' rows before the keys'.
  template <class F>
  void for_each_row(F&& f) const {
    const int64_t count = queries_.count();
    parallel_for(count + keys_.count(), std::max(kGrain / (kCost * width_), int64_t{1}),
                 [&](int64_t begin, int64_t end) {
                   with_width(width_, [&](auto width) {
                     for (int64_t at = begin; at < end; ++at) {
                       at < count ? f(queries_, at, at, width) : f(keys_, at - count, at, width);
                     }
                   });
                 });
  }

  TokenRows queries_, keys_;
  int64_t width_;
  Scratch<T> rows_, inverse_;
  Strides strides_[2];
};

}  // namespace

void quadratic_fastmax(const View& o, const View& normaliser, const View& q, const View& k, const View& v,
                       const View* keep, const FastmaxKernel& kernel) {
  const AttentionOptions options = quadratic_form(kernel);
  if (!kernel.standardise) return attention(o, normaliser, q, k, v, keep, options);
  dispatch_floating(q.dtype, [&]<class T>(T) {
    const Standardised<T> x(q, k);
    attention(o, normaliser, x.queries(), x.keys(), v, keep, options);
  });
}

void quadratic_fastmax_backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                                const View& normaliser, const View& q, const View& k, const View& v, const View* keep,
                                const FastmaxKernel& kernel) {
  const AttentionOptions options = quadratic_form(kernel);
  if (!kernel.standardise) return attention_backward(dq, dk, dv, d_o, o, normaliser, q, k, v, keep, options);
  dispatch_floating(q.dtype, [&]<class T>(T) {
    const Standardised<T> x(q, k);
    attention_backward(dq, dk, dv, d_o, o, normaliser, x.queries(), x.keys(), v, keep, options);
    x.backward(dq, dk, keep);
  });
}

}  // namespace linnet::cpu::LINNET_ISA
