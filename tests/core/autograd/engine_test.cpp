#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/core/autograd/post_accumulate_hook.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/leaf.h"
#include "tests/support/values.h"

/// In which order backward goes through the tape, and which part of it.

namespace linnet::test {
namespace {

using Names = std::vector<std::string>;

/// Notes `name` when the gradient of `x` is complete.
void note(Names& seen, const Tensor& x, const std::string& name) {
  Tensor(x).register_hook([&seen, name](const Tensor&) { return seen.push_back(name), Tensor(); });
}

/// a. Its backward function gives b no gradient.
Tensor first_of(const Tensor& a, const Tensor& b) {
  Op op("first_of", Where{}, {a, b});
  return op.record(a, [](const Tensor& g) { return Grads{g, Tensor()}; });
}

}  // namespace

TEST_CASE("engine: a leaf gets its gradient before backward goes on, as in PyTorch") {
  Names seen;
  std::vector<Tensor> weights;
  std::vector<HookHandle> hooks;
  Tensor h = uniform({2, 3}, 1);
  for (int i = 0; i < 4; ++i) {
    weights.push_back(uniform({3, 3}, 2).set_requires_grad());
    hooks.push_back(register_post_accumulate_grad_hook(weights[size_t(i)],
                                                       [&seen, i] { seen.push_back(fmt::format("w{}", i)); }));
    h = tanh(matmul(h, weights[size_t(i)]));
    note(seen, h, fmt::format("a{}", i));
  }
  backward(sum(h));
  CHECK(seen == Names{"a3", "w3", "a2", "w2", "a1", "w1", "a0", "w0"});
}

TEST_CASE("engine: a leaf that is used again waits for its last use") {
  Names seen;
  const Tensor tied = leaf({2, 3}), other = leaf({5, 7});
  const Tensor first = exp(tied), second = mul(first, other), third = mul(second, tied);
  note(seen, tied, "tied");
  note(seen, other, "other");
  note(seen, first, "first");
  note(seen, second, "second");
  note(seen, third, "third");
  backward(sum(third));
  CHECK(seen == Names{"third", "second", "other", "first", "tied"});
}

TEST_CASE("engine: a use that gives no gradient holds no leaf up") {
  Names seen;
  const Tensor x = leaf({2, 3}), w = leaf({5, 7}), never = leaf({1});
  const Tensor below = mul(x, 3), unused = exp(mul(w, sin(never)));
  const Tensor y = mul(first_of(below, unused), w);
  note(seen, below, "below");
  note(seen, w, "w");
  note(seen, unused, "unused");
  backward(sum(y), {.retain = true});
  CHECK(seen == Names{"w", "below"});
  CHECK(values(w.grad()) == Doubles{6, 9});
  CHECK(values(x.grad()) == Doubles{15, 21});
  CHECK_FALSE(never.grad().defined());
  CHECK_NOTHROW(backward(sum(unused)));
}

TEST_CASE("engine: memory holds no second set of gradients") {
  constexpr int64_t kSize = 1 << 14, kBytes = kSize * 8;
  std::vector<Tensor> weights;
  for (int i = 0; i < 20; ++i) weights.push_back(uniform({kSize}, 1).set_requires_grad());
  /// The tensors of a weight's size that a backward needs at most, beyond those before it.
  const auto tensors_of_backward = [&] {
    Tensor h = scalar(1, DType::float64);
    for (const Tensor& w : weights) h = tanh(mean(mul(h, w)));
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    backward(h);
    return (memory_stats().peak - before) / kBytes;
  };
  CHECK(tensors_of_backward() > 15);
  CHECK(tensors_of_backward() < 6);  // it adds to the gradients
  std::vector<HookHandle> hooks;
  for (Tensor& w : weights) {
    w.set_grad({});
    hooks.push_back(register_post_accumulate_grad_hook(w, [&w] { w.set_grad({}); }));
  }
  CHECK(tensors_of_backward() < 6);
}

TEST_CASE("grad: only what lies between outputs and inputs is walked") {
  const Tensor x = leaf({2, 3}), w = leaf({5, 7});
  const auto fused = [&] { return layer_norm(w); };  // has first derivatives only
  const Tensor slope = grad({sum(mul(square(x), fused()))}, {x}, {.create_graph = true})[0];
  CHECK(values(grad({sum(slope)}, {x}, {.retain = true})[0]) == values(fused() * 2));
  CHECK_THROWS_AS(grad({sum(slope)}, {w}, {.create_graph = true}), AutogradError);

  Names seen;
  const Tensor branch = exp(w);
  note(seen, w, "w");
  note(seen, branch, "branch");
  note(seen, x, "x");
  const Tensor y = mul(tanh(x), branch);
  note(seen, y, "y");
  CHECK(grad({sum(y)}, {x})[0].defined());
  CHECK(seen == Names{"y", "x"});
  backward(sum(branch));  // its tape was not freed
  CHECK(values(w.grad()) == values(branch));

  const Tensor h = exp(w);
  const std::vector<Tensor> gradients = grad({sum(mul(h, x))}, {h, x});
  CHECK(values(gradients[0]) == values(x));
  CHECK(values(gradients[1]) == values(h));
  CHECK_NOTHROW(backward(sum(h)));  // it lies below an input
}

TEST_CASE("backward: a leaf keeps no part of a larger gradient, which would stay in memory") {
  Tensor large = zeros({1 << 20}).set_requires_grad(), small = zeros({16}).set_requires_grad();
  const int64_t before = memory_stats().live;
  backward(sum(concat({large, small}, 0) * 2));
  large.set_grad({});
  CHECK(memory_stats().live - before < 4096);
  CHECK(values(small.grad()) == Doubles(16, 2));
}

TEST_CASE("grad: outputs above each other, and inputs that are outputs, above each other or named twice") {
  const Tensor x = leaf({2}), h = mul(x, 3), y = square(h);
  const std::vector<Tensor> gradients = grad({y, h, h, y}, {h, x, y, h}, {.retain = true});
  CHECK(values(gradients[0]) == Doubles{2 * 12 + 2});
  CHECK(values(gradients[1]) == Doubles{3 * (2 * 12 + 2)});
  CHECK(values(gradients[2]) == Doubles{2});
  CHECK(values(gradients[3]) == Doubles{2 * 12 + 2});
  CHECK(values(grad({x}, {x})[0]) == Doubles{1});
  CHECK(grad({y}, {}).empty());
  CHECK_THROWS_AS(grad({y, leaf({1})}, {x, leaf({1})}), AutogradError);
}

TEST_CASE("grad: time grows with the ops plus the inputs, not with their product") {
  std::vector<Tensor> inputs;
  Tensor total = scalar(0, DType::float64);
  for (int i = 0; i < 16'000; ++i) {
    inputs.push_back(scalar(1, DType::float64).set_requires_grad());
    total = total + inputs.back();
  }
  const auto cpu_time = [](const std::function<void()>& f) {
    const std::clock_t begin = std::clock();
    f();
    return static_cast<double>(std::clock() - begin);
  };
  const double of_grad = cpu_time([&] { grad({total}, inputs, {.retain = true}); });
  const double of_backward = cpu_time([&] { backward(total); });
  CHECK(of_grad < 20 * of_backward);
}

}  // namespace linnet::test
