#include <cmath>

#include <doctest/doctest.h>

#include <linnet/core/device/backend.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/creation.h>

namespace linnet {

TEST_CASE("the AdamW kernel takes torch.optim's step") {
  for (const bool decoupled : {true, false}) {
    Tensor p = tensor({0.5, -2}, DType::float64), m = tensor({0.1, 0.2}, DType::float64);
    Tensor v = tensor({0.01, 0.04}, DType::float64);
    const Tensor g = tensor({0.3, -0.4}, DType::float64);
    const std::vector<double> p0 = p.to_vector<double>(), g0 = g.to_vector<double>();
    const std::vector<double> m0 = m.to_vector<double>(), v0 = v.to_vector<double>();
    const double lr = 0.01, factor = 0.5;
    int64_t steps = 2;
    const bool apply = true, refuse = false;
    AdamWUpdate update{detail::view(p),
                       detail::view(g),
                       detail::view(m),
                       detail::view(v),
                       {&lr, &steps, &refuse, &factor},
                       {0.9, 0.99, 1e-8, 0.1, decoupled}};
    cpu_backend().adamw({&update, 1});
    CHECK(steps == 2);
    CHECK(p.to_vector<double>() == p0);
    CHECK(m.to_vector<double>() == m0);
    update.scalars.apply = &apply;
    cpu_backend().adamw({&update, 1});
    CHECK(steps == 3);
    for (size_t i = 0; i < 2; ++i) {
      const double grad = factor * g0[i] + (decoupled ? 0 : 0.1 * p0[i]);
      const double before = decoupled ? p0[i] * (1 - 0.01 * 0.1) : p0[i];
      const double m1 = 0.9 * m0[i] + 0.1 * grad, v1 = 0.99 * v0[i] + 0.01 * grad * grad;
      const double m_hat = m1 / (1 - std::pow(0.9, 3)), v_hat = v1 / (1 - std::pow(0.99, 3));
      CHECK(m.to_vector<double>()[i] == doctest::Approx(m1).epsilon(1e-14));
      CHECK(v.to_vector<double>()[i] == doctest::Approx(v1).epsilon(1e-14));
      CHECK(p.to_vector<double>()[i] ==
            doctest::Approx(before - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8)).epsilon(1e-14));
    }
  }
}

TEST_CASE("the SGD kernel starts its momentum from the gradient, and reads nothing from an unwritten buffer") {
  for (const bool nesterov : {false, true}) {
    Tensor p = tensor({1.0}, DType::float64), buffer = tensor({NAN}, DType::float64);
    const Tensor g = tensor({0.5}, DType::float64);
    const SgdParams params{0.9, nesterov ? 0.0 : 0.25, 0.2, nesterov};
    const double lr = 0.1;
    int64_t steps = 0;
    const bool refuse = false;
    const View momentum = detail::view(buffer);

    cpu_backend().sgd(detail::view(p), detail::view(g), &momentum, {&lr, &steps, &refuse, nullptr}, params);
    CHECK(p.item<double>() == 1);
    CHECK(steps == 0);

    cpu_backend().sgd(detail::view(p), detail::view(g), &momentum, {&lr, &steps, nullptr, nullptr}, params);
    const double g1 = 0.5 + 0.2 * 1.0;
    const double p1 = 1.0 - 0.1 * (nesterov ? g1 + 0.9 * g1 : g1);
    CHECK(buffer.item<double>() == doctest::Approx(g1).epsilon(1e-14));
    CHECK(p.item<double>() == doctest::Approx(p1).epsilon(1e-14));

    cpu_backend().sgd(detail::view(p), detail::view(g), &momentum, {&lr, &steps, nullptr, nullptr}, params);
    CHECK(steps == 2);
    const double g2 = 0.5 + 0.2 * p1, b2 = 0.9 * g1 + (1 - params.dampening) * g2;
    CHECK(buffer.item<double>() == doctest::Approx(b2).epsilon(1e-14));
    CHECK(p.item<double>() == doctest::Approx(p1 - 0.1 * (nesterov ? g2 + 0.9 * b2 : b2)).epsilon(1e-14));
  }
}

TEST_CASE("the SGD kernel without momentum") {
  Tensor p = tensor({1, 2});
  const double lr = 0.1;
  int64_t steps = 0;
  cpu_backend().sgd(detail::view(p), detail::view(tensor({0.5, -1})), nullptr, {&lr, &steps, nullptr, nullptr},
                    {0, 0, 0, false});
  CHECK(p.to_vector<float>() == std::vector<float>{0.95f, 2.1f});
}

}  // namespace linnet
