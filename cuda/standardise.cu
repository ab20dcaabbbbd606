#include <algorithm>

#include <linnet/cuda/bfloat16.cuh>
#include <linnet/cuda/group.cuh>
#include <linnet/cuda/heads.cuh>
#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/standardise.cuh>

/// A warp or a block for each token. Memory bounds these kernels: each reads a row from there once, and again from
/// the cache.

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

/// Which tokens count.
struct Counted {
  FirstQuery first;
  Keep keep;

  __device__ bool has(int64_t b, int64_t i) const { return i >= first.of(b) && keep.has(b, i); }
};

template <class Group, class E, class T>
__global__ void standardise_rows(Tokens all, Counted counted, Heads<const E> from, E* out, T* inverse_std) {
  const double n = static_cast<double>(all.width);
  for (int64_t r = Group::first_row(); r < all.rows; r += Group::row_step()) {
    const bool there = counted.has(all.sequence(r), r % all.tokens);
    const E* x = all.of(from, r);
    E* y = out + r * all.width;
    const auto at = [=](int64_t d) { return there ? static_cast<T>(x[d]) : T{0}; };
    const T mean = static_cast<T>(Group::template sum<T>(all.width, at) / n);
    const double variance =
        Group::template sum<T>(all.width, [=](int64_t d) { return (at(d) - mean) * (at(d) - mean); }) / n;
    const T scale = there ? static_cast<T>(1 / sqrt(variance + 1e-5)) : T{0};
    for (int64_t d = Group::lane(); d < all.width; d += Group::size) y[d] = (at(d) - mean) * scale;
    if (Group::lane() == 0) inverse_std[r] = scale;
  }
}

/// ∂x = (∂y − mean(∂y) − y mean(∂y ∘ y)) / std(x), in place. The mean of ∂y is 0 only up to the rounding of products,
/// which may be to bfloat16.
template <class Group, class E, class T>
__global__ void differentiate_rows(Tokens all, Heads<E> gradients, const E* ys, const T* inverse_std) {
  const double n = static_cast<double>(all.width);
  for (int64_t r = Group::first_row(); r < all.rows; r += Group::row_step()) {
    E* of_row = all.of(gradients, r);
    const auto g = [=](int64_t d) { return static_cast<T>(of_row[d]); };
    const auto y = [=](int64_t d) { return static_cast<T>(ys[r * all.width + d]); };
    const T mean = static_cast<T>(Group::template sum<T>(all.width, g) / n);
    const T slope = static_cast<T>(Group::template sum<T>(all.width, [=](int64_t d) { return g(d) * y(d); }) / n);
    for (int64_t d = Group::lane(); d < all.width; d += Group::size) {
      of_row[d] = (g(d) - mean - y(d) * slope) * inverse_std[r];
    }
  }
}

}  // namespace

Standardised::Standardised(const View& x, const View* keep, FirstQuery first)
    : dtype_(x.dtype),
      y_(numel(x) * size_of(x.dtype)),
      inverse_std_(numel(x) / x.shape[3] * size_of(computed_in(x.dtype))) {
  std::copy_n(x.shape, 4, shape_);
  int64_t stride = 1;
  for (int d = 3; d >= 0; --d) {
    strides_[d] = stride;
    stride *= shape_[d];
  }
  const Tokens all(x);
  dispatch_computed(dtype_, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    for_group(all.width, [&](auto group) {
      launch(standardise_rows<decltype(group), E, T>, ceil_div(all.rows, group.rows), kThreads, all,
             Counted{first, Keep(keep)}, Heads<const E>(x), reinterpret_cast<E*>(y_.data()),
             reinterpret_cast<T*>(inverse_std_.data()));
    });
  });
}

void Standardised::differentiate(const View& gradients) const {
  const Tokens all(gradients);
  dispatch_computed(dtype_, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    for_group(all.width, [&](auto group) {
      launch(differentiate_rows<decltype(group), E, T>, ceil_div(all.rows, group.rows), kThreads, all,
             Heads<E>(gradients), reinterpret_cast<const E*>(y_.data()),
             reinterpret_cast<const T*>(inverse_std_.data()));
    });
  });
}

}  // namespace linnet::cuda
