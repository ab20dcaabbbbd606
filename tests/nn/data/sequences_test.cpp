#include <linnet/nn/data/sequences.h>

#include <doctest/doctest.h>

#include <vector>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/nn/data/loader.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/gpu.h"

using namespace linnet;

namespace {

using Numbers = std::vector<double>;

std::vector<Tensor> three() { return {tensor({1, 2}), tensor({3, 4, 5}), zeros({0})}; }

}  // namespace

TEST_CASE("pad_sequence: PyTorch's results, and a mask that is false at padding") {
  const auto [x, mask] = nn::pad_sequence(three());
  CHECK(x.shape() == Shape{3, 3});  // [N, B]
  CHECK(x.to_vector<double>() == Numbers{1, 3, 0, 2, 4, 0, 0, 5, 0});
  CHECK(mask.dtype() == DType::boolean);
  CHECK(mask.to_vector<double>() == Numbers{1, 1, 0, 1, 1, 1, 0, 0, 0});  // [B, N]
  const auto [y, same] = nn::pad_sequence(three(), {.batch_first = true, .padding_value = -1});
  CHECK(y.to_vector<double>() == Numbers{1, 2, -1, 3, 4, 5, -1, -1, -1});
  CHECK(same.to_vector<double>() == mask.to_vector<double>());
}

TEST_CASE("pad_sequence: features, integers, strides and gradients") {
  const auto [x, mask] = nn::pad_sequence({ones({2, 3}), full({1, 3}, 2)}, {.batch_first = true});
  CHECK(x.shape() == Shape{2, 2, 3});
  CHECK(x.to_vector<double>() == Numbers{1, 1, 1, 1, 1, 1, 2, 2, 2, 0, 0, 0});
  const nn::PaddedSequences ids = nn::pad_sequence({arange(2), arange(6).reshape({2, 3}).select(1, 1)});
  CHECK(ids.sequences.dtype() == DType::int64);
  CHECK(ids.sequences.to_vector<double>() == Numbers{0, 1, 1, 4});
  CHECK(nn::pad_sequence({arange(0)}, {.batch_first = true}).sequences.shape() == Shape{1, 0});
  CHECK(nn::pad_sequence({arange(1)}).sequences.shape() == Shape{1, 1});

  const Tensor a = tensor({1, 2}).set_requires_grad(), b = tensor({3}).set_requires_grad();
  backward(sum(nn::pad_sequence({a, b}).sequences * tensor({{1, 2}, {3, 4}})));
  CHECK(a.grad().to_vector<double>() == Numbers{1, 3});
  CHECK(b.grad().to_vector<double>() == Numbers{2});
}

TEST_CASE("pad_sequence: sequences that do not fit") {
  CHECK_THROWS_AS(nn::pad_sequence({}), ValueError);
  CHECK_THROWS_WITH_AS(nn::pad_sequence({ones({2, 3}), ones({2, 4})}),
                       doctest::Contains("pad_sequence: sequences of shape [2, 3] and [2, 4]; they must be alike"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nn::pad_sequence({ones({2, 3}), ones({2})}),
                       doctest::Contains("sequences of shape [2, 3] and [2]; they must be alike"), ShapeError);
  CHECK_THROWS_WITH_AS(nn::pad_sequence({scalar(1)}),
                       doctest::Contains("sequences of shape [] and []; they must be alike"), ShapeError);
  CHECK_THROWS_AS(nn::pad_sequence({ones({2}), ones({2}, DType::float64)}), DTypeError);
}

TEST_CASE("SequenceDataset: a batch is as long as its longest sequence, and has the mask beside it") {
  const nn::SequenceDataset data(three(), arange(3) * 10, 9);
  CHECK(data.size() == 3);
  const std::vector<int64_t> indices{2, 0};
  const nn::Batch batch = data.collate(indices, {});
  CHECK(batch.inputs.to_vector<double>() == Numbers{9, 9, 1, 2});
  CHECK(batch.targets.to_vector<double>() == Numbers{20, 0});
  CHECK(batch.others.at(0).to_vector<double>() == Numbers{0, 0, 1, 1});
  CHECK_FALSE(nn::SequenceDataset(three()).collate(indices, {}).targets.defined());
  CHECK_THROWS_AS(data.collate(std::vector<int64_t>{3}, {}), IndexError);
  CHECK_THROWS_AS(data.collate(std::vector<int64_t>{-1}, {}), IndexError);
  CHECK_THROWS_WITH_AS(nn::SequenceDataset(three(), arange(2)), doctest::Contains("targets[2] for 3 sequences"),
                       ShapeError);
  int64_t seen = 0;
  nn::Loader loader(data, {.batch = 2, .seed = 1});
  for (const nn::Batch& each : loader) seen += each.inputs.size(0);
  CHECK(seen == 3);
}

TEST_CASE("gpu: SequenceDataset: sequences and targets on the GPU") {
  if (!linnet::test::has_gpu("data sets of sequences on the GPU")) return;
  std::vector<Tensor> sequences = three();
  for (Tensor& x : sequences) x = x.to(Device::cuda);
  const nn::SequenceDataset data(sequences, (arange(3) * 10).to(Device::cuda), 9);
  const nn::Batch batch = data.collate(std::vector<int64_t>{2, 0}, {});
  CHECK(batch.targets.device() == Device::cuda);
  CHECK(batch.inputs.to_vector<double>() == Numbers{9, 9, 1, 2});
  CHECK(batch.targets.to_vector<double>() == Numbers{20, 0});
  CHECK(batch.others.at(0).to_vector<double>() == Numbers{0, 0, 1, 1});
}
