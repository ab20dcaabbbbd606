#include <linnet/ops/cpu/blas.h>

#include <limits>

#include <cblas.h>
#include <fmt/format.h>
#include <omp.h>

#include <linnet/core/error.h>

namespace linnet::cpu {
namespace {

/// While one lives, OpenBLAS is serial on this thread: its OpenMP build asks for the calling thread's OpenMP
/// thread count, and stays on that thread when it is 1. What the user has set there is put back; all of it
/// takes about 4 ns.
class SerialOpenMp {
 public:
  SerialOpenMp() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~SerialOpenMp() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  SerialOpenMp(const SerialOpenMp&) = delete;
  SerialOpenMp& operator=(const SerialOpenMp&) = delete;

 private:
  int before_;
};

blasint to_blasint(int64_t size) {
  constexpr blasint kMax = std::numeric_limits<blasint>::max();
  if (size > kMax)
    throw ShapeError(fmt::format("a matrix product with a size of {}: BLAS takes up to {}", size, kMax));
  return static_cast<blasint>(size);
}

CBLAS_TRANSPOSE to_cblas(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

}  // namespace

template <>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const SerialOpenMp serial;
  cblas_sgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_blasint(m), to_blasint(n),
              to_blasint(k), alpha, a, to_blasint(lda), b, to_blasint(ldb), beta, c, to_blasint(ldc));
}

template <>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  const SerialOpenMp serial;
  cblas_dgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_blasint(m), to_blasint(n),
              to_blasint(k), alpha, a, to_blasint(lda), b, to_blasint(ldb), beta, c, to_blasint(ldc));
}

void report_threaded_blas() {
  if (openblas_get_parallel() != OPENBLAS_THREAD) return;
  fmt::print(stderr,
             "linnet: {} runs threads of its own beside linnet's, which is slow and may change bits; install "
             "libopenblas-openmp-dev and build again, or set OPENBLAS_NUM_THREADS=1\n",
             describe_blas());
}

std::string describe_blas() {
  constexpr const char* kThreading[] = {"serial", "pthreads", "OpenMP"};
  const std::string config =
      openblas_get_config();  // "OpenBLAS 0.3.21 NO_AFFINITY USE_OPENMP Haswell MAX_THREADS=64"
  const std::string version = config.substr(0, config.find(' ', config.find(' ') + 1));
  return fmt::format("{} ({} kernels, {})", version, openblas_get_corename(), kThreading[openblas_get_parallel()]);
}

}  // namespace linnet::cpu
