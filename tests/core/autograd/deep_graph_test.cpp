#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/layers/activation.h>

/// Tapes of 100,000 ops: forward, backward and freeing do not recurse, so the stack does not overflow.

namespace linnet::test {
namespace {

constexpr int kDepth = 100'000;

template <class Step>
Tensor chain(Tensor x, Step&& step) {
  for (int i = 0; i < kDepth; ++i) x = step(x);
  return x;
}

Tensor leaf() { return scalar(1, DType::float64).set_requires_grad(); }

}  // namespace

TEST_CASE("deep graph: forward, backward, free") {
  const int64_t nodes = live_tape_nodes();
  {
    Tensor x = leaf();
    const Tensor y = chain(x, [](const Tensor& t) { return add(t, 1); });
    CHECK(live_tape_nodes() >= nodes + kDepth);
    backward(y);
    CHECK(x.grad().item<double>() == 1);
  }
  CHECK(live_tape_nodes() == nodes);
}

TEST_CASE("deep graph: through saved inputs and outputs, which own the nodes below them") {
  const int64_t nodes = live_tape_nodes();
  const int64_t live = memory_stats().live;
  Tensor x = leaf();
  const auto step = [](const Tensor& t) { return mul(tanh(t), t); };
  {
    const Tensor never_walked = chain(x, step);
  }
  {
    const Tensor walked = chain(x, step);
    backward(walked);
    CHECK(x.grad().defined());
  }
  {
    const Tensor retained = chain(x, step);
    backward(retained, {.retain = true});
  }
  x = Tensor();
  CHECK(live_tape_nodes() == nodes);
  CHECK(memory_stats().live == live);
}

TEST_CASE("deep graph: with branches") {
  const int64_t nodes = live_tape_nodes();
  {
    Tensor x = leaf();
    const Tensor y = chain(x, [&](const Tensor& t) { return add(mul(t, 0.5), mul(t, 0.5)); });
    backward(y);
    CHECK(x.grad().item<double>() == 1);
  }
  CHECK(live_tape_nodes() == nodes);
}

TEST_CASE("deep graph: the gradient's graph is freed too") {
  const int64_t nodes = live_tape_nodes();
  {
    const Tensor x = leaf();
    const Tensor y = chain(x, [](const Tensor& t) { return mul(t, t); });
    CHECK(grad({y}, {x}, {.create_graph = true})[0].requires_grad());
  }
  CHECK(live_tape_nodes() == nodes);
}

}  // namespace linnet::test
