// Solutions to the exercises of chapter 14.

#include <fmt/core.h>

#include <vector>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. Without tiles, each of the n threads in a row of c loads each number of a's row: n times. With tiles of 16, each
//    of the n/16 blocks in the row loads it once: n/16 times.

void count_loads() {
  const int n = 128, blocks = (n / 16) * (n / 16), steps = n / 16, loads_of_a_step = 16 * 16;
  const int loads = blocks * steps * loads_of_a_step / (n * n);
  fmt::print("1. n = 128: each number of a is loaded {} times with tiles, {} without\n", loads, n);
  check(loads == n / 16, "tiles of 16 load a sixteenth");
}

// 2. The first thread multiplies with numbers that the others have not loaded yet. On a GPU the result would depend
//    on which threads are first, and might even be right by chance. Here all threads of the block except the last
//    read numbers from before the load, zeros.

void without_barrier(Generator& rng) {
  const Tensor a = randn({16, 16}, rng), b = randn({16, 16}, rng), expected = matmul(a, b);
  float tile_a[16][16] = {}, tile_b[16][16] = {};
  Tensor c = zeros({16, 16});
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x) {
      tile_a[y][x] = a[{y, x}].item<float>();
      tile_b[y][x] = b[{y, x}].item<float>();
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += tile_a[y][k] * tile_b[k][x];
      c[{y, x}] = sum;
    }
  }
  const int64_t right = isclose(c, expected, 1e-4, 1e-4).to(DType::int64).sum().item<int64_t>();
  fmt::print("2. {} of 256 numbers are right\n", right);
  check(right < 16 && isclose(c, expected, 1e-4, 1e-4)[{15, 15}].item<bool>(),
        "the last thread is right, few others");
}

// 3. It takes eight steps instead of 255 additions: after the step with the distance d, the first d numbers contain
//    the whole sum. In a kernel, a barrier ends each step. Within a step no thread reads what another thread writes.

void sum_in_a_block(Generator& rng) {
  const Tensor x = randn({256}, rng, DType::float64);
  std::vector<double> shared = x.to_vector<double>();
  int steps = 0;
  for (size_t distance = 128; distance > 0; distance /= 2, ++steps) {
    for (size_t thread = 0; thread < distance; ++thread) shared[thread] += shared[thread + distance];
  }
  fmt::print("3. {} steps sum 256 numbers\n", steps);
  check(std::abs(shared[0] - x.sum().item()) < 1e-12, "the block has the sum");
}

int main() {
  Generator rng(1);
  count_loads();
  without_barrier(rng);
  sum_in_a_block(rng);
}
