#include <linnet/core/device/kernel_access.h>
#include <linnet/core/tensor.h>

#include <cmath>
#include <latch>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/values.h"

namespace linnet::test {

TEST_CASE("tensor: a handle shares, a clone does not") {
  const Tensor x = counting({2, 3});
  Tensor same = x;
  Tensor copy = x.clone();
  same.fill_(7);
  CHECK(x.to_vector<double>() == std::vector<double>(6, 7));
  CHECK(copy.data<double>()[5] == 5);
  copy.fill_(1);
  CHECK(x.data<double>()[0] == 7);
}

TEST_CASE("tensor: an undefined one says so") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK_THROWS_AS(none.shape(), ValueError);
  CHECK_THROWS_AS(none.reshape({1}), ValueError);
  CHECK_THROWS_AS(none.item<float>(), ValueError);
}

TEST_CASE("tensor: sizes and dtypes") {
  const Tensor x = Tensor::empty({2, 3, 4}, DType::int32);
  CHECK(x.rank() == 3);
  CHECK(x.numel() == 24);
  CHECK(x.size(-1) == 4);
  CHECK(x.size(0) == 2);
  CHECK_THROWS_AS(x.size(3), ShapeError);
  CHECK(x.dtype() == DType::int32);
  CHECK(x.strides() == Strides{12, 4, 1});
  CHECK_THROWS_AS(Tensor::empty({2, -1}), ShapeError);
  CHECK_THROWS_AS(Tensor::empty({2}, DType::bfloat16), DTypeError);
}

TEST_CASE("tensor: item converts, and asks for one element") {
  CHECK(counting({}).fill_(2.75).item<double>() == 2.75);
  CHECK(counting({1, 1}).fill_(2.75).item<int64_t>() == 2);
  CHECK(counting({1}).fill_(-1).item<bool>());
  CHECK_THROWS_AS(counting({2}).item<double>(), ShapeError);
  CHECK_THROWS_AS(counting({0}).item<double>(), ShapeError);
}

TEST_CASE("tensor: data is typed, contiguous and on the host") {
  Tensor x = counting({2, 3});
  CHECK(x.data<double>().size() == 6);
  x.mutable_data<double>()[4] = -1;
  CHECK(x.select(0, 1).select(0, 1).item<double>() == -1);
  CHECK_THROWS_AS(x.data<float>(), DTypeError);
  CHECK_THROWS_AS(x.transpose(0, 1).data<double>(), ShapeError);
  CHECK(x.narrow(0, 1, 1).data<double>()[0] == 3);
  CHECK(counting({0, 3}).transpose(0, 1).data<double>().empty());
}

TEST_CASE("tensor: to_vector reads any layout and dtype") {
  const Tensor x = counting({2, 3});
  CHECK(x.transpose(0, 1).to_vector<int32_t>() == std::vector<int32_t>{0, 3, 1, 4, 2, 5});
  CHECK(x.to_vector<bool>() == std::vector<bool>{false, true, true, true, true, true});
  CHECK(x.select(1, 1).unsqueeze(1).expand({2, 2}).to_vector<float>() == std::vector<float>{1, 1, 4, 4});
  CHECK(counting({3, 0}).to_vector<float>().empty());
}

TEST_CASE("tensor: conversion of dtypes") {
  const Tensor x = tensor({-1.5, 0, 2.9}, DType::float64);
  CHECK(x.to(DType::int64).to_vector<int64_t>() == std::vector<int64_t>{-1, 0, 2});
  CHECK(x.to(DType::boolean).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(x.to(DType::float32).dtype() == DType::float32);
  CHECK(detail::view(x.to(DType::float64)).data == detail::view(x).data);
  Tensor large = Tensor::empty({1}, DType::int64);
  large.mutable_data<int64_t>()[0] = (int64_t{1} << 53) + 1;
  CHECK(large.to(DType::int64).item<int64_t>() == (int64_t{1} << 53) + 1);
}

TEST_CASE("tensor: a scalar takes the tensor's dtype, and an integer keeps its 64 bits") {
  Tensor x = Tensor::empty({1}, DType::int64);
  CHECK(x.fill_((int64_t{1} << 53) + 1).item<int64_t>() == (int64_t{1} << 53) + 1);
  CHECK_THROWS_WITH_AS(x.fill_(2.9), doctest::Contains("the number 2.9 does not fit int64"), DTypeError);
  CHECK_THROWS_WITH_AS(x.fill_(std::numeric_limits<uint64_t>::max()), doctest::Contains("does not fit int64"),
                       DTypeError);
  CHECK_THROWS_AS(Tensor::empty({1}, DType::int32).fill_(int64_t{1} << 31), DTypeError);
  CHECK(x.item<int64_t>() == (int64_t{1} << 53) + 1);
  Tensor y = Tensor::empty({1});
  CHECK(y.fill_(0.1).item<float>() == 0.1f);
  CHECK(y.fill_(true).item<float>() == 1.0f);
  CHECK(std::isinf(y.fill_(-std::numeric_limits<double>::infinity()).item<float>()));
  CHECK(std::isnan(y.fill_(kNan).item<float>()));
}

TEST_CASE("tensor: copy_ broadcasts and converts, into views too") {
  Tensor x = counting({2, 3}).fill_(0);
  x.select(1, 1).copy_(tensor({5}, DType::int32));
  CHECK(x.to_vector<double>() == std::vector<double>{0, 5, 0, 0, 5, 0});
  x.transpose(0, 1).copy_(counting({3, 2}));
  CHECK(x.to_vector<double>() == std::vector<double>{0, 2, 4, 1, 3, 5});
  CHECK_THROWS_AS(x.copy_(counting({4})), ShapeError);
  x.slice(1, 0, 3, 2).fill_(-1);
  CHECK(x.to_vector<double>() == std::vector<double>{-1, 2, -1, -1, 3, -1});
}

TEST_CASE("tensor: copy_ from elements that overlap, and into those that are one in memory") {
  Tensor x = counting({3, 3});
  x.copy_(x.transpose(0, 1));
  CHECK(x.to_vector<double>() == std::vector<double>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  Tensor y = counting({6});
  y.narrow(0, 1, 5).copy_(y.narrow(0, 0, 5));
  CHECK(y.to_vector<double>() == std::vector<double>{0, 0, 1, 2, 3, 4});

  std::vector<double> memory(4096);
  std::iota(memory.begin(), memory.end(), 0);
  Tensor to = from_memory(memory.data(), {4096}, nullptr);
  const Tensor from = from_memory(memory.data(), {4096}, nullptr), before = from.clone();
  to.slice(0, 1, 4096).copy_(from.slice(0, 0, 4095));
  CHECK(to.slice(0, 1, 4096).to_vector<double>() == before.slice(0, 0, 4095).to_vector<double>());
  to.copy_(before.flip({0}));
  to.slice(0, 0, 4095).copy_(from.slice(0, 1, 4096));
  CHECK(to[0].item<double>() == 4094);
  Tensor repeated = counting({1, 2}).expand({3, 2});
  CHECK_THROWS_WITH_AS(repeated.copy_(counting({3, 2})), doctest::Contains("stride 0 in dim 0"), ShapeError);
  CHECK_THROWS_AS(repeated.fill_(1), ShapeError);
  CHECK(counting({1, 2}).expand({1, 1, 2}).fill_(1).numel() == 2);
}

TEST_CASE("tensor: borrowed memory is used in place and kept alive") {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  const std::weak_ptr<std::vector<float>> alive = owner;
  float* elements = owner->data();
  {
    Tensor view;
    {
      const Tensor x = from_memory(elements, {2, 2}, std::move(owner));
      CHECK(x.data<float>().data() == elements);
      view = x.select(0, 1);
    }
    CHECK_FALSE(alive.expired());
    CHECK(view.to_vector<float>() == std::vector<float>{3, 4});
  }
  CHECK(alive.expired());
}

TEST_CASE("tensor: borrowed memory has a shape that can be") {
  float number = 0;
  CHECK_THROWS_AS(from_memory(&number, {-1, 3}, nullptr), ShapeError);
  CHECK_THROWS_AS(from_memory(&number, {int64_t{1} << 40, int64_t{1} << 40}, nullptr), MemoryError);
}

TEST_CASE("tensor: an empty one has a shape that can be, too") {
  constexpr int64_t kLarge = int64_t{1} << 40;
  CHECK_THROWS_AS(zeros({0, kLarge, kLarge}), MemoryError);
  CHECK_THROWS_AS(zeros({kLarge, kLarge, 0}), MemoryError);
  CHECK(zeros({0, kLarge}).strides() == Strides{kLarge, 1});
}

TEST_CASE("tensor: in-place edits are refused where backward would not see them") {
  Tensor x = counting({3}).set_requires_grad();
  CHECK_THROWS_AS(x.fill_(1), AutogradError);
  CHECK_THROWS_AS(x.copy_(counting({3})), AutogradError);
  CHECK_THROWS_AS(x.mutable_data<double>(), AutogradError);
  CHECK_THROWS_AS(x.narrow(0, 0, 1).fill_(1), AutogradError);
  CHECK_THROWS_AS(counting({3}).copy_(x), AutogradError);
  const NoGrad no_grad;
  CHECK_NOTHROW(x.fill_(1));
  CHECK_NOTHROW(counting({3}).copy_(x));
}

TEST_CASE("tensor: an assignment to a copy is refused, and one to a view or to borrowed memory is not") {
  Tensor x = counting({2, 3});
  const auto same = [&] { return x; };
  CHECK_THROWS_AS(x.clone() = 1, ValueError);
  CHECK_THROWS_AS(x.clone() = counting({2, 3}), ValueError);
  CHECK_THROWS_AS(x.masked_select(x > 0) = 1, ValueError);
  CHECK_THROWS_AS(x.transpose(0, 1).contiguous() = 1, ValueError);
  x.select(0, 1) = 7;
  x.transpose(0, 1)[0] = tensor({8, 9}, DType::float64);
  CHECK(x.to_vector<double>() == std::vector<double>{8, 1, 2, 9, 7, 7});
  same() = 5;
  CHECK(x.to_vector<double>() == std::vector<double>(6, 5));
  std::vector<float> elements{1, 2};
  from_memory(elements.data(), {2}, nullptr) = 3;
  CHECK(elements == std::vector<float>{3, 3});
}

TEST_CASE("tensor: versions count edits through every handle and view") {
  Tensor x = counting({2, 3});
  const Tensor view = x.transpose(0, 1);
  const uint64_t start = detail::version(view);
  x.fill_(1);
  x.mutable_data<double>();
  x.select(0, 1).copy_(counting({3}));
  CHECK(detail::version(view) == start + 3);
  CHECK(detail::version(x.clone()) != detail::version(view));
}

TEST_CASE("tensor: versions count the edits of two threads in different views") {
  const Tensor x = counting({2, 3});
  const uint64_t start = detail::version(x);
  constexpr int kEdits = 1'000'000;
  std::latch both(2);
  std::vector<std::thread> threads;
  for (int row = 0; row < 2; ++row) {
    threads.emplace_back([&both, part = x.select(0, row)] {
      both.arrive_and_wait();
      for (int i = 0; i < kEdits; ++i) detail::bump_version(part);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(detail::version(x) == start + 2 * kEdits);
}

}  // namespace linnet::test
