#include <linnet/core/removable_handle.h>

#include <optional>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/post_accumulate_hook.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/leaf.h"
#include "tests/support/values.h"

namespace linnet::test {

TEST_CASE("hook: stays when its handle is dropped, and goes with remove()") {
  Tensor x = leaf({1, 2});
  const auto gradient = [&] { return values(grad({sum(x)}, {x})[0]); };
  x.register_hook([](const Tensor& g) { return g * 2; });
  RemovableHandle times_3 = x.register_hook([](const Tensor& g) { return g * 3; });
  CHECK(gradient() == Doubles{6, 6});
  RemovableHandle copy = times_3;
  times_3.remove();
  CHECK(gradient() == Doubles{2, 2});
  x.register_hook([](const Tensor& g) { return g * 5; });
  times_3.remove();
  copy.remove();  // its hook is gone, and the new one has another number
  CHECK(gradient() == Doubles{10, 10});
  RemovableHandle of_nothing = times_3;
  {
    Tensor y = leaf({1});
    of_nothing = y.register_hook([](const Tensor& g) { return g; });
  }
  CHECK_NOTHROW(of_nothing.remove());
}

TEST_CASE("hook: keeps its state from one backward to the next") {
  Tensor x = leaf({1, 2});
  x.register_hook([calls = 0](const Tensor& g) mutable { return g * ++calls; });
  for (const double calls : {1.0, 2.0, 3.0}) CHECK(values(grad({sum(x)}, {x})[0]) == Doubles{calls, calls});
}

TEST_CASE("hook: may remove itself, and no handle removes a hook of the other kind") {
  Tensor x = leaf({1, 2});
  int once = 0, always = 0, accumulated = 0;
  std::optional<RemovableHandle> handle;
  handle = x.register_hook([&](const Tensor&) { return ++once, handle->remove(), Tensor(); });
  RemovableHandle second = x.register_hook([&](const Tensor&) { return ++always, Tensor(); });
  HookHandle third = register_post_accumulate_grad_hook(x, [&] { ++accumulated; });
  const auto walk = [&] {
    backward(sum(x));
    return std::vector{once, always, accumulated};
  };
  CHECK(walk() == std::vector{1, 1, 1});
  CHECK(walk() == std::vector{1, 2, 2});
  second.remove();
  CHECK(walk() == std::vector{1, 2, 3});
  third.remove();
  CHECK(walk() == std::vector{1, 2, 3});
}

TEST_CASE("hook: one that captures its tensor by value keeps it until it is removed") {
  const int64_t nodes = live_tape_nodes();
  std::optional<RemovableHandle> handle;
  {
    Tensor x = leaf({1, 2});
    handle = x.register_hook([x](const Tensor& g) { return g * x; });
  }
  CHECK(live_tape_nodes() == nodes + 1);
  handle->remove();
  CHECK(live_tape_nodes() == nodes);
  {
    Tensor x = leaf({1, 2});
    x.register_hook([x = x.detach()](const Tensor& g) { return g * x; });
    backward(sum(x));
    CHECK(values(x.grad()) == Doubles{1, 2});
  }
  CHECK(live_tape_nodes() == nodes);
}

}  // namespace linnet::test
