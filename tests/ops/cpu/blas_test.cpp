#include <filesystem>
#include <iterator>

#include <doctest/doctest.h>
#include <omp.h>

#include <linnet/core/parallel/parallel.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/threads.h"

namespace linnet {

TEST_CASE("matrix products start no threads of OpenMP's, and leave its settings alone") {
  const auto threads_of_process = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  const int openmp_before = omp_get_max_threads();
  const Tensor a = ones({8, 1024}), b = ones({1024, 4096});  // thin: calls to BLAS, large enough for threads
  const test::WithThreads with(3);
  matmul(a, b);  // starts linnet's threads
  const auto threads = threads_of_process();
  omp_set_num_threads(7);
  matmul(a, b);
  CHECK(omp_get_max_threads() == 7);
  CHECK(threads_of_process() == threads);
  set_num_threads(1);  // also outside linnet's parallel loops
  matmul(a, b);
  CHECK(omp_get_max_threads() == 7);
  CHECK(threads_of_process() <= threads);
  omp_set_num_threads(openmp_before);
}

}  // namespace linnet
