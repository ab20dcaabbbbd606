#include <linnet/cuda/group.cuh>
#include <linnet/cuda/heads.cuh>
#include <linnet/cuda/kernel.cuh>

/// Fastmax weight by weight (Gerami et al. 2024, eqs. 5–12): attention.cu on queries and keys that are given mean 0
/// and variance 1 here, a warp or a block for each token; those that padding holds are 0. Memory bounds these
/// kernels: each reads a row from there once, and again from the cache.

namespace linnet::cuda {
namespace {

/// Where tokens are: row r is token r % tokens of head r / tokens, counted over all sequences.
struct Tokens {
  int64_t heads, tokens, width, rows;

  explicit Tokens(const View& x) : heads(x.shape[1]), tokens(x.shape[2]), width(x.shape[3]), rows(numel(x) / width) {}

  __device__ int64_t sequence(int64_t r) const { return r / tokens / heads; }
  template <class T>
  __device__ T* of(const Heads<T>& x, int64_t r) const {
    return x.at(sequence(r), r / tokens % heads, r % tokens);
  }
};

/// Which tokens are no padding.
struct Kept {
  const bool* data;
  int64_t batch_stride, stride;

  explicit Kept(const View* keep)
      : data(keep == nullptr ? nullptr : static_cast<const bool*>(keep->data)),
        batch_stride(keep == nullptr ? 0 : keep->strides[0]),
        stride(keep == nullptr ? 0 : keep->strides[1]) {}

  __device__ bool has(int64_t b, int64_t i) const { return data == nullptr || data[b * batch_stride + i * stride]; }
};

template <class Group, class T>
__global__ void standardise_rows(Tokens all, Kept kept, Heads<const T> from, T* out, T* rstd) {
  const double n = static_cast<double>(all.width);
  for (int64_t r = Group::first_row(); r < all.rows; r += Group::row_step()) {
    const bool there = kept.has(all.sequence(r), r % all.tokens);
    const T* x = all.of(from, r);
    T* y = out + r * all.width;
    const auto at = [=](int64_t d) { return there ? x[d] : T{0}; };
    const T mean = static_cast<T>(Group::template sum<T>(all.width, at) / n);
    const double variance =
        Group::template sum<T>(all.width, [=](int64_t d) { return (at(d) - mean) * (at(d) - mean); }) / n;
    const T scale = there ? static_cast<T>(1 / sqrt(variance + 1e-5)) : T{0};
    for (int64_t d = Group::lane(); d < all.width; d += Group::size) y[d] = (at(d) - mean) * scale;
    if (Group::lane() == 0) rstd[r] = scale;
  }
}

/// ∂x = (∂y − mean(∂y) − y mean(∂y ∘ y)) / std(x), in place.
template <class Group, class T>
__global__ void differentiate_rows(Tokens all, Heads<T> gradients, const T* ys, const T* rstd) {
  const double n = static_cast<double>(all.width);
  for (int64_t r = Group::first_row(); r < all.rows; r += Group::row_step()) {
    T* g = all.of(gradients, r);
    const T* y = ys + r * all.width;
    const T mean = static_cast<T>(Group::template sum<T>(all.width, [=](int64_t d) { return g[d]; }) / n);
    const T slope = static_cast<T>(Group::template sum<T>(all.width, [=](int64_t d) { return g[d] * y[d]; }) / n);
    for (int64_t d = Group::lane(); d < all.width; d += Group::size) {
      g[d] = (g[d] - mean - y[d] * slope) * rstd[r];
    }
  }
}

void standardise(const View& y, const View& rstd, const View& x, const View* keep) {
  const Tokens all(x);
  dispatch_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_group(all.width, [&](auto group) {
      launch(standardise_rows<decltype(group), T>, ceil_div(all.rows, group.rows), kThreads, all, Kept(keep),
             Heads<const T>(x), data<T>(y), data<T>(rstd));
    });
  });
}

/// From the gradients of y to those of x, in place.
void through_standardisation(const View& gradients, const View& y, const View& rstd) {
  const Tokens all(y);
  dispatch_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_group(all.width, [&](auto group) {
      launch(differentiate_rows<decltype(group), T>, ceil_div(all.rows, group.rows), kThreads, all,
             Heads<T>(gradients), data<const T>(y), data<const T>(rstd));
    });
  });
}

void standardised_attention(View o, View normaliser, StandardisedHeads kept, View q, View k, View v, const View* keep,
                            AttentionOptions options) {
  standardise(kept.q, kept.q_rstd, q, nullptr);
  standardise(kept.k, kept.k_rstd, k, keep);
  cuda_backend().attention(o, normaliser, kept.q, kept.k, v, keep, options);
}

void standardised_attention_backward(View dq, View dk, View dv, View d_o, View o, View normaliser,
                                     StandardisedHeads kept, View v, const View* keep, AttentionOptions options) {
  cuda_backend().attention_backward(dq, dk, dv, d_o, o, normaliser, kept.q, kept.k, v, keep, options);
  through_standardisation(dq, kept.q, kept.q_rstd);
  through_standardisation(dk, kept.k, kept.k_rstd);
}

}  // namespace

void fill_standardised_attention(Backend& table) {
  table.standardised_attention = standardised_attention;
  table.standardised_attention_backward = standardised_attention_backward;
}

}  // namespace linnet::cuda
