// # 13. How a matrix product becomes fast
//
// A neural network spends nearly all its time in matrix products: $2n^3$ operations for $n \times n$ matrices. The
// four versions here do the same operations. They differ in where the numbers are when they are needed.

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include <linnet/linnet.h>

#include "support/bench/timing.h"
#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;
using Product = void (*)(int64_t n, const float* a, const float* b, float* c);  // c = a·b; c is 0 on entry

// ## 1. Naive
//
// The inner loop goes down a column of $b$. Memory is read in *cache lines* of 64 bytes, and only one of a line's 16
// floats is used. If $b$ is larger than the caches, each step waits for memory.

void naive(int64_t n, const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
}

// ## 2. Tiled
//
// A tile of 64 × 64 numbers of $b$ takes 16 KiB and fits into the first cache (L1). It is used for all rows of $a$
// before the next tile is loaded. The loop over $j$ is innermost now, so every float of a cache line is used.

void tiled(int64_t n, const float* a, const float* b, float* c) {
  constexpr int64_t kTile = 64;
  for (int64_t k0 = 0; k0 < n; k0 += kTile) {
    for (int64_t j0 = 0; j0 < n; j0 += kTile) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t k = k0; k < k0 + kTile; ++k) {
          for (int64_t j = j0; j < j0 + kTile; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
        }
      }
    }
  }
}

// ## 3. Packed
//
// A tile of 4 × 8 sums stays in registers for all $k$. Each number of $b$ is loaded once for four rows, and
// each number of $a$ once for eight columns. The eight columns of $b$ are first copied into one contiguous buffer,
// which all rows of $a$ use (Goto & van de Geijn 2008).

constexpr int64_t kRows = 4, kColumns = 8;
template <auto block>
void packed(int64_t n, const float* a, const float* b, float* c) {
  std::vector<float> packed(size_t(n * kColumns));
  for (int64_t j = 0; j < n; j += kColumns) {
    for (int64_t k = 0; k < n; ++k) std::copy_n(b + k * n + j, kColumns, packed.data() + k * kColumns);
    for (int64_t i = 0; i < n; i += kRows) block(n, a + i * n, packed.data(), c + i * n + j);
  }
}

void scalar_block(int64_t n, const float* a, const float* b, float* c) {
  float sums[kRows][kColumns] = {};
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) sums[i][j] += a[i * n + k] * b[k * kColumns + j];
    }
  }
  for (int64_t i = 0; i < kRows; ++i) std::copy_n(sums[i], kColumns, c + i * n);
}

// ## 4. Vectorised
//
// Vector instructions do one operation on 4, 8 or 16 floats at once; GCC and clang have a type for them. A compiler
// can vectorise some loops by itself. `CMakeLists.txt` turns this off here, so that you can see the gain.

using Vector = float __attribute__((vector_size(kColumns * sizeof(float))));
void vector_block(int64_t n, const float* a, const float* b, float* c) {
  Vector sums[kRows] = {}, row;
  for (int64_t k = 0; k < n; ++k) {
    std::memcpy(&row, b + k * kColumns, sizeof(row));
    for (int64_t i = 0; i < kRows; ++i) sums[i] += a[i * n + k] * row;
  }
  for (int64_t i = 0; i < kRows; ++i) std::memcpy(c + i * n, &sums[i], sizeof(row));
}

int main() {
  Generator rng(1);
  std::vector<examples::Series> lines;
  const std::pair<const char*, Product> versions[] = {
      {"naive", naive}, {"tiled", tiled}, {"packed", packed<scalar_block>}, {"vectorised", packed<vector_block>}};
  for (const auto& [name, product] : versions) {
    lines.push_back({.label = name});
    for (const int64_t n : {64, 128, 256, 512}) {
      const Tensor a = randn({n, n}, rng), b = randn({n, n}, rng), c = zeros({n, n});
      float* result = Tensor(c).mutable_data<float>().data();
      const auto multiply = [&, f = product] { f(n, a.data<float>().data(), b.data<float>().data(), result); };
      multiply();
      check(allclose(c, matmul(a, b), 1e-3, 1e-3), "all four compute the product");
      const double seconds = examples::measure(multiply, 0).least_ms / 1e3;
      lines.back().x.push_back(double(n)), lines.back().y.push_back(2e-9 * double(n * n * n) / seconds);
    }
  }
  check(lines[3].y[3] > 2 * lines[0].y[3], "the last is more than twice as fast as the first");
  fmt::print("all four compute the same product\n");
  examples::write_png({"Four matrix products", "", "n", "GFLOP/s", true, true, lines}, "13_speed.png");
}
// <!-- output -->
// ![Operations per second of the four versions, against the size of the matrices](13_speed.png)
//
// ## Exercises
//
// 1. How many bytes must be moved at least, and how many operations use each? What follows for large $n$?
// 2. Change the order of naive's three loops to $i, k, j$. Why is that so much faster?
// 3. How many numbers does a step over $k$ load for each product, with blocks of 4 × 1, 1 × 8 and 4 × 8 sums?
