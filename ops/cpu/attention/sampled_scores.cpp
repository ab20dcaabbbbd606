#include <algorithm>

#include <linnet/ops/cpu/device/kernel.h>

/// Scores of a few keys for each query. The keys are read in place. A row of a key costs more to fetch than to
/// multiply, so all heads of a key are taken together.

namespace linnet::cpu::LINNET_ISA {
namespace {

template <class T>
struct SampledScores {
  int64_t batch, heads, queries, samples, width;
  View q, k, index;
  T* out;

  /// How many samples ahead a key is prefetched. The hardware prefetcher cannot guess which keys come.
  static constexpr int64_t kAhead = 6;

  /// The scores of query `i` of sequence `b`. The width of a head is a compile-time constant or a number.
  template <class Width>
  void row(int64_t b, int64_t i, Width width_) const {
    const T* query = data<T>(q) + b * q.strides[0] + i * q.strides[2];
    const int64_t* keys = data<int64_t>(index) + b * index.strides[0] + i * index.strides[1];
    T* to = out + (b * queries + i) * heads * samples;
    const auto key_at = [&](int64_t t) {
      return data<T>(k) + b * k.strides[0] + keys[t * index.strides[2]] * k.strides[2];
    };
    for (int64_t t = 0; t < samples; ++t) {
      const T *key = key_at(t), *later = key_at(std::min(t + kAhead, samples - 1));
      for (int64_t h = 0; h < heads; ++h) fetch(later + h * k.strides[1], width_);
      for (int64_t h = 0; h < heads; ++h) {
        const T *left = query + h * q.strides[1], *right = key + h * k.strides[1];
        T sum{};
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < width_; ++d) sum += left[d] * right[d];
        to[h * samples + t] = sum;
      }
    }
  }
};

void sampled_scores(View out, View q, View k, View index) {
  const int64_t work = std::max<int64_t>(1, out.shape[2] * out.shape[3] * q.shape[3]);
  dispatch_floating(out.dtype, [&]<class T>(T) {
    const SampledScores<T> s{q.shape[0], q.shape[1], q.shape[2], out.shape[3], q.shape[3], q, k, index, data<T>(out)};
    const auto all_rows = [&](auto width) {
      parallel_for(s.batch * s.queries, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) s.row(row / s.queries, row % s.queries, width);
      });
    };
    if (s.width == 8) return all_rows(std::integral_constant<int64_t, 8>{});
    with_width<T>(s.width, all_rows);
  });
}

}  // namespace

void fill_sampled_scores(Backend& table) { table.sampled_scores = sampled_scores; }

}  // namespace linnet::cpu::LINNET_ISA
