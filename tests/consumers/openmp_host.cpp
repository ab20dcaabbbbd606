/// A program that has its own OpenMP and BLAS besides those of linnet. It is compiled with clang, whose OpenMP is not
/// GCC's library, and its cblas_sgemm replaces OpenBLAS's in the whole process.
#include <cmath>
#include <iostream>

#include <omp.h>

extern "C" double train_step(unsigned seed);

static int products = 0;  // matrix products by this program's BLAS

// NOLINTNEXTLINE(readability-function-size)
extern "C" void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                            int lda, const float* b, int ldb, float beta, float* c, int ldc) {
#pragma omp atomic
  ++products;
  constexpr int kColMajor = 102, kNoTrans = 111;
  const auto at = [&](const float* x, int ld, bool transposed, int i, int j) {
    return (order == kColMajor) != transposed ? x[i + static_cast<long>(j) * ld] : x[static_cast<long>(i) * ld + j];
  };
#pragma omp parallel for
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += static_cast<double>(at(a, lda, trans_a != kNoTrans, i, l)) * at(b, ldb, trans_b != kNoTrans, l, j);
      }
      float& to = order == kColMajor ? c[i + static_cast<long>(j) * ldc] : c[static_cast<long>(i) * ldc + j];
      to = static_cast<float>(alpha * sum) + (beta == 0 ? 0 : beta * to);
    }
  }
}

int main() {
  constexpr int kModels = 8;
  double alone[kModels], together[kModels];
  const int threads_before = omp_get_max_threads();
  for (unsigned i = 0; i < kModels; ++i) alone[i] = train_step(i);
#pragma omp parallel for num_threads(4)
  for (unsigned i = 0; i < kModels; ++i) together[i] = train_step(i);
  for (int i = 0; i < kModels; ++i) {
    if (alone[i] != together[i]) return std::cout << "model " << i << " differs in a parallel region\n", 1;
    if (!(std::abs(alone[i] - std::log(10.0)) <= 1))
      return std::cout << "model " << i << ": loss " << alone[i] << "\n", 1;
  }
  if (omp_get_max_threads() != threads_before) return std::cout << "the program's OpenMP has other threads now\n", 1;
  if (products == 0) return std::cout << "no product by the program's own BLAS\n", 1;
  std::cout << "loss " << alone[0] / 10 << "\n" << products << " products by the program's own BLAS\n";
}
