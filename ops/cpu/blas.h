#pragma once

#include <cstdint>
#include <string>

/// The only calls of BLAS. Compiled once, unlike the kernels.

namespace linnet {
namespace [[gnu::visibility("hidden")]] cpu {

/// c = alpha · op(a) · op(b) + beta · c, row-major, for T float or double. op(a) is [m, k], op(b) [k, n], c
/// [m, n]; `transpose_a` says that a is stored as [k, m], `transpose_b` that b is stored as [n, k]. `lda`,
/// `ldb` and `ldc` are the distances between stored rows. With beta 0, c is not read. Runs on the calling
/// thread alone. Throws ShapeError for a size above BLAS's 32-bit integers.
template <class T>
[[gnu::visibility("hidden")]] void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha,
                                        const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// Warns on stderr if BLAS runs threads of its own inside ours: a build with pthreads cannot be made serial for one
/// thread, and results may then depend on its thread count.
void report_threaded_blas();

/// The BLAS in use: "OpenBLAS 0.3.21 (Haswell kernels, OpenMP)".
std::string describe_blas();

}  // namespace cpu
}  // namespace linnet
