#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/memory_stats.h>

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/leaf.h"
#include "tests/support/values.h"

/// What the tape records, and the gradients that backward and grad compute from it.

namespace linnet::test {

TEST_CASE("tape: leaves, recorded tensors and NoGrad") {
  const Tensor x = leaf({1, 2});
  const Tensor plain = tensor({1, 2}, DType::float64);
  CHECK(x.is_leaf());
  CHECK(plain.is_leaf());
  const Tensor y = mul(x, plain);
  CHECK(y.requires_grad());
  CHECK_FALSE(y.is_leaf());
  CHECK_FALSE(mul(plain, plain).requires_grad());
  CHECK_FALSE(y.detach().requires_grad());
  {
    const NoGrad no_grad;
    CHECK_FALSE(grad_enabled());
    {
      const NoGrad nested;
    }
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE(mul(x, x).requires_grad());
  }
  CHECK(grad_enabled());
  CHECK_THROWS_AS(Tensor(y).set_requires_grad(false), AutogradError);
  CHECK_THROWS_AS(tensor({1, 2}, DType::int64).set_requires_grad(), DTypeError);
  CHECK_FALSE(leaf({1}).set_requires_grad(false).requires_grad());
}

TEST_CASE("tape: EnableGrad records inside NoGrad, and each guard restores what was before it") {
  const Tensor x = leaf({1, 2});
  {
    const EnableGrad enabled;
    CHECK(grad_enabled());
  }
  CHECK(grad_enabled());
  const NoGrad no_grad;
  {
    const EnableGrad enable_grad;
    CHECK(mul(x, x).requires_grad());
    {
      const NoGrad inner;
      CHECK_FALSE(mul(x, x).requires_grad());
    }
    CHECK(grad_enabled());
  }
  CHECK_FALSE(grad_enabled());
  CHECK_FALSE(mul(x, x).requires_grad());
  bool of_another_thread = false;
  std::thread([&] { of_another_thread = grad_enabled(); }).join();
  CHECK(of_another_thread);
}

TEST_CASE("tape: a leaf that is frozen for a while keeps its place and its gradient") {
  Tensor x = leaf({1, 2});
  backward(sum(mul(x, 2)));
  const Tensor loss = sum(mul(x, 3));
  x.set_requires_grad(false);
  CHECK_FALSE(x.requires_grad());
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(mul(x, 2).requires_grad());
  backward(loss, {.retain = true});
  x.set_requires_grad();
  CHECK(values(x.grad()) == Doubles{2, 2});
  backward(loss);
  CHECK(values(x.grad()) == Doubles{5, 5});
  x.set_requires_grad(false).set_grad({});
  CHECK_FALSE(x.set_requires_grad().grad().defined());
  CHECK_THROWS_AS(x.set_requires_grad(false).set_grad(ones({2}, DType::float64)), AutogradError);

  x.set_requires_grad();
  int calls = 0;
  x.register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  const Tensor hooked = sum(mul(x, leaf({3, 4})));
  x.set_requires_grad(false);
  backward(hooked, {.retain = true});
  CHECK(calls == 0);
  x.set_requires_grad();
  backward(hooked);
  CHECK(calls == 1);
}

TEST_CASE("tape: backward accumulates until the gradient is dropped") {
  Tensor x = leaf({3, 4});
  CHECK_FALSE(x.grad().defined());
  backward(sum(square(x)));
  CHECK(values(x.grad()) == Doubles{6, 8});
  backward(sum(square(x)));
  CHECK(values(x.grad()) == Doubles{12, 16});
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
  backward(sum(x));
  CHECK(values(x.grad()) == Doubles{1, 1});
  CHECK_THROWS_AS(x.set_grad(tensor({1}, DType::float64)), ShapeError);
}

TEST_CASE("tape: the loss needs one element, or its gradient") {
  Tensor x = leaf({3, 4});
  const Tensor y = square(x);
  CHECK_THROWS_AS(backward(y), ShapeError);
  CHECK_THROWS_AS(backward(y, {.grad = tensor({1}, DType::float64)}), ShapeError);
  CHECK_THROWS_AS(backward(y, {.grad = tensor({1, 1})}), ShapeError);
  backward(y, {.grad = tensor({10, 100}, DType::float64)});
  CHECK(values(x.grad()) == Doubles{60, 800});
  CHECK_THROWS_AS(backward(tensor({1})), AutogradError);
}

TEST_CASE("tape: a second backward says how to have one") {
  Tensor x = leaf({3});
  const Tensor y = square(x);
  backward(y, {.retain = true});
  backward(y);
  CHECK(values(x.grad()) == Doubles{12});
  CHECK_THROWS_AS(backward(y), AutogradError);
}

TEST_CASE("tape: what was saved is freed as soon as backward has used it") {
  Tensor x = uniform({1000}, 1).set_requires_grad();
  const Tensor y = sum(exp(mul(x, 2)));
  const int64_t before = memory_stats().live;
  backward(y, {.retain = true});
  const int64_t retained = memory_stats().live;
  CHECK(retained > before);  // the gradient
  x.set_grad({});
  backward(y);
  CHECK(memory_stats().live < retained - 8000);
}

TEST_CASE("tape: gradients are summed over broadcast dimensions") {
  Tensor row = uniform({3}, 1).set_requires_grad();
  Tensor column = uniform({2, 1}, 2).set_requires_grad();
  backward(sum(add(row, column)));
  CHECK(values(row.grad()) == Doubles{2, 2, 2});
  CHECK(column.grad().shape() == Shape{2, 1});
  CHECK(values(column.grad()) == Doubles{3, 3});
}

TEST_CASE("tape: a diamond is walked once, and its sums have one order") {
  const auto gradient = [] {
    Tensor x = uniform({100}, 3).set_requires_grad();
    const Tensor a = exp(x);
    const Tensor b = sin(a);
    const Tensor c = cos(a);
    backward(sum(add(add(mul(b, c), mul(a, 1e-3)), mul(x, b))));
    return values(x.grad());
  };
  const Doubles first = gradient();
  for (int i = 0; i < 5; ++i) CHECK(gradient() == first);

  Tensor x = leaf({2});
  const Tensor y = square(x);
  int calls = 0;
  Tensor(y).register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  backward(add(mul(y, 3), mul(y, y)));
  CHECK(calls == 1);
  CHECK(values(x.grad()) == Doubles{(3 + 2 * 4) * 2 * 2});
}

TEST_CASE("tape: a hook keeps shape and dtype") {
  for (const Tensor& made : {ones({3}, DType::float64), ones({2}), ones({1, 2}, DType::float64)}) {
    Tensor x = leaf({1, 2});
    x.register_hook([&](const Tensor&) { return made; });
    CHECK_THROWS_WITH_AS(backward(sum(square(x))), doctest::Contains("for a gradient that is float64[2]"),
                         ShapeError);
    CHECK_FALSE(x.grad().defined());
  }
}

TEST_CASE("tape: a tensor that a hook wraps around the caller's memory is copied, not edited") {
  std::vector<double> memory{5, 6};
  Tensor x = leaf({1, 2});
  x.register_hook([&](const Tensor&) { return from_memory(memory.data(), {2}, nullptr); });
  backward(sum(x));
  backward(sum(x));
  CHECK(memory == Doubles{5, 6});
  CHECK(values(x.grad()) == Doubles{10, 12});
}

TEST_CASE("tape: of two nodes at one height, the one that was met first is walked first") {
  const Tensor x = leaf({1});
  Tensor first = mul(x, 2), second = mul(x, 3);
  std::vector<std::string> walked;
  first.register_hook([&](const Tensor&) { return walked.emplace_back("first"), Tensor(); });
  second.register_hook([&](const Tensor&) { return walked.emplace_back("second"), Tensor(); });
  const Tensor above = exp(second);  // its node is found through `second`, which backward reaches after `first`
  backward(sum(concat({mul(above, 4), mul(above, 5), first})));
  CHECK(walked == std::vector<std::string>{"first", "second"});
}

TEST_CASE("tape: one tensor used twice in one op") {
  Tensor x = leaf({3});
  backward(mul(x, x));
  CHECK(values(x.grad()) == Doubles{6});
}

TEST_CASE("tape: gradients that reach two leaves are not aliased") {
  Tensor a = leaf({1, 2});
  Tensor b = leaf({3, 4});
  const Tensor cotangent = tensor({5, 6}, DType::float64);
  backward(add(a, b), {.grad = cotangent});
  REQUIRE(values(b.grad()) == Doubles{5, 6});
  const NoGrad no_grad;
  a.grad().fill_(0);
  CHECK(values(b.grad()) == Doubles{5, 6});
  CHECK(values(cotangent) == Doubles{5, 6});
}

TEST_CASE("tape: a loss that is a leaf itself keeps a copy of the given gradient") {
  Tensor a = leaf({1, 2});
  Tensor cotangent = tensor({5, 6}, DType::float64);
  backward(a, {.grad = cotangent});
  cotangent.fill_(0);
  CHECK(values(a.grad()) == Doubles{5, 6});
}

TEST_CASE("tape: nothing is added in place to a gradient that one number stands for") {
  for (const bool sum_first : {false, true}) {
    const Tensor x = leaf({1, 2, 3}), w = tensor({5, 6, 7}, DType::float64);
    const Tensor all = mul(sum(x), 3), weighted = sum(mul(x, w));  // the gradient of a sum is one number, expanded
    backward(sum_first ? all + weighted : weighted + all);
    CHECK(values(x.grad()) == Doubles{8, 9, 10});
  }
}

TEST_CASE("tape: a gradient in the user's hands is not edited by a later backward") {
  Tensor x = leaf({1, 2});
  backward(sum(x));
  const Tensor kept = x.grad();
  backward(sum(x));
  CHECK(values(kept) == Doubles{1, 1});
  CHECK(values(x.grad()) == Doubles{2, 2});
}

TEST_CASE("tape: a gradient that is summed in place gets a new version, whole and by slices") {
  Tensor x = leaf({1, 2, 3});
  const auto memory = [&] { return detail::view(x.grad()).data; };
  const auto version = [&] { return detail::version(x.grad()); };
  backward(sum(x));
  const void* const first = memory();
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = version();
    backward(sum(mul(x, 2)));
    CHECK(memory() == first);  // no other tensor holds it
    CHECK(version() > before);
  }
  CHECK(values(x.grad()) == Doubles{7, 7, 7});

  // Overlapping slices are added to the sum of the earlier ones, one after the other.
  const auto version_after = [](int slices) {
    const Tensor y = leaf({1, 2, 3});
    Tensor loss = sum(y.narrow(0, 0, 2));
    for (int i = 1; i < slices; ++i) loss = loss + sum(y.narrow(0, 1, 2));
    backward(loss);
    CHECK(values(y.grad()) == Doubles{1, 1.0 * slices, slices - 1.0});
    return detail::version(y.grad());
  };
  CHECK(version_after(3) > version_after(2));
  CHECK(version_after(4) > version_after(3));
}

TEST_CASE("tape: a gradient that is transposed in memory is summed in place as well") {
  constexpr int64_t kSide = 64, kBytes = kSide * kSide * 8;
  Tensor x = zeros({kSide, kSide}, DType::float64);
  x.set_requires_grad();
  const Tensor loss = sum(mul(x.transpose(0, 1), 1)) + sum(mul(x.transpose(0, 1), 1));
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  backward(loss);
  CHECK(values(x.grad()) == Doubles(kSide * kSide, 2));
  CHECK(2 * (memory_stats().peak - before) < 5 * kBytes);  // the two terms; a separate sum would be a third tensor
}

TEST_CASE("tape: a gradient that a graph has saved is the graph's, whatever is added to its leaf's") {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  backward(sum(x));
  const Tensor of_gradient = sum(mul(w, x.grad()));                              // saves the gradient
  const Tensor of_part = sum(mul(w.narrow(0, 0, 1), x.grad().narrow(0, 0, 1)));  // and a view of it
  backward(sum(mul(x, 10)));
  CHECK(values(x.grad()) == Doubles{11, 11});
  CHECK_NOTHROW(backward(of_gradient));
  CHECK_NOTHROW(backward(of_part));
  CHECK(values(w.grad()) == Doubles{2, 1});

  // An edit of the gradient itself is noticed.
  const Tensor again = sum(mul(w, x.grad()));
  x.grad().fill_(0);
  CHECK_THROWS_AS(backward(again), AutogradError);
}

TEST_CASE("tape: hooks see the complete gradient and may replace it") {
  Tensor x = leaf({1, 2});
  Tensor y = mul(x, 3);
  std::vector<Doubles> seen;
  y.register_hook([&](const Tensor& g) { return seen.push_back(values(g)), Tensor(); });
  y.register_hook([](const Tensor& g) { return mul(g, 10); });
  x.register_hook([&](const Tensor& g) { return seen.push_back(values(g)), Tensor(); });
  backward(add(sum(y), sum(y)));
  CHECK(seen == std::vector<Doubles>{{2, 2}, {60, 60}});
  CHECK(values(x.grad()) == Doubles{60, 60});
  CHECK_THROWS_AS(tensor({1}).register_hook([](const Tensor& g) { return g; }), AutogradError);
}

TEST_CASE("tape: retain_grad keeps the gradient of a tensor inside") {
  Tensor x = leaf({1, 2});
  Tensor y = mul(x, 3);
  const Tensor z = square(y);
  y.retain_grad();
  backward(sum(z));
  CHECK(values(y.grad()) == Doubles{6, 12});
  CHECK_FALSE(z.grad().defined());
}

TEST_CASE("tape: an in-place edit of a saved tensor is caught, whatever it went through") {
  using Edit = void (*)(Tensor&);
  const std::vector<Edit> edits = {
      [](Tensor& t) { t.fill_(0); },
      [](Tensor& t) { t.mutable_data<double>()[0] = 0; },
      [](Tensor& t) { t.reshape({2, 1}).select(0, 1).fill_(0); },
      [](Tensor& t) { t.detach().copy_(tensor({7}, DType::float64)); },
  };
  for (const Edit edit : edits) {
    Tensor x = leaf({1, 2});
    Tensor factor = tensor({3, 4}, DType::float64);
    const Tensor y = sum(mul(x, factor));
    const Tensor z = sum(exp(x));  // saves its own output
    edit(factor);
    CHECK_THROWS_AS(backward(y), AutogradError);
    CHECK_NOTHROW(backward(z));
  }
  Tensor x = leaf({1, 2});
  Tensor y = exp(x);
  const Tensor z = sum(y);
  y.detach().fill_(0);
  CHECK_THROWS_AS(backward(z), AutogradError);
}

TEST_CASE("tape: an edit of what was not saved is harmless") {
  Tensor x = leaf({1, 2});
  Tensor term = tensor({3, 4}, DType::float64);
  const Tensor y = sum(add(x, term));
  term.fill_(0);
  CHECK_NOTHROW(backward(y));
}

TEST_CASE("tape: two models in two threads do not meet") {
  const auto train = [](uint64_t seed, Doubles& result) {
    Tensor weight = uniform({50}, seed).set_requires_grad();
    for (int step = 0; step < 200; ++step) {
      const Tensor loss = mean(square(sub(mul(weight, weight), 0.5)));
      backward(loss);
      const NoGrad no_grad;
      weight.copy_(sub(weight, mul(weight.grad(), 0.1)));
      weight.set_grad({});
    }
    result = values(weight);
  };
  Doubles alone_1, alone_2, together_1, together_2;
  train(1, alone_1);
  train(2, alone_2);
  std::thread other([&] { train(1, together_1); });
  train(2, together_2);
  other.join();
  CHECK(alone_1 == together_1);
  CHECK(alone_2 == together_2);
}

}  // namespace linnet::test
