#include <linnet/ops/cpu/blas.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

#include <cblas.h>
#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <linnet/core/error.h>
#include <linnet/core/parallel/parallel.h>

namespace linnet::cpu {
namespace {

/// Makes OpenBLAS serial on this thread while it exists: its OpenMP build reads the calling thread's OpenMP thread
/// count, and runs on that thread alone when it is 1. Restores the user's count at the end. Takes about 4 ns.
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

/// Checks once, if the address space is limited, that OpenBLAS's buffers fit. OpenBLAS allocates 128 MiB for each
/// thread that multiplies, on its first product, and retries forever if that fails. We ask for some more, since each
/// thread's heap takes addresses too. Throws MemoryError.
void require_buffers() {
  static std::atomic<bool> are_there{false};
  if (are_there.load(std::memory_order_relaxed)) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  constexpr size_t kBytes = size_t{200} << 20;
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  std::vector<void*> blocks;
  bool enough = true;
  for (int i = 0; is_limited && enough && i < num_threads(); ++i) {
    void* const block = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    enough = block != MAP_FAILED;
    if (enough) blocks.push_back(block);
  }
  for (void* const block : blocks) munmap(block, kBytes);
  if (!enough) {
    throw MemoryError(
        fmt::format("matrix products on {} threads need {} MiB of addresses, more than the limit on address space "
                    "(ulimit -v) leaves; raise it, for example by ulimit -v unlimited, or use fewer threads",
                    num_threads(), num_threads() * (kBytes >> 20)));
  }
  are_there = true;
}

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
  require_buffers();
  const SerialOpenMp serial;
  cblas_sgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_blasint(m), to_blasint(n),
              to_blasint(k), alpha, a, to_blasint(lda), b, to_blasint(ldb), beta, c, to_blasint(ldc));
}

template <>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  require_buffers();
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
