#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>
#include <sstream>

#include <linnet/linnet.h>

#include "tests/support/values.h"

/// Lines that users of PyTorch, its C++ API and NumPy write first, as in their tutorials. Each gives the right value
/// here, or is in tests/nn/first_lines/refused.txt, which refused_lines_test.cpp compiles.

using namespace linnet;

namespace {

using Doubles = std::vector<double>;
using Bools = std::vector<bool>;

Doubles values(const Tensor& x) { return x.to_vector<double>(); }
Bools bools(const Tensor& x) { return x.to_vector<bool>(); }

std::string text_of(const auto& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

const Tensor& matrix() {
  static const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  return x;
}

void check_equal_tensors(const Tensor& a, const Tensor& b) {
  CHECK(a.shape() == b.shape());
  CHECK(a.dtype() == b.dtype());
  CHECK(test::bytes_of(a) == test::bytes_of(b));
}

}  // namespace

// Also as members, these would compute something else: dims would be read as p, and keepdim as the correction.
template <class T>
concept TakesDimsForP = requires(T x) { x.norm({1}); };
template <class T>
concept TakesKeepdimForCorrection = requires(T x) { x.var({0}, true); };
static_assert(!TakesDimsForP<Tensor> && !TakesKeepdimForCorrection<Tensor>);

TEST_CASE("first lines: making tensors") {
  CHECK(tensor({{1.0, 2.0}, {3.0, 4.0}}).shape() == Shape{2, 2});
  CHECK(tensor({{1, 2}, {3, 4}}, DType::int64).dtype() == DType::int64);
  CHECK_THROWS_WITH_AS(tensor({{1, 2}, {3}}), doctest::Contains("the first has 2 numbers, and another 1"),
                       ShapeError);
  CHECK(values(tensor({1, 2, 3})) == Doubles{1, 2, 3});
  CHECK(tensor<int64_t>({3}).shape() == Shape{1});
  CHECK(zeros(3).shape() == Shape{3});
  const std::vector<int64_t> sizes{2, 3};
  CHECK(zeros(sizes).shape() == Shape{2, 3});
  CHECK(ones(std::vector<int>{2, 3}).shape() == Shape{2, 3});
  CHECK(ones(std::array<int64_t, 2>{2, 3}).shape() == Shape{2, 3});
  CHECK(full(std::span<const int64_t>(sizes), 7).shape() == Shape{2, 3});
  CHECK(eye(2)[{1, 1}].item() == 1);
  CHECK(values(arange(3)) == Doubles{0, 1, 2});
  Generator rng(1);
  CHECK(rand_like(matrix(), rng).shape() == Shape{2, 3});
  CHECK(randn_like(matrix(), rng).dtype() == DType::float32);
  CHECK(zeros_like(matrix()).sum().item() == 0);
}

TEST_CASE("first lines: looking at tensors") {
  const Tensor& x = matrix();
  CHECK(text_of(x.shape()) == "[2, 3]");
  CHECK(text_of(x[0]) == "[1. 2. 3.]");
  CHECK(text_of(x.dtype()) == "float32");
  CHECK(text_of(x.device()) == "cpu");
  CHECK(x.size(0) == 2);
  CHECK(x.shape()[1] == 3);
  CHECK(x.rank() == 2);
  CHECK(x.numel() == 6);
  CHECK(mean(x).item() == 3.5);
  CHECK(x.mean().item<float>() == 3.5f);
  CHECK(x.sum().item() == 21);
  CHECK(text_of(x.sum().item()) == "21");
  CHECK(tensor(std::vector<int64_t>{1LL << 53}).item() == 9007199254740992.0);
  CHECK_THROWS_WITH_AS(tensor(std::vector<int64_t>{(1LL << 53) + 1}).item(), doctest::Contains("use item<int64_t>()"),
                       ValueError);
}

TEST_CASE("first lines: indices and slices") {
  const Tensor& x = matrix();
  CHECK(values(x[0]) == Doubles{1, 2, 3});
  CHECK(values(x[-1]) == Doubles{4, 5, 6});
  CHECK(x[1][2].item() == 6);
  CHECK(x[{1, 2}].item() == 6);
  CHECK(x[{1, 0}].item() == 4);
  CHECK(values(x[{1}]) == Doubles{4, 5, 6});
  CHECK(values(x[{Slice{}, 1}]) == Doubles{2, 5});
  CHECK(values(x[{0, Slice{1, 3}}]) == Doubles{2, 3});
  CHECK(values(x[{0, Slice{.step = 2}}]) == Doubles{1, 3});
  CHECK(values(x[{0, Slice{.stop = -1}}]) == Doubles{1, 2});
  CHECK(values(x[Slice{1}]) == Doubles{4, 5, 6});
  CHECK(values(x[{ellipsis, 0}]) == Doubles{1, 4});
  CHECK(x[{newaxis}].shape() == Shape{1, 2, 3});
  CHECK(x[{ellipsis, newaxis}].shape() == Shape{2, 3, 1});
  CHECK_THROWS_AS(x[2], IndexError);
  CHECK_THROWS_WITH_AS((x[{0, 3}]), doctest::Contains("index 3 is out of range for dim 1 of [2, 3]"), IndexError);
  CHECK_THROWS_WITH_AS((x[{newaxis, Slice{}, -4}]), doctest::Contains("index -4 is out of range for dim 1 of [2, 3]"),
                       IndexError);
  CHECK_THROWS_WITH_AS((zeros({2, 3, 4})[{0, ellipsis, 4}]),
                       doctest::Contains("index 4 is out of range for dim 2 of [2, 3, 4]"), IndexError);
  CHECK_THROWS_WITH_AS((x[{0, 0, 0}]), doctest::Contains("3 indices are too many for a tensor of shape [2, 3]"),
                       IndexError);
  CHECK_THROWS_WITH_AS((x[{ellipsis, ellipsis}]), doctest::Contains("only one index may be an ellipsis"), IndexError);

  Tensor y = zeros({2, 2});
  y[0] = 1;
  y[1] = tensor({0, 5});
  y[0] += 2;
  CHECK(values(y) == Doubles{3, 3, 0, 5});
  Tensor leaf = ones({2, 2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(leaf[0] = 1, doctest::Contains("(first_lines_test.cpp:"), AutogradError);
  CHECK_THROWS_WITH_AS(leaf[0] = y[1], doctest::Contains("(first_lines_test.cpp:"), AutogradError);
  backward(sum(leaf[{Slice{}, 1}]));
  CHECK(values(leaf.grad()) == Doubles{0, 1, 0, 1});
}

TEST_CASE("first lines: shapes") {
  const Tensor& x = matrix();
  CHECK(x.view({3, 2}).shape() == Shape{3, 2});
  CHECK(x.view(-1).shape() == Shape{6});
  CHECK(x.reshape(-1).shape() == Shape{6});
  CHECK(x.reshape({x.size(0), -1}).shape() == Shape{2, 3});
  CHECK_THROWS_WITH_AS(x.t().view({6}), doctest::Contains("without a copy; use reshape([6])"), ShapeError);
  CHECK(x.t().shape() == Shape{3, 2});
  CHECK(x.transpose(0, 1).shape() == Shape{3, 2});
  CHECK(transpose(x, 0, 1).shape() == Shape{3, 2});
  CHECK(transpose(x).shape() == Shape{3, 2});
  CHECK(permute(x, {1, 0}).shape() == Shape{3, 2});
  CHECK(reshape(x, {3, 2}).shape() == Shape{3, 2});
  CHECK(flatten(x).shape() == Shape{6});
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 2, 3});
  CHECK(squeeze(unsqueeze(x, 0), 0).shape() == Shape{2, 3});
  CHECK(values(select(x, 1, 0)) == Doubles{1, 4});
  CHECK(values(narrow(x, 1, 1, 2)) == Doubles{2, 3, 5, 6});
  CHECK(split(x, 1).size() == 2);
  CHECK(chunk(x, 2).size() == 2);
  CHECK(values(chunk(x, 2, 1)[1]) == Doubles{3, 6});
  CHECK(x.chunk(5, 1).size() == 3);
  CHECK_THROWS_AS(x.chunk(0), ValueError);
  CHECK(concat({x, x}).shape() == Shape{4, 3});
  CHECK(stack({x, x}).shape() == Shape{2, 2, 3});
}

TEST_CASE("first lines: arithmetic and comparisons") {
  const Tensor x = tensor({-1, 0, 2});
  const Tensor y = tensor({0, 0, 0});
  CHECK(bools(x > 0) == Bools{false, false, true});
  CHECK(bools(0 > x) == Bools{true, false, false});
  CHECK(bools(x >= 0) == Bools{false, true, true});
  CHECK(bools(0 >= x) == Bools{true, true, false});
  CHECK(bools(x < y) == Bools{true, false, false});
  CHECK(bools(0 < x) == Bools{false, false, true});
  CHECK(bools(x <= 0.5) == Bools{true, true, false});
  CHECK(bools(0 <= x) == Bools{false, true, true});
  CHECK(bools(x == y) == Bools{false, true, false});
  CHECK(bools(x == 2) == Bools{false, false, true});
  CHECK(bools(2 == x) == Bools{false, false, true});
  CHECK(bools(x != y) == Bools{true, false, true});
  CHECK(bools(2 != x) == Bools{true, true, false});
  CHECK(bools(!(x > 0)) == Bools{true, true, false});
  CHECK(bools(x > -1 && x < 2) == Bools{false, true, false});
  CHECK(bools(x < 0 || x > 1) == Bools{true, false, true});
  CHECK(x.gt(0).any().item<bool>());
  CHECK(all(x == x).item<bool>());
  CHECK((x == 0).sum().item<int64_t>() == 1);
  CHECK(allclose(x, x + 1e-9));
  CHECK_FALSE(allclose(x, x + 1e-3));
  CHECK_FALSE(allclose(x, tensor({INFINITY, 0, 2})));
  CHECK(allclose(tensor({INFINITY, -1}), tensor({INFINITY, -1})));
  CHECK_FALSE(allclose(tensor({NAN}), tensor({NAN})));
  CHECK(allclose(tensor({NAN}), tensor({NAN}), 1e-5, 1e-8, true));
  CHECK(values(linnet::where(x > 0, x, 0)) == Doubles{0, 0, 2});
  CHECK(values(maximum(x, 0)) == Doubles{0, 0, 2});
  CHECK(values(-x) == Doubles{1, 0, -2});
  CHECK(values(1 - x) == Doubles{2, 1, -1});
  CHECK(values(x % 2) == Doubles{1, 0, 0});
  CHECK(values(7 % (x + 3)) == Doubles{1, 1, 2});
  CHECK(values(arange(5) % 3) == Doubles{0, 1, 2, 0, 1});
  CHECK_THROWS_WITH_AS(!x, doctest::Contains("float32, not bool"), DTypeError);
}

TEST_CASE("first lines: edits in place keep to the rules of copy_") {
  Tensor x = ones({2, 2});
  const Tensor alias = x;
  x += 1;
  x *= 3;
  x -= tensor({1, 2});
  x /= 2;
  CHECK(values(alias) == Doubles{2.5, 2, 2.5, 2});
  x.t() += tensor({0, 10});
  CHECK(values(x) == Doubles{2.5, 2, 12.5, 12});
  CHECK_THROWS_WITH_AS(x += ones({3, 2, 2}), doctest::Contains("the result has shape [3, 2, 2]"), ShapeError);
  CHECK_THROWS_AS(arange(3) += 0.5, DTypeError);
  CHECK_THROWS_WITH_AS(x.masked_select(x > 0) += 1, doctest::Contains("+=: the left side is a copy"), ValueError);
  CHECK_THROWS_AS(x.t().contiguous() *= 2, ValueError);
  CHECK(values(x) == Doubles{2.5, 2, 12.5, 12});

  Tensor weight = ones({2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(weight -= 0.1, doctest::Contains("write x = x - y, or edit under NoGrad"), AutogradError);
  Tensor total = zeros({2});
  CHECK_THROWS_WITH_AS(total += weight, doctest::Contains("write x = x + y, or edit under NoGrad"), AutogradError);
  const Tensor loss = sum(square(weight));
  {
    const NoGrad no_grad;
    weight -= 0.5;
  }
  CHECK(values(weight) == Doubles{0.5, 0.5});
  CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("edited in place"), AutogradError);
}

TEST_CASE("first lines: members are the functions of their names") {
  const Tensor x = tensor({{0.5, -1.0, 2.0}, {1.5, 0.25, -0.75}}, DType::float64);
  const Tensor y = tensor({{1.0, 2.0, -1.0}, {0.5, 0.25, 3.0}}, DType::float64);
  const Tensor index = tensor({1, 0}, DType::int64);
  check_equal_tensors(x.add(y), add(x, y));
  check_equal_tensors(x.add(2), add(x, 2));
  check_equal_tensors(x.sub(y), sub(x, y));
  check_equal_tensors(x.sub(2), sub(x, 2));
  check_equal_tensors(x.mul(y), mul(x, y));
  check_equal_tensors(x.mul(2), mul(x, 2));
  check_equal_tensors(x.div(y), div(x, y));
  check_equal_tensors(x.div(2), div(x, 2));
  check_equal_tensors(x.remainder(y), remainder(x, y));
  check_equal_tensors(x.remainder(2), remainder(x, 2));
  check_equal_tensors(x.atan2(y), atan2(x, y));
  check_equal_tensors(x.lerp(y, x), lerp(x, y, x));
  check_equal_tensors(x.lerp(y, 0.25), lerp(x, y, 0.25));
  check_equal_tensors(x.pow(y), pow(x, y));
  check_equal_tensors(x.pow(2), pow(x, 2));
  check_equal_tensors(x.maximum(y), maximum(x, y));
  check_equal_tensors(x.maximum(1), maximum(x, 1));
  check_equal_tensors(x.minimum(y), minimum(x, y));
  check_equal_tensors(x.minimum(1), minimum(x, 1));
  check_equal_tensors(x.eq(y), eq(x, y));
  check_equal_tensors(x.eq(2), eq(x, 2));
  check_equal_tensors(x.ne(y), ne(x, y));
  check_equal_tensors(x.ne(2), ne(x, 2));
  check_equal_tensors(x.lt(y), lt(x, y));
  check_equal_tensors(x.lt(1), lt(x, 1));
  check_equal_tensors(x.le(y), le(x, y));
  check_equal_tensors(x.le(1), le(x, 1));
  check_equal_tensors(x.gt(y), gt(x, y));
  check_equal_tensors(x.gt(1), gt(x, 1));
  check_equal_tensors(x.ge(y), ge(x, y));
  check_equal_tensors(x.ge(1), ge(x, 1));
  check_equal_tensors(x.exp(), exp(x));
  check_equal_tensors(x.log(), log(x));
  check_equal_tensors(x.sqrt(), sqrt(x));
  check_equal_tensors(x.rsqrt(), rsqrt(x));
  check_equal_tensors(x.abs(), abs(x));
  check_equal_tensors(x.sign(), sign(x));
  check_equal_tensors(x.floor(), floor(x));
  check_equal_tensors(x.ceil(), ceil(x));
  check_equal_tensors(x.round(), round(x));
  check_equal_tensors(x.trunc(), trunc(x));
  check_equal_tensors(x.expm1(), expm1(x));
  check_equal_tensors(x.log1p(), log1p(x));
  check_equal_tensors(x.log2(), log2(x));
  check_equal_tensors(x.log10(), log10(x));
  check_equal_tensors(x.sin(), sin(x));
  check_equal_tensors(x.cos(), cos(x));
  check_equal_tensors(x.tan(), tan(x));
  check_equal_tensors(x.asin(), asin(x));
  check_equal_tensors(x.acos(), acos(x));
  check_equal_tensors(x.atan(), atan(x));
  check_equal_tensors(x.sinh(), sinh(x));
  check_equal_tensors(x.cosh(), cosh(x));
  check_equal_tensors(x.square(), square(x));
  check_equal_tensors(x.reciprocal(), reciprocal(x));
  check_equal_tensors(x.erf(), erf(x));
  check_equal_tensors(x.tanh(), tanh(x));
  check_equal_tensors(x.sigmoid(), sigmoid(x));
  check_equal_tensors(x.relu(), relu(x));
  check_equal_tensors(x.neg(), neg(x));
  check_equal_tensors(x.log().isnan(), isnan(log(x)));
  check_equal_tensors(x.reciprocal().isinf(), isinf(reciprocal(x)));
  check_equal_tensors(x.log().isfinite(), isfinite(log(x)));
  check_equal_tensors(x.clamp(-0.5, 1), clamp(x, -0.5, 1));
  check_equal_tensors(x.masked_fill(x > 0, 7), masked_fill(x, x > 0, 7));
  check_equal_tensors(x.sum(1), sum(x, {1}));
  check_equal_tensors(x.sum({0, 1}, true), sum(x, {0, 1}, true));
  check_equal_tensors(x.mean(-1), mean(x, {-1}));
  check_equal_tensors(x.max({1}), max(x, {1}));
  check_equal_tensors(x.min(), min(x));
  const auto [largest, places] = x.max(1);
  check_equal_tensors(largest, max(x, 1).values);
  check_equal_tensors(places, x.argmax(1));
  check_equal_tensors(x.min(0, true).values, min(x, {0}, true));
  check_equal_tensors(x.logsumexp({1}), logsumexp(x, {1}));
  check_equal_tensors(x.gt(0).any({0}), any(gt(x, 0), {0}));
  check_equal_tensors(x.gt(0).all({0}), all(gt(x, 0), {0}));
  check_equal_tensors(x.var({1}, 0), var(x, {1}, 0));
  check_equal_tensors(x.norm(1, {1}), norm(x, 1, {1}));
  check_equal_tensors(x.argmax(1), argmax(x, 1));
  check_equal_tensors(x.argmin(0, true), argmin(x, 0, true));
  check_equal_tensors(x.cumsum(1), cumsum(x, 1));
  check_equal_tensors(x.softmax(-1), softmax(x, -1));
  check_equal_tensors(x.log_softmax(0), log_softmax(x, 0));
  check_equal_tensors(x.matmul(y.t()), matmul(x, transpose(y)));
  check_equal_tensors(x.sort(0, true).values, sort(x, 0, true).values);
  check_equal_tensors(x.topk(2).indices, topk(x, 2).indices);
  check_equal_tensors(x.isclose(y, 0.5), isclose(x, y, 0.5));
  CHECK(x.allclose(x + 1e-12));
  CHECK_FALSE(x.allclose(y));
  check_equal_tensors(x.index_select(0, index), index_select(x, 0, index));
  check_equal_tensors(x.gather(0, tensor({{0, 1, 1}}, DType::int64)),
                      gather(x, 0, tensor({{0, 1, 1}}, DType::int64)));
  const Tensor row = tensor({{0, 1, 1}}, DType::int64);
  check_equal_tensors(x.prod({1}), prod(x, {1}));
  check_equal_tensors(x.cumprod(1), cumprod(x, 1));
  check_equal_tensors(x.median(), median(x));
  check_equal_tensors(x.median(1, true).indices, median(x, 1, true).indices);
  check_equal_tensors(x.diff(1, 0), diff(x, 1, 0));
  check_equal_tensors(x[0].outer(y[0]), outer(x[0], y[0]));
  check_equal_tensors(x.take_along_dim(row, 0), take_along_dim(x, row, 0));
  check_equal_tensors(x.scatter(0, row, y), scatter(x, 0, row, y));
  check_equal_tensors(x.scatter(0, row, 1), scatter(x, 0, row, 1));
  check_equal_tensors(x.scatter_add(0, row, y), scatter_add(x, 0, row, y));
  check_equal_tensors(x.index_put({index}, y), index_put(x, {index}, y));
  check_equal_tensors(x.index_put({index}, y, true), index_put(x, {index}, y, true));
  check_equal_tensors(x.masked_select(x > 0), masked_select(x, x > 0));
  check_equal_tensors(x.nonzero(), nonzero(x));
  check_equal_tensors(x.unique().counts, unique(x).counts);
  check_equal_tensors(index.bincount(), bincount(index));
  check_equal_tensors(x.flip(1), flip(x, {1}));
  check_equal_tensors(x.roll(1, 0), roll(x, 1, 0));
  check_equal_tensors(x.repeat({2, 1}), repeat(x, {2, 1}));
  check_equal_tensors(x.tile(2), tile(x, 2));
  check_equal_tensors(x.repeat_interleave(2, 1), repeat_interleave(x, 2, 1));
  check_equal_tensors(x.repeat_interleave(index, 0), repeat_interleave(x, index, 0));
  check_equal_tensors(x.diag(), diag(x));
  check_equal_tensors(x.trace(), trace(x));
  check_equal_tensors(x.tril(), tril(x));
  check_equal_tensors(x.triu(1), triu(x, 1));
}

TEST_CASE("first lines: members pass on their options") {
  const Tensor x = tensor({{0.5, -1.0, 2.0}, {1.5, 0.25, -0.75}}, DType::float64);
  const Tensor y = x + 0.01;
  const Tensor index = tensor({1, 0}, DType::int64);
  check_equal_tensors(x.prod({1}, true), prod(x, {1}, true));
  check_equal_tensors(x.mean({1}, true), mean(x, {1}, true));
  check_equal_tensors(x.max({1}, true), max(x, {1}, true));
  check_equal_tensors(x.min({1}, true), min(x, {1}, true));
  check_equal_tensors(x.max(1, true).values, max(x, 1, true).values);
  check_equal_tensors(x.min(1, true).indices, min(x, 1, true).indices);
  check_equal_tensors(x.logsumexp({1}, true), logsumexp(x, {1}, true));
  check_equal_tensors(x.gt(0).any({1}, true), any(gt(x, 0), {1}, true));
  check_equal_tensors(x.gt(0).all({1}, true), all(gt(x, 0), {1}, true));
  check_equal_tensors(x.var({1}, 0.5, true), var(x, {1}, 0.5, true));
  check_equal_tensors(x.norm(1, {1}, true), norm(x, 1, {1}, true));
  check_equal_tensors(x.argmax(1, true), argmax(x, 1, true));
  check_equal_tensors(x.diff(2, 1, y, x * 3), diff(x, 2, 1, y, x * 3));
  check_equal_tensors(x.topk(1, 0, false).values, topk(x, 1, 0, false).values);
  check_equal_tensors(x.clamp({}, 1), clamp(x, {}, 1));
  check_equal_tensors(x.isclose(y, 0, 0.02), isclose(x, y, 0, 0.02));
  check_equal_tensors(x.log().isclose(x.log(), 1e-5, 1e-8, true), isclose(log(x), log(x), 1e-5, 1e-8, true));
  CHECK(x.allclose(y, 0, 0.02));
  CHECK(x.allclose(y, 0.1, 0));
  CHECK(x.log().allclose(x.log(), 1e-5, 1e-8, true));
  check_equal_tensors(index.bincount(tensor({0.5, 2.0}), 4), bincount(index, tensor({0.5, 2.0}), 4));
  check_equal_tensors(x.take_along_dim(index), take_along_dim(x, index));
  check_equal_tensors(x.repeat_interleave(2), repeat_interleave(x, 2));
  check_equal_tensors(index.repeat_interleave(index), repeat_interleave(index, index));
  check_equal_tensors(x.roll(2), roll(x, 2));
  check_equal_tensors(x.tril(-1), tril(x, -1));
  check_equal_tensors(x.diag(1), diag(x, 1));
}

TEST_CASE("first lines: gradients") {
  Tensor w = ones({3, 2}).set_requires_grad();
  const Tensor loss = matmul(matrix(), w).square().mean();
  loss.backward();
  CHECK(w.grad().shape() == Shape{3, 2});
  CHECK_THROWS_WITH_AS(w.t().backward(), doctest::Contains("backward"), ShapeError);
  {
    NoGrad guard;
    w -= 0.01 * w.grad();
  }
  CHECK_THROWS_WITH_AS(ones({2}).set_requires_grad().grad().sum(),
                       doctest::Contains("or the gradient of a tensor that no backward reached"), ValueError);
  w.set_grad({});
  CHECK_FALSE(w.grad().defined());
}
