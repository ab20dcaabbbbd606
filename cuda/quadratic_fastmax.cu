#include <linnet/cuda/quadratic_fastmax.cuh>

#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/scratch.cuh>

/// Fastmax weight by weight (Gerami et al. 2024, eqs. 5–12): attention.cu on standardised queries and keys, which are
/// made anew for backward.

namespace linnet::cuda {
namespace {

/// Queries or keys [B, H, N, D] with mean 0 and variance 1 per token (eqs. 5 and 6 of Gerami et al. 2024),
/// contiguous; those that padding holds are 0.
template <class T>
class Standardised {
 public:
  Standardised(const View& x, const View* keep)
      : count_(numel(x)),
        shape_{x.shape[0], x.shape[1], x.shape[2], x.shape[3]},
        strides_{shape_[1] * shape_[2] * shape_[3], shape_[2] * shape_[3], shape_[3], 1},
        rows_{count_ / shape_[3], shape_[3]},
        keep_(keep),
        memory_(2 * count_ + 2 * rows_[0]) {
    select(dense(0), x);
    cuda_backend().layer_norm(rows(1), statistic(0), statistic(1), rows(0), nullptr, nullptr, 1e-5);
  }

  View view() const { return dense(1); }

  /// From the gradient of what was standardised, contiguous, to that of x.
  void backward(const View& dx, T* gradient) const {
    const Scratch<T> memory(count_);
    const View from{gradient, dtype_of<T>, 2, rows_, row_strides()},
        to{memory.data(), dtype_of<T>, 2, rows_, row_strides()};
    cuda_backend().layer_norm_backward(to, nullptr, nullptr, from, rows(0), statistic(0), statistic(1), nullptr);
    select(dx, {memory.data(), dtype_of<T>, 4, shape_, strides_});
  }

  int64_t count() const { return count_; }
  /// Contiguous elements like x's.
  View like(T* elements) const { return {elements, dtype_of<T>, 4, shape_, strides_}; }

 private:
  /// to = x, but 0 where there is padding.
  void select(const View& to, const View& x) const {
    if (keep_ == nullptr) return cuda_backend().copy(to, x);
    const Scratch<T> zero(1);
    const int64_t none[] = {0, 0, 0, 0}, strides[] = {keep_->strides[0], 0, keep_->strides[1], 0};
    const View zeros{zero.data(), dtype_of<T>, 4, shape_, none};
    cuda_backend().fill({zero.data(), dtype_of<T>, 0, shape_, none}, 0);
    cuda_backend().where(to, {keep_->data, keep_->dtype, 4, shape_, strides}, x, zeros);
  }

  const int64_t* row_strides() const { return strides_ + 2; }
  View dense(int part) const { return {memory_.data() + part * count_, dtype_of<T>, 4, shape_, strides_}; }
  View rows(int part) const { return {memory_.data() + part * count_, dtype_of<T>, 2, rows_, row_strides()}; }
  View statistic(int which) const {
    return {memory_.data() + 2 * count_ + which * rows_[0], dtype_of<T>, 1, rows_, strides_ + 3};
  }

  int64_t count_;
  int64_t shape_[4], strides_[4], rows_[2];
  const View* keep_;
  Scratch<T> memory_;  ///< x, x standardised, mean, 1 / standard deviation
};

}  // namespace

void quadratic_fastmax(View o, View normaliser, View q, View k, View v, const View* keep,
                       const FastmaxKernel& kernel) {
  const AttentionOptions options = quadratic_form(kernel);
  const Backend& table = cuda_backend();
  if (!kernel.standardise) return table.attention(o, normaliser, q, k, v, keep, options);
  dispatch_floating(q.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Standardised<T> queries(q, nullptr), keys(k, keep);
    table.attention(o, normaliser, queries.view(), keys.view(), v, keep, options);
  });
}

void quadratic_fastmax_backward(View dq, View dk, View dv, View d_o, View o, View normaliser, View q, View k, View v,
                                const View* keep, const FastmaxKernel& kernel) {
  const AttentionOptions options = quadratic_form(kernel);
  const Backend& table = cuda_backend();
  if (!kernel.standardise) {
    return table.attention_backward(dq, dk, dv, d_o, o, normaliser, q, k, v, keep, options);
  }
  dispatch_floating(q.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Standardised<T> queries(q, nullptr), keys(k, keep);
    const Scratch<T> dqueries(queries.count()), dkeys(keys.count());
    table.attention_backward(queries.like(dqueries.data()), keys.like(dkeys.data()), dv, d_o, o, normaliser,
                             queries.view(), keys.view(), v, keep, options);
    queries.backward(dq, dqueries.data());
    keys.backward(dk, dkeys.data());
  });
}

}  // namespace linnet::cuda
