#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

#include "control.h"
#include "tests/support/gpu.h"
#include "tests/support/values.h"

/// Copies to the GPU in their own stream, while kernels run in another. One of the streams, or both, are delayed as
/// long as the events between them allow.

namespace linnet::emulation {
namespace {

constexpr int64_t kInOnePiece = 100'000, kInPieces = 1'500'000;  // of 4 MiB

/// More batches, with 4 bytes for each element, than there are buffers of pinned memory.
std::vector<Tensor> batches(int64_t size) {
  std::vector<Tensor> result;
  for (uint64_t i = 0; i < 6; ++i) result.push_back(test::uniform({size}, i).to(DType::float32));
  return result;
}

/// Whether the GPU's sums are the CPU's.
bool adds_up(const std::vector<Tensor>& batches) {
  Tensor expected = zeros(batches[0].shape()), sum = expected.to(Device::cuda);
  for (const Tensor& batch : batches) {
    expected = add(expected, batch);
    sum = add(sum, batch.to(Device::cuda));
  }
  return sum.to_vector<float>() == expected.to_vector<float>();
}

/// The same in each unusual order of the two streams.
struct Orders {
  bool kernels_late, copies_late, both_late;
};
Orders adds_up_in_orders(const std::vector<Tensor>& batches) {
  Orders result{};
  {
    const Late kernels(kKernels);
    result.kernels_late = adds_up(batches);
    const Late copies(kCopies);
    result.both_late = adds_up(batches);
  }
  const Late copies(kCopies);
  result.copies_late = adds_up(batches);
  return result;
}

}  // namespace

TEST_CASE("gpu: emulation: batches that cross beside kernels are right in any order of the two streams") {
  CHECK(adds_up(batches(kInOnePiece)));  // this creates the streams
  for (const int64_t size : {kInOnePiece, kInPieces}) {
    const Orders right = adds_up_in_orders(batches(size));
    CHECK(right.kernels_late);
    CHECK(right.copies_late);
    CHECK(right.both_late);
  }
}

TEST_CASE("gpu: emulation: each event between the two streams is needed") {
  if (test::waits_for_kernels()) return;
  CHECK(adds_up(batches(kInOnePiece)));
  const std::vector<Tensor> inputs = batches(kInOnePiece);
  {
    const Impatient kernels(kKernels);  // they move data that have not arrived
    CHECK_FALSE(adds_up_in_orders(inputs).copies_late);
  }
  {
    const Impatient copies(kCopies);  // they overwrite data that have not been moved on
    CHECK_FALSE(adds_up_in_orders(inputs).kernels_late);
  }
  {
    const Impatient host(kHost);  // it overwrites data that have not been copied
    CHECK_FALSE(adds_up_in_orders(inputs).both_late);
  }
}

TEST_CASE("gpu: emulation: nobody waits for a kernel while a batch crosses") {
  if (test::waits_for_kernels()) return;
  CHECK(adds_up(batches(kInOnePiece)));
  const Tensor batch = test::uniform({2'000'000}, 1);  // 16 MB, four pieces
  Tensor there, sum;
  {
    const Late kernels(kKernels);
    const Tensor ones = add(zeros({10}, DType::float32, Device::cuda), 1);
    const size_t before = work_left(kKernels);
    CHECK(before > 0);
    there = batch.to(Device::cuda);
    CHECK(work_left(kKernels) > before);  // the move of the batch
    CHECK(work_left(kCopies) == 0);       // the copy is done
    CHECK(ones.to_vector<float>() == std::vector<float>(10, 1));
  }
  CHECK(there.to_vector<double>() == batch.to_vector<double>());
}

}  // namespace linnet::emulation
