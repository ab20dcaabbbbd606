// Solutions to the exercises of chapter 13.

#include <fmt/core.h>

#include <ctime>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. a and b must be read and c written: 3n² floats, 12n² bytes, for 2n³ operations, n/6 per byte. So for large n
//    memory need not limit the speed, if the caches reuse each byte often enough.

void count_bytes() {
  for (const int64_t n : {64, 1024}) fmt::print("1. n = {}: {:.0f} operations a byte\n", n, double(n) / 6);
}

// 2. The inner loop now goes along rows of b and c. It uses all of each cache line, and the processor fetches the
//    next lines ahead, because they follow in memory. The program prints the speedup and does not check it, because
//    it depends on the machine and its other load.

double seconds_of(const auto& function) {
  const std::clock_t begin = std::clock();
  function();
  return double(std::clock() - begin) / CLOCKS_PER_SEC;
}

void reorder(Generator& rng) {
  const int64_t n = 512;
  const Tensor ta = randn({n, n}, rng), tb = randn({n, n}, rng);
  const float *a = ta.data<float>().data(), *b = tb.data<float>().data();
  Tensor t_ijk = zeros({n, n}), t_ikj = zeros({n, n});
  const double ijk = seconds_of([&] {
    float* c = t_ijk.mutable_data<float>().data();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
      }
    }
  });
  const double ikj = seconds_of([&] {
    float* c = t_ikj.mutable_data<float>().data();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < n; ++k) {
        for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
      }
    }
  });
  check(eq(t_ijk, t_ikj).all().item<bool>(), "both orders add the same terms in the same order");
  fmt::print("2. the order i, k, j takes {:.0f} % of the time\n", 100 * ikj / ijk);
}

// 3. A step over k loads rows + columns numbers for rows × columns products. That is 5 loads for 4 products with a 4
//    × 1 block, 9 for 8 with 1 × 8, and only 12 for 32 with 4 × 8. With vectors of 8 the last is even 4 + 1 loads.
//    Larger blocks load less for each product, until the registers are full.

void count_loads() {
  for (const auto& [rows, columns] : {std::pair{4, 1}, {1, 8}, {4, 8}}) {
    fmt::print("3. {} × {}: {:.2f} loads a product\n", rows, columns, double(rows + columns) / (rows * columns));
  }
}

int main() {
  Generator rng(1);
  count_bytes();
  reorder(rng);
  count_loads();
}
