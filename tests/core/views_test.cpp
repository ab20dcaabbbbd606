#include <functional>
#include <limits>

#include <doctest/doctest.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/core/tensor.h>
#include <linnet/core/views.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/values.h"

/// Compares every view with index arithmetic: each index of the view must read the element that the definition gives.

namespace linnet::test {
namespace {

using Index = std::vector<int64_t>;

/// Calls `f` for every index of `shape`, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Index&)>& f) {
  if (shape.numel() == 0) return;
  Index index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t n = shape.numel(); n > 0; --n) {
    f(index);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape[static_cast<int>(d)]) break;
      index[d] = 0;
    }
  }
}

/// The element of `x`, which counts from 0 in row-major order, at `index`.
double counted(const Shape& x, const Index& index) {
  int64_t position = 0;
  for (size_t d = 0; d < index.size(); ++d) position = position * x[static_cast<int>(d)] + index[d];
  return static_cast<double>(position);
}

/// Checks a view of `counting(from)`: it has `shape`, shares the elements, and at index i reads index
/// source(i).
void check_view(const Tensor& x, const Tensor& view, const Shape& shape,
                const std::function<Index(const Index&)>& source) {
  REQUIRE(view.shape() == shape);
  std::vector<double> expected;
  for_each_index(shape, [&](const Index& index) { expected.push_back(counted(x.shape(), source(index))); });
  CHECK(view.to_vector<double>() == expected);
  const uint64_t before = detail::version(x);
  detail::bump_version(view);
  CHECK(detail::version(x) == before + 1);
}

Index with(Index index, size_t position, int64_t value) {
  index.insert(index.begin() + static_cast<std::ptrdiff_t>(position), value);
  return index;
}

}  // namespace

TEST_CASE("diagonal is a view of the elements where two dims go along") {
  const Tensor x = arange(12).reshape({3, 4});
  using Numbers = std::vector<int64_t>;
  CHECK(x.diagonal().to_vector<int64_t>() == Numbers{0, 5, 10});
  CHECK(x.diagonal(1).to_vector<int64_t>() == Numbers{1, 6, 11});
  CHECK(x.diagonal(3).to_vector<int64_t>() == Numbers{3});
  CHECK(x.diagonal(-2).to_vector<int64_t>() == Numbers{8});
  CHECK(diagonal(x, 1, 1, 0).to_vector<int64_t>() == Numbers{4, 9});  // dims 1, 0: as below the main diagonal
  CHECK(x.diagonal(4).shape() == Shape{0});
  CHECK(x.diagonal(std::numeric_limits<int64_t>::min()).shape() == Shape{0});
  CHECK(x.reshape({3, 2, 2}).diagonal(0, 1, -1).to_vector<int64_t>() == Numbers{0, 3, 4, 7, 8, 11});
  Tensor y = x.clone();
  y.diagonal().fill_(-1);
  CHECK(y.to_vector<int64_t>() == Numbers{-1, 1, 2, 3, 4, -1, 6, 7, 8, 9, -1, 11});
  CHECK_THROWS_WITH_AS(x.diagonal(0, 1, -1), doctest::Contains("dim1 1 and dim2 -1 of [3, 4] are one dim"),
                       ShapeError);
  CHECK_THROWS_AS(x.diagonal(0, 0, 2), ShapeError);
}

TEST_CASE("views: transpose and permute") {
  const Tensor x = counting({2, 3, 4});
  check_view(x, x.transpose(0, -1), {4, 3, 2}, [](auto& i) { return Index{i[2], i[1], i[0]}; });
  check_view(x, x.transpose(1, 1), {2, 3, 4}, [](auto& i) { return i; });
  check_view(x, x.permute({2, 0, 1}), {4, 2, 3}, [](auto& i) { return Index{i[1], i[2], i[0]}; });
  check_view(x, x.permute({-1, -2, -3}), {4, 3, 2}, [](auto& i) { return Index{i[2], i[1], i[0]}; });
  const Tensor scalar = counting({});
  check_view(scalar, scalar.permute({}), {}, [](auto& i) { return i; });
  CHECK_THROWS_AS(x.permute({0, 1}), ShapeError);
  CHECK_THROWS_AS(x.permute({0, 1, 1}), ShapeError);
  CHECK_THROWS_AS(x.transpose(0, 3), ShapeError);
  CHECK_THROWS_AS(scalar.transpose(0, 0), ShapeError);
}

TEST_CASE("views: rank 8") {
  const Tensor x = counting({2, 1, 3, 1, 2, 1, 2, 2});
  check_view(x, x.permute({7, 6, 5, 4, 3, 2, 1, 0}), {2, 2, 1, 2, 1, 3, 1, 2},
             [](auto& i) { return Index(i.rbegin(), i.rend()); });
  check_view(x, x.select(2, 1), {2, 1, 1, 2, 1, 2, 2}, [](auto& i) { return with(i, 2, 1); });
  CHECK(x.permute({7, 6, 5, 4, 3, 2, 1, 0}).contiguous().permute({7, 6, 5, 4, 3, 2, 1, 0}).to_vector<double>() ==
        x.to_vector<double>());
}

TEST_CASE("views: narrow, slice and select") {
  const Tensor x = counting({4, 5});
  check_view(x, x.narrow(1, 1, 3), {4, 3}, [](auto& i) { return Index{i[0], i[1] + 1}; });
  check_view(x, x.narrow(0, -2, 2), {2, 5}, [](auto& i) { return Index{i[0] + 2, i[1]}; });
  check_view(x, x.narrow(0, 4, 0), {0, 5}, [](auto& i) { return i; });
  check_view(x, x.slice(1, 0, 5, 2), {4, 3}, [](auto& i) { return Index{i[0], 2 * i[1]}; });
  check_view(x, x.slice(1, -4, -1, 2), {4, 2}, [](auto& i) { return Index{i[0], 1 + 2 * i[1]}; });
  check_view(x, x.slice(0, 1, 1000), {3, 5}, [](auto& i) { return Index{i[0] + 1, i[1]}; });
  check_view(x, x.slice(0, -1000, 2), {2, 5}, [](auto& i) { return i; });
  check_view(x, x.slice(0, 3, 1), {0, 5}, [](auto& i) { return i; });
  check_view(x, x.slice(0, 0, 4, 100), {1, 5}, [](auto& i) { return i; });
  check_view(x, x.select(0, -1), {5}, [](auto& i) { return Index{3, i[0]}; });
  check_view(x, x.select(1, 2), {4}, [](auto& i) { return Index{i[0], 2}; });
  CHECK(x.select(0, 3).select(0, 4).item<double>() == 19);
  check_view(x, x.slice(0, 1, 4, INT64_MAX), {1, 5}, [](auto& i) { return Index{i[0] + 1, i[1]}; });
  CHECK_THROWS_AS(x.narrow(0, 3, 2), IndexError);
  CHECK_THROWS_AS(x.narrow(0, 1, INT64_MAX), IndexError);
  CHECK_THROWS_AS(x.narrow(0, INT64_MAX, 1), IndexError);
  CHECK_THROWS_AS(x.narrow(0, 0, -1), IndexError);
  CHECK_THROWS_AS(x.narrow(0, -5, 1), IndexError);
  CHECK_THROWS_AS(x.slice(0, 0, 4, 0), ValueError);
  CHECK_THROWS_AS(x.select(0, 4), IndexError);
  CHECK_THROWS_AS(x.select(1, -6), IndexError);
}

TEST_CASE("views: squeeze, unsqueeze and expand") {
  const Tensor x = counting({3, 1, 2});
  check_view(x, x.squeeze(1), {3, 2}, [](auto& i) { return Index{i[0], 0, i[1]}; });
  check_view(x, x.unsqueeze(0), {1, 3, 1, 2}, [](auto& i) { return Index{i[1], i[2], i[3]}; });
  check_view(x, x.unsqueeze(-1), {3, 1, 2, 1}, [](auto& i) { return Index{i[0], i[1], i[2]}; });
  check_view(x, x.expand({3, 4, 2}), {3, 4, 2}, [](auto& i) { return Index{i[0], 0, i[2]}; });
  check_view(x, x.expand({2, -1, 5, -1}), {2, 3, 5, 2}, [](auto& i) { return Index{i[1], 0, i[3]}; });
  check_view(x, x.expand({3, 0, 2}), {3, 0, 2}, [](auto& i) { return i; });
  const Tensor scalar = counting({});
  check_view(scalar, scalar.expand({2, 2}), {2, 2}, [](auto&) { return Index{}; });
  check_view(scalar, scalar.unsqueeze(0), {1}, [](auto&) { return Index{}; });
  CHECK_THROWS_AS(x.squeeze(0), ShapeError);
  CHECK_THROWS_AS(x.unsqueeze(4), ShapeError);
  CHECK_THROWS_AS(x.expand({3, 4, 3}), ShapeError);
  CHECK_THROWS_AS(x.expand({2}), ShapeError);
  CHECK_THROWS_AS(x.expand({-1, 3, 1, 2}), ShapeError);
  CHECK_THROWS_WITH_AS(scalar.expand({int64_t{1} << 32, int64_t{1} << 32}),
                       doctest::Contains("more elements than 64 bits can count"), ShapeError);
}

TEST_CASE("views: view and expand to the same shape are views, not the tensor itself") {
  const auto view = [](const Tensor& x) { return x.view(x.shape()); };
  const auto expand = [](const Tensor& x) { return x.expand({-1, 3}); };
  for (const std::function<Tensor(const Tensor&)>& same : {std::function(view), std::function(expand)}) {
    const Tensor x = counting({2, 3});
    check_view(x, same(x), {2, 3}, [](auto& i) { return i; });
    same(x).set_requires_grad();
    CHECK_FALSE(x.requires_grad());
    Tensor w = counting({2, 3}).set_requires_grad(), seen;
    Tensor part = same(w);
    part.register_hook([&](const Tensor& g) { return seen = g; });
    (part * 2 + w * 3).sum().backward();
    CHECK(seen.to_vector<double>() == std::vector<double>(6, 2));
    CHECK(w.grad().to_vector<double>() == std::vector<double>(6, 5));
  }
}

TEST_CASE("views: split") {
  const Tensor x = counting({2, 5});
  const std::vector<Tensor> parts = x.split(2, 1);
  REQUIRE(parts.size() == 3);
  check_view(x, parts[1], {2, 2}, [](auto& i) { return Index{i[0], i[1] + 2}; });
  check_view(x, parts[2], {2, 1}, [](auto& i) { return Index{i[0], 4}; });
  CHECK(x.split(5, 1).size() == 1);
  const std::vector<Tensor> nothing = counting({0, 3}).split(2);
  REQUIRE(nothing.size() == 1);
  CHECK(nothing[0].shape() == Shape{0, 3});
  CHECK_THROWS_AS(x.split(0), ValueError);
  const std::vector<Tensor> chunks = counting({0, 3}).chunk(3);  // as in PyTorch, all of them
  CHECK(chunks.size() == 3);
  CHECK(chunks.back().shape() == Shape{0, 3});
}

TEST_CASE("views: reshape of a contiguous tensor shares its elements") {
  const Tensor x = counting({2, 3, 4});
  const auto same_position = [](const Shape& shape) {
    return [shape](const Index& i) {
      auto position = static_cast<int64_t>(counted(shape, i));
      return Index{position / 12, position / 4 % 3, position % 4};
    };
  };
  for (const Shape& shape : {Shape{24}, Shape{4, 6}, Shape{1, 24, 1}, Shape{2, 2, 2, 3}, Shape{3, 1, 8}}) {
    check_view(x, x.reshape(shape), shape, same_position(shape));
  }
  check_view(x, x.reshape({-1, 6}), {4, 6}, same_position({4, 6}));
  check_view(x, x.flatten(), {24}, same_position({24}));
  check_view(x, x.flatten(1), {2, 12}, same_position({2, 12}));
  check_view(x, x.flatten(0, -2), {6, 4}, same_position({6, 4}));
  CHECK(counting({}).reshape({1, 1}).shape() == Shape{1, 1});
  CHECK(counting({}).flatten().shape() == Shape{1});
  CHECK(counting({0, 3}).reshape({5, 0}).shape() == Shape{5, 0});
  CHECK(counting({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  CHECK_THROWS_AS(x.reshape({5, -1}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.reshape({25}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-2, 12}), ShapeError);
  CHECK_THROWS_AS(counting({0, 3}).reshape({-1, 0}), ShapeError);
  CHECK_THROWS_AS(x.flatten(2, 1), ShapeError);
}

TEST_CASE("views: reshape of any other layout has the same elements, shared where the layout allows") {
  const Tensor x = counting({4, 6});
  const auto shares = [&](const Tensor& view) {
    const uint64_t before = detail::version(x);
    detail::bump_version(view);
    return detail::version(x) > before;
  };
  const auto check = [&](const Tensor& view, const Shape& shape, bool shared) {
    const Tensor reshaped = view.reshape(shape);
    CHECK(reshaped.to_vector<double>() == view.to_vector<double>());
    CHECK(reshaped.shape() == shape);
    CHECK(shares(reshaped) == shared);
  };
  check(x.transpose(0, 1), {24}, false);
  check(x.transpose(0, 1), {2, 3, 4}, true);
  check(x.transpose(0, 1), {6, 2, 2}, true);
  check(x.transpose(0, 1), {3, 8}, false);
  check(x.narrow(1, 0, 3), {12}, false);
  check(x.narrow(1, 0, 3), {2, 2, 3}, true);
  check(x.narrow(0, 1, 2), {12}, true);
  check(x.slice(1, 0, 6, 2), {4, 1, 3}, true);
  check(x.slice(1, 0, 6, 2), {12}, true);
  check(x.select(1, 2), {2, 2}, true);
  check(x.select(1, 2).unsqueeze(0).expand({3, 4}), {3, 2, 2}, true);
  check(x.select(1, 2).unsqueeze(0).expand({3, 4}), {12}, false);
  check(x.select(1, 2).select(0, 0).expand({2, 3}), {6}, true);
}

TEST_CASE("views: reshape counts elements beyond 64 bits") {
  for (const Shape& shape : {Shape{int64_t{1} << 32, int64_t{1} << 32}, Shape{7, 0x6DB6DB6DB6DB6DB7}}) {
    CHECK_THROWS_WITH_AS(Tensor::empty({0}).reshape(shape), doctest::Contains("more elements than"), ShapeError);
    CHECK_THROWS_AS(Tensor::empty({1}).reshape(shape), ShapeError);
  }
  CHECK_THROWS_AS(Tensor::empty({0}).reshape({0, int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
}

TEST_CASE("views: contiguous and clone") {
  const Tensor x = counting({3, 4});
  CHECK(x.is_contiguous());
  CHECK(x.narrow(0, 1, 2).is_contiguous());
  CHECK_FALSE(x.narrow(1, 1, 2).is_contiguous());
  CHECK_FALSE(x.transpose(0, 1).is_contiguous());
  CHECK(counting({1, 4}).transpose(0, 1).is_contiguous());
  CHECK(counting({0, 4}).transpose(0, 1).is_contiguous());
  CHECK(counting({}).is_contiguous());
  CHECK(detail::view(x.contiguous()).data == detail::view(x).data);
  CHECK(detail::view(x.clone()).data != detail::view(x).data);
  const Tensor columns = x.transpose(0, 1).contiguous();
  CHECK(columns.is_contiguous());
  CHECK(columns.data<double>()[1] == 4);
}

}  // namespace linnet::test
