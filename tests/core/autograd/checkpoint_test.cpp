#include <linnet/core/autograd/checkpoint.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/gradcheck.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/same_bits.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using List = std::vector<Tensor>;
using ListFunction = std::function<List(const List&)>;

Tensor leaf(const Shape& shape, uint64_t seed, DType dtype = DType::float64) {
  return uniform(shape, seed).to(dtype).set_requires_grad();
}

/// f(inputs), with a checkpoint or without.
List call(bool checkpointed, const ListFunction& f, const List& inputs) {
  return checkpointed ? checkpoint(f, inputs) : f(inputs);
}

/// Checks that `run(false)` and `run(true)` return the same bits.
template <class Run>
void check_checkpoint_changes_no_bit(const Run& run) {
  check_same_bits(run(true), run(false));
}

/// A layer with dropout, in float32, where another order of sums changes the bits.
struct Layer {
  Tensor weight = leaf({16, 16}, 1, DType::float32), bias = leaf({16}, 2, DType::float32);
  Tensor operator()(const Tensor& x, Generator& rng) const {
    const Tensor h = dropout(gelu(linear(x, weight, bias)), 0.3, rng);
    return x + matmul(h, weight) * bias;
  }
};

}  // namespace

TEST_CASE("checkpoint: results, gradients and generators are those of a call without, to the bit") {
  check_checkpoint_changes_no_bit([](bool checkpointed) {
    const Layer layer;
    Generator rng(7);
    const Tensor x = leaf({5, 16}, 3, DType::float32);
    Tensor h = x;
    for (int i = 0; i < 3; ++i) {
      h = call(checkpointed, [&](const List& in) { return List{layer(in[0], rng)}; }, {h})[0];
    }
    const Tensor noise = randn({5, 16}, rng);  // draws after the layers
    backward(sum(h * noise));
    CHECK(rng.state().draws == 4);
    return List{h.detach(), noise, x.grad(), layer.weight.grad(), layer.bias.grad(), randn({3}, rng)};
  });
}

TEST_CASE("checkpoint: the bits do not depend on the number of threads") {
  check_threads_change_no_bit([] {
    const Layer layer;
    Generator rng(7);
    const Tensor x = leaf({300, 16}, 3, DType::float32);
    backward(sum(checkpoint([&](const Tensor& in) { return layer(layer(in, rng), rng); }, x)));
    return List{x.grad(), layer.weight.grad()};
  });
}

TEST_CASE("checkpoint: gradients that meet in a parameter, from inside and outside, are summed in the same order") {
  check_checkpoint_changes_no_bit([](bool checkpointed) {
    Tensor w = leaf({40}, 1, DType::float32);
    const Tensor x = leaf({40}, 2, DType::float32);
    w.register_hook([](const Tensor& g) { return g * 0.7; });
    const Tensor before = x * w * w;
    const List inside = call(checkpointed,
                             [&](const List& in) {
                               const Tensor h = in[0] * w;
                               return List{h, exp(h) * w, in[0], w};
                             },
                             {before});
    backward(sum(inside[0] * w + inside[1] * 1.7 + inside[0] * inside[2] * inside[3] + sin(inside[0])));
    backward(sum(x * w));
    return List{w.grad(), x.grad()};
  });
}

TEST_CASE("checkpoint: several inputs and results, of which some have no gradient") {
  check_checkpoint_changes_no_bit([](bool checkpointed) {
    const Tensor a = leaf({3, 4}, 1), b = leaf({4}, 2), c = uniform({3, 1}, 3);
    const List results = call(checkpointed,
                              [](const List& in) {
                                const Tensor p = in[0] * in[1] * in[2];
                                return List{p, p.to(DType::int64), exp(in[0]), sum(in[2] * 2)};
                              },
                              {a, b, c});
    CHECK(results[0].requires_grad());
    CHECK_FALSE(results[1].requires_grad());
    CHECK_FALSE(results[3].requires_grad());
    backward(sum(square(results[0])) + sum(results[0] * results[3]));
    return List{a.grad(), b.grad(), results[2].detach()};
  });
}

TEST_CASE("checkpoint: gradients reach captured parameters where no input requires one") {
  const Tensor w = leaf({3}, 1), x = uniform({3}, 2);
  backward(sum(checkpoint([&](const Tensor& in) { return square(in * w); }, x)));
  CHECK(same_bits(w.grad(), x * w.detach() * 2 * x));
}

TEST_CASE("checkpoint: the function runs again once, and only where a saved tensor is needed") {
  int runs = 0;
  const Tensor x = leaf({3}, 1);
  const auto f = [&](const Tensor& in) { return ++runs, square(exp(in)); };
  const Tensor y = checkpoint(f, x);
  CHECK(runs == 1);
  backward(sum(y), {.retain = true});
  CHECK(runs == 2);
  backward(sum(y));
  CHECK(runs == 2);  // kept with the tape
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("pass {.retain = true}"), AutogradError);
  CHECK(runs == 2);
  backward(sum(checkpoint([&](const Tensor& in) { return ++runs, in + 1; }, x)));
  CHECK(runs == 3);

  const NoGrad no_grad;
  CHECK(same_bits(checkpoint(f, x), square(exp(x))));
  CHECK_FALSE(checkpoint(f, x).requires_grad());
  CHECK(runs == 5);
}

TEST_CASE("checkpoint: nested ones") {
  check_checkpoint_changes_no_bit([](bool checkpointed) {
    const Layer layer;
    Generator rng(7), other(8);
    const Tensor x = leaf({5, 16}, 3, DType::float32);
    const auto inner = [&](const List& in) { return List{dropout(layer(in[0], rng), 0.5, other)}; };
    const auto middle = [&](const List& in) {
      const Tensor h = dropout(call(checkpointed, inner, {in[0]})[0], 0.1, rng);
      return List{call(checkpointed, inner, {h * h})[0] + h};
    };
    const auto outer = [&](const List& in) {
      return List{layer(call(checkpointed, middle, call(checkpointed, middle, in))[0], other)};
    };
    const Tensor y = call(checkpointed, outer, {x})[0];
    backward(sum(y));
    CHECK(rng.state().draws == 6);
    return List{y.detach(), x.grad(), layer.weight.grad(), layer.bias.grad(), randn({2}, rng), randn({2}, other)};
  });
}

TEST_CASE("checkpoint: generators that the function makes itself draw the same numbers again") {
  check_checkpoint_changes_no_bit([](bool checkpointed) {
    Generator rng(7);
    const Tensor x = leaf({50}, 3);
    const auto f = [&](const List& in) {
      Generator child = rng.split(), copy = child, fixed(5);
      return List{dropout(exp(in[0]), 0.5, child) * dropout(in[0], 0.5, copy) * dropout(in[0], 0.5, fixed)};
    };
    backward(sum(call(checkpointed, f, {x})[0]));
    return List{x.grad(), randn({2}, rng)};
  });
}

TEST_CASE("checkpoint: a backward inside of the function, whose graph is recorded") {
  check_checkpoint_changes_no_bit([](bool checkpointed) {
    Generator rng(7);
    const Tensor x = leaf({6}, 3), w = leaf({6}, 4);
    const auto f = [&](const List& in) {
      const Tensor point = in[0].detach().set_requires_grad();
      const Tensor y =
          call(checkpointed, [&](const List& p) { return List{dropout(exp(p[0] * w), 0.5, rng)}; }, {point})[0];
      return List{square(grad({sum(y)}, {point}, {.create_graph = true})[0]) * dropout(in[0], 0.5, rng)};
    };
    backward(sum(call(checkpointed, f, {x})[0]));
    return List{x.grad(), w.grad(), randn({2}, rng)};
  });
}

TEST_CASE("checkpoint: second derivatives") {
  const Tensor w = leaf({4}, 1);
  const auto f = [&](const List& in) {
    return checkpoint([&](const Tensor& x) { return exp(x * w) * sigmoid(x); }, in[0]);
  };
  const Tensor x = leaf({3, 4}, 2);
  CHECK(gradcheck(f, {x}));
  CHECK(gradgradcheck(f, {x}));
  check_checkpoint_changes_no_bit([&](bool checkpointed) {
    const auto g = [&](const List& in) { return List{exp(in[0] * w) * sigmoid(in[0])}; };
    const Tensor y = call(checkpointed, g, {x})[0];
    const List first = grad({sum(y)}, {x, w}, {.create_graph = true});
    const List second = grad({sum(first[0] * first[0])}, {x, w}, {.create_graph = true});
    return List{second[0], second[1], grad({sum(second[1])}, {x})[0]};
  });
}

TEST_CASE("checkpoint: hooks and retain_grad inside of the function and on its results") {
  const Tensor x = leaf({2}, 1);
  int hooks = 0;
  Tensor inside;
  Tensor y = checkpoint(
      [&](const Tensor& in) {
        Tensor h = exp(in);
        h.register_hook([&](const Tensor& g) { return ++hooks, g * 3; });
        if (!inside.defined()) {
          h.retain_grad();
          inside = h;
        }
        return square(h);
      },
      x);
  y.retain_grad();
  backward(sum(y));
  CHECK(hooks == 1);
  CHECK(same_bits(y.grad(), ones({2}, DType::float64)));
  CHECK(same_bits(inside.grad(), inside.detach() * 2 * 3));
  CHECK(same_bits(x.grad(), inside.grad() * inside.detach()));
}

TEST_CASE("checkpoint: a backward on another thread") {
  const Tensor x = leaf({30}, 1);
  Generator rng(3), same(3);
  const Tensor y = checkpoint([&](const Tensor& in) { return dropout(exp(in), 0.5, rng); }, x);
  std::async(std::launch::async, [&] { backward(sum(y)); }).get();
  const Tensor twin = x.detach().set_requires_grad();
  backward(sum(dropout(exp(twin), 0.5, same)));
  CHECK(same_bits(x.grad(), twin.grad()));
}

TEST_CASE("checkpoint: threads that walk one tape at the same time run the function again once") {
  const Tensor x = leaf({30}, 1);
  std::atomic<int> runs = 0;
  const auto slowly = [&](const Tensor& in) {
    if (++runs > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return exp(in) * in;
  };
  const Tensor y = sum(checkpoint(slowly, x));
  std::vector<std::future<Tensor>> gradients;
  for (int i = 0; i < 4; ++i) {
    gradients.push_back(std::async(std::launch::async, [&] { return grad({y}, {x}, {.retain = true})[0]; }));
  }
  const Tensor expected = exp(x) + exp(x) * x;
  for (auto& gradient : gradients) CHECK(allclose(gradient.get(), expected, 1e-12, 0));
  CHECK(runs == 2);
}

namespace {

constexpr int64_t kBytes = int64_t{64} * 256 * 4;  // bytes of an activation

struct Memory {
  int64_t after_forward, peak;
};

/// The memory of a stack of layers. The backward of each layer needs 4 activations.
Memory memory_of_stack(bool checkpointed, int layers, int group = 1) {
  const Tensor w = (uniform({256, 256}, 1) * 0.1).to(DType::float32).set_requires_grad();
  const Tensor x = uniform({64, 256}, 2).to(DType::float32);
  const WithThreads with(1);
  const auto layer = [&](const List& in) { return List{tanh(gelu(sigmoid(exp(tanh(linear(in[0], w))))))}; };
  const auto block = [&](const List& in) {
    List h = in;
    for (int i = 0; i < group; ++i) h = call(checkpointed, layer, h);
    return h;
  };
  backward(sum(layer({x})[0]));  // allocates the scratch memory
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  List h{x};
  for (int i = 0; i < layers; i += group) h = group == 1 ? block(h) : call(checkpointed, block, h);
  Tensor loss = sum(h[0]);
  h.clear();
  const int64_t after_forward = memory_stats().live - live;
  backward(loss);
  loss = {};
  CHECK(memory_stats().live == live);
  return {after_forward / kBytes, (memory_stats().peak - live) / kBytes};
}

}  // namespace

TEST_CASE("checkpoint: memory is that of one layer and of the inputs of all") {
  const int64_t nodes = live_tape_nodes();
  const Memory plain = memory_of_stack(false, 36), checkpointed = memory_of_stack(true, 36);
  MESSAGE("36 layers, in activations: plain ", plain.after_forward, " and at most ", plain.peak, ", checkpointed ",
          checkpointed.after_forward, " and at most ", checkpointed.peak);
  CHECK(plain.after_forward >= 36 * 4);
  CHECK(checkpointed.after_forward <= 36);
  CHECK(checkpointed.peak <= 36 + 20);
  const Memory nested = memory_of_stack(true, 36, 6);
  MESSAGE("nested in groups of 6: ", nested.after_forward, " and at most ", nested.peak);
  CHECK(nested.after_forward <= 6);
  CHECK(nested.peak <= 6 + 6 + 20);
  CHECK(live_tape_nodes() == nodes);
}

TEST_CASE("checkpoint: a long chain of them is freed without recursion") {
  const int64_t nodes = live_tape_nodes();
  Tensor h = leaf({1}, 1);
  for (int i = 0; i < 20000; ++i) h = checkpoint([](const Tensor& in) { return sin(in); }, h);
  h = {};
  CHECK(live_tape_nodes() == nodes);
}

namespace {

/// The error message of backward through a checkpoint whose function is `first` in forward and `second` in backward.
std::string message_of(const ListFunction& first, const ListFunction& second) {
  int runs = 0;
  const List results =
      checkpoint([&](const List& in) { return runs++ == 0 ? first(in) : second(in); }, {leaf({2}, 1)});
  try {
    backward(sum(results[0]));
  } catch (const AutogradError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool has(const std::string& text, const char* part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("checkpoint: a function that does something else the second time is refused") {
  Generator rng(1);
  const ListFunction f = [&](const List& in) { return List{dropout(exp(in[0]), 0.5, rng)}; };
  CHECK(message_of(f, f) == "nothing was thrown");
  const auto expands = [&](const List& in) { return List{f(in)[0].unsqueeze(0)}; };
  CHECK(
      has(message_of(f, expands),
          "the function of a checkpoint did something else when backward ran it again (results: float64[2], and then "
          "float64[1, 2]); until backward is done"));
  CHECK(has(message_of(f, [&](const List& in) { return List{f(in)[0], in[0]}; }),
            "(results: float64[2], and then float64[2], float64[2])"));
  CHECK(has(message_of([&](const List& in) { return List{f(in)[0], in[0]}; }, f),
            "(results: float64[2], float64[2], and then float64[2])"));
  CHECK(
      has(message_of(f, [&](const List& in) { return List{f(in)[0].to(DType::float32)}; }), "and then float32[2])"));
  CHECK(has(message_of(f, [](const List& in) { return List{exp(in[0])}; }), "(random draws: 1, and then 0)"));
  CHECK(has(message_of(f, [&](const List& in) { return f(f(in)); }), "(random draws: 1, and then more)"));
  CHECK(has(message_of(f, [&](const List& in) { return List{f(in)[0] * in[0]}; }), "(saved tensors: 1, and then 3)"));
  CHECK(has(message_of([](const List& in) { return List{sum(exp(in[0]))}; },
                       [](const List& in) { return List{sum(exp(in[0].unsqueeze(0)))}; }),
            "(a saved tensor: float64[2], and then float64[1, 2])"));
}

TEST_CASE("checkpoint: an edit or a freeze before backward is refused") {
  Tensor x = leaf({2}, 1), w = leaf({2}, 2), mask = ones({2}, DType::float64);
  const auto f = [&](const List& in) { return List{exp(in[0] * w) * in[1]}; };
  const auto edited = doctest::Contains("was edited in place after this call");
  {
    const Tensor y = checkpoint(f, {x, mask})[0];
    mask += 1;
    CHECK_THROWS_WITH_AS(backward(sum(y)), edited, AutogradError);
  }
  {
    const Tensor y = checkpoint(f, {x, mask})[0];
    {
      const NoGrad no_grad;
      w += 1;
    }
    CHECK_THROWS_WITH_AS(backward(sum(y)), edited, AutogradError);
  }
  {
    Tensor bias = leaf({2}, 3);  // no op needs it for backward, but the exponential of the sum
    const Tensor y = checkpoint([&](const List& in) { return List{exp(in[0] + bias)}; }, {x})[0];
    {
      const NoGrad no_grad;
      bias += 1;
    }
    CHECK_THROWS_WITH_AS(backward(sum(y)), edited, AutogradError);
  }
  const Tensor y = checkpoint(f, {x, mask})[0];
  w.set_requires_grad(false);
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("freeze no parameters"), AutogradError);
}

TEST_CASE("checkpoint: what the function throws comes out, and ops are recorded as before") {
  const Tensor x = leaf({2}, 1);
  int runs = 0;
  const auto f = [&](const Tensor& in) {
    const Tensor h = exp(in);
    return ++runs == 2 ? h + uniform({3}, 1) : square(h);
  };
  const Tensor y = checkpoint(f, x);
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("do not broadcast"), ShapeError);
  CHECK_THROWS_AS(checkpoint([](const Tensor& in) { return in + uniform({3}, 1); }, x), ShapeError);
  CHECK(grad_enabled());
  Generator rng(1);
  backward(sum(dropout(square(exp(x)), 0.5, rng)));  // nothing of this is kept for a second run
  CHECK(rng.state().draws == 1);
  CHECK(runs == 2);
}

}  // namespace linnet::test
