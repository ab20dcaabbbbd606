#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <linnet/linnet.h>

#include "tests/support/leaf.h"
#include "tests/support/near.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::leaf;
using linnet::test::near;

TEST_CASE("clip_grad_norm_: scales all together, and returns the norm before") {
  Tensor a = leaf({0}), b = leaf({0, 0});
  a.set_grad(tensor({3}, DType::float64));
  b.set_grad(tensor({0, 4}, DType::float64));
  CHECK(nn::clip_grad_norm_({a, b}, 10).item<double>() == near(5));
  CHECK(a.grad().item<double>() == 3);
  CHECK(nn::clip_grad_norm_({a, b}, 1).item<double>() == near(5));
  CHECK(a.grad().item<double>() == near(0.6, 1e-5));
  CHECK(b.grad().to_vector<double>()[1] == near(0.8, 1e-5));

  a.set_grad(tensor({std::numeric_limits<double>::infinity()}, DType::float64));
  CHECK(std::isinf(nn::clip_grad_norm_({a, b}, 0.1).item<double>()));
  CHECK(b.grad().to_vector<double>()[1] == near(0.8, 1e-5));
  CHECK(nn::clip_grad_norm_({leaf({1})}, 1).item<double>() == 0);
}

TEST_CASE("clip_factor: what clip_grad_norm_ multiplies with, to the bit") {
  Tensor p = zeros({3}).set_requires_grad();
  p.set_grad(tensor({1.5, -2, 7}));
  const Tensor norm = nn::grad_norm({p}), factor = nn::clip_factor(norm, 0.5);
  const Tensor expected = p.grad() * factor.item<double>();
  CHECK(nn::clip_grad_norm_({p}, 0.5).item<double>() == norm.item<double>());
  CHECK(p.grad().to_vector<float>() == expected.to_vector<float>());
  CHECK(nn::clip_factor(scalar(2), 4).item<double>() == 1);
  CHECK(nn::clip_factor(scalar(0), 0).item<double>() == 0);
  CHECK(nn::clip_factor(scalar(INFINITY), 1).item<double>() == 1);
  CHECK(nn::clip_factor(scalar(NAN), 1).item<double>() == 1);
  CHECK(nn::grad_norm({leaf({1})}).item<double>() == 0);
}

TEST_CASE("clip_grad_norm_: gradients whose squares no float32 holds") {
  for (const float size : {3e38f, 1e20f, 1e-25f}) {
    Tensor p = zeros({2}).set_requires_grad();
    p.set_grad(full({2}, size));
    CAPTURE(size);
    CHECK(nn::clip_grad_norm_({p}, 1).item<double>() == near(std::sqrt(2.0) * size, 1e-6));
    const double kept = size > 1 ? std::sqrt(0.5) : size;
    CHECK(p.grad().to_vector<double>()[1] == near(kept, 1e-6));
  }
}

TEST_CASE("clip_grad_norm_: the bits of each gradient's norm, whatever its dtype and strides") {
  std::vector<Tensor> parameters;
  std::vector<double> norms;
  for (int64_t i = 0; i < 9; ++i) {
    const DType dtype = i % 2 == 0 ? DType::float32 : DType::float64;
    Tensor parameter = zeros({30 * i, 7}, dtype).set_requires_grad();
    const Tensor gradient = test::uniform({7, 30 * i}, static_cast<uint64_t>(i)).to(dtype).transpose(0, 1);
    parameter.set_grad(gradient);
    norms.push_back(norm(gradient.contiguous().to(DType::float64)).item<double>());
    parameters.push_back(parameter);
  }
  CHECK(nn::clip_grad_norm_(parameters, 1e9).item<double>() == norm(tensor(norms)).item<double>());
  CHECK(nn::clip_grad_norm_(parameters, 1e9, 1).item<double>() > nn::clip_grad_norm_(parameters, 1e9).item<double>());
}

TEST_CASE("grad_norm and clip_grad_norm_: norms of other types") {
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor a = leaf({0, 0}), b = leaf({0});
  a.set_grad(tensor({1, -2}, DType::float64));
  b.set_grad(tensor({4}, DType::float64));
  CHECK(nn::grad_norm({a, b}, 1).item<double>() == near(7));
  CHECK(nn::grad_norm({a, b}, 3).item<double>() == near(std::cbrt(1 + 8 + 64)));
  CHECK(nn::grad_norm({a, b}, infinity).item<double>() == 4);
  CHECK(nn::clip_grad_norm_({a, b}, 3.5, 1).item<double>() == near(7));
  CHECK(nn::clip_grad_norm_({a, b}, 1, infinity).item<double>() == near(2, 1e-6));
  const std::vector<double> clipped = a.grad().to_vector<double>();
  CHECK(clipped[0] == near(0.25, 2e-6));
  CHECK(clipped[1] == near(-0.5, 2e-6));
  CHECK(b.grad().item<double>() == near(1, 2e-6));
}

TEST_CASE("clip_grad_value_") {
  Tensor a = leaf({0, 0, 0});
  a.set_grad(tensor({-3, 0.2, 1}, DType::float64));
  nn::clip_grad_value_({a}, 0.5);
  CHECK(a.grad().to_vector<double>() == std::vector<double>{-0.5, 0.2, 0.5});
}
