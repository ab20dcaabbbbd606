#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>

#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/leaf.h"
#include "tests/support/values.h"

/// The gradients of slices. They are added to the gradient of the whole tensor, or are parts of it without a copy.

namespace linnet::test {

TEST_CASE("tape: the gradients of slices add up, where they overlap and beside other uses") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor second_uses = tensor({10, 20, 30}, DType::float64);
  backward(sum(x.slice(0, 0, 4, 2)) + sum(mul(x.narrow(0, 1, 3), second_uses)) + sum(x));
  CHECK(values(x.grad()) == Doubles{2, 11, 22, 31});
}

TEST_CASE("tape: the gradient of a slice does not reach another tensor's through a shared one") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), weights = tensor({5, 6}, DType::float64);
  const Tensor inner_a = a * 1, inner_b = b * 1;  // both get the same gradient tensor from their sum
  backward(sum(mul(inner_a + inner_b, weights)) + sum(inner_a.narrow(0, 0, 1) * 7));
  CHECK(values(a.grad()) == Doubles{12, 6});
  CHECK(values(b.grad()) == Doubles{5, 6});
}

TEST_CASE("tape: the gradient of a slice with a step beyond the end") {
  const Tensor x = leaf({1, 2, 3, 4});
  backward(sum(x.slice(0, 1, 4, std::numeric_limits<int64_t>::max())) * 7);
  CHECK(values(x.grad()) == Doubles{0, 7, 0, 0});
}

namespace {

/// Three parts of x [rows, 6] whose gradients, with the given values in order, are views of one tensor with the
/// layout of x. `made` is that tensor.
struct Parts {
  Tensor made = (arange(12, DType::float64) + 1).reshape({2, 6});

  Tensor sum_of(const Tensor& x) {
    const Tensor a = x.narrow(1, 0, 2), b = x.narrow(1, 2, 2), c = x.narrow(1, 4, 2);
    return sum_of(a, b, c);
  }
  Tensor sum_of(const Tensor& a, const Tensor& b, const Tensor& c) {
    Op op("parts", Where{}, {a, b, c});
    return op.record(ones({}, DType::float64), [made = std::move(made)](const Tensor&) {
      return Grads{made.narrow(1, 0, 2), made.narrow(1, 2, 2), made.narrow(1, 4, 2)};
    });
  }
};

Tensor zeros_leaf() { return zeros({2, 6}, DType::float64).set_requires_grad(); }

const Doubles kParts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

}  // namespace

TEST_CASE("tape: gradients of slices that were made side by side stay where they are") {
  const Tensor x = zeros_leaf();
  Parts parts;
  const void* const memory = detail::view(parts.made).data;
  backward(parts.sum_of(x));
  CHECK(detail::view(x.grad()).data == memory);
  CHECK(values(x.grad()) == kParts);
}

TEST_CASE("tape: the gradient of a slice that begins where the whole does, and lies otherwise, is put in its place") {
  const Tensor x = zeros({2, 2}, DType::float64).set_requires_grad(), a = x.narrow(1, 0, 1);
  Op op("column_of_a_row", Where{}, {a});
  const Tensor loss = op.record(ones({}, DType::float64), [](const Tensor&) {
    return Grads{tensor({1, 2, 3, 4}, DType::float64).narrow(0, 0, 2).unsqueeze(1)};
  });
  backward(loss);
  CHECK(values(x.grad()) == Doubles{1, 0, 2, 0});
}

TEST_CASE("tape: gradients of slices made side by side that somebody else holds are not edited for the whole") {
  const Tensor x = zeros_leaf();
  Tensor b = x.narrow(1, 2, 2);
  b.retain_grad();
  Parts parts;
  const Tensor held = parts.made;
  // The last slice gets no gradient, and x also gets one from outside the slices.
  backward(parts.sum_of(x.narrow(1, 0, 2), b, zeros({2, 2}, DType::float64).set_requires_grad()) + sum(x * 100));
  CHECK(values(x.grad()) == Doubles{101, 102, 103, 104, 100, 100, 107, 108, 109, 110, 100, 100});
  CHECK(values(b.grad()) == Doubles{3, 4, 9, 10});
  CHECK(values(held) == kParts);
}

TEST_CASE("tape: a gradient made beside others survives what is written for a slice before it") {
  SUBCASE("a hook replaces the one before") {
    const Tensor x = zeros_leaf();
    Tensor b = x.narrow(1, 2, 2);
    b.register_hook([](const Tensor& g) { return g * 0; });
    Parts parts;
    const Tensor held = parts.made;
    backward(parts.sum_of(x.narrow(1, 0, 2), b, x.narrow(1, 4, 2)));
    CHECK(values(x.grad()) == Doubles{1, 2, 0, 0, 5, 6, 7, 8, 0, 0, 11, 12});
    CHECK(values(held) == kParts);
  }
  SUBCASE("another slice takes its place") {
    const Tensor x = zeros_leaf(), a = x.narrow(1, 0, 2), b = x.narrow(1, 2, 2), c = x.narrow(1, 4, 2);
    const Tensor late = b * 1;  // its gradient reaches the slice after those of a and another
    backward(Parts().sum_of(a, late, c) + sum(x.narrow(1, 2, 2) * 50));
    CHECK(values(x.grad()) == Doubles{1, 2, 53, 54, 5, 6, 7, 8, 59, 60, 11, 12});
  }
  SUBCASE("slices come in another order") {
    const Tensor x = zeros_leaf();
    backward(Parts().sum_of(x.narrow(1, 2, 2), x.narrow(1, 0, 2), x.narrow(1, 4, 2)));
    CHECK(values(x.grad()) == Doubles{3, 4, 1, 2, 5, 6, 9, 10, 7, 8, 11, 12});
  }
}

}  // namespace linnet::test
