#include <doctest/doctest.h>

#include <linnet/linnet.h>

using namespace linnet;

namespace {

/// The example of nn/optim/optim.h.
struct SignSGD : nn::Optimizer {
  SignSGD(std::vector<Tensor> parameters, double lr)
      : Optimizer({{.parameters = std::move(parameters)}}, lr, /*weight_decay=*/0, /*moments=*/0) {}
  void update(const std::vector<Update>& updates) override {
    for (const Update& u : updates) u.slot->parameter -= sign(u.grad) * u.lr;
  }
};

/// Plain gradient descent as a user's own optimizer, which also records how many steps were counted.
struct OwnSGD : nn::Optimizer {
  OwnSGD(std::vector<Tensor> parameters, double lr)
      : Optimizer({{.parameters = std::move(parameters)}}, lr, /*weight_decay=*/0, /*moments=*/1) {}
  void update(const std::vector<Update>& updates) override {
    for (const Update& u : updates) {
      u.slot->parameter -= u.grad * u.lr;
      u.slot->moments[0] += u.grad;
      steps = u.slot->steps.item<int64_t>();
    }
  }
  int64_t steps = 0;
};

}  // namespace

TEST_CASE("an optimizer of a user's own steps as StepOptions say") {
  Tensor x = tensor({1, 2}, DType::float64);
  x.set_requires_grad();
  OwnSGD own({x}, 0.1);
  nn::SGD ours({x}, {.lr = 0.1});
  backward(sum(square(x)));  // 2 and 4
  const Tensor half = scalar(0.5, DType::float64), no = scalar(0, DType::boolean), yes = scalar(1, DType::boolean);

  own.step({.grad_factor = half, .apply = no});
  CHECK(x.to_vector<double>() == std::vector<double>{1, 2});
  CHECK(own.steps == 0);
  CHECK(own.state().at("steps").to_vector<int64_t>() == std::vector<int64_t>{0});
  const Tensor copy = x.detach().clone();
  own.step({.grad_factor = half, .apply = yes});
  const std::vector<double> after = x.to_vector<double>();
  CHECK(after == std::vector<double>{0.9, 1.8});
  CHECK(own.steps == 1);
  CHECK(own.state().at("0.moment1").to_vector<double>() == std::vector<double>{1, 2});
  CHECK(x.grad().to_vector<double>() == std::vector<double>{2, 4});
  {
    const NoGrad no_grad;
    x.copy_(copy);
  }
  ours.step({.grad_factor = half, .apply = yes});
  CHECK(x.to_vector<double>() == after);
}

TEST_CASE("the optimizer that optim.h shows") {
  Tensor x = tensor({1, -2});
  x.set_requires_grad();
  backward(sum(square(x)));
  SignSGD(std::vector<Tensor>{x}, 0.25).step();
  CHECK(x.to_vector<float>() == std::vector<float>{0.75, -1.75});
}

TEST_CASE("an optimizer without a fused step takes a factor of one element of any rank") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
    for (const Shape& of_parameter : {Shape{}, Shape{2}}) {
      Tensor x = full(of_parameter, 3, DType::float64);
      x.set_requires_grad();
      OwnSGD own({x}, 0.1);
      backward(sum(square(x)));  // 6
      own.step({.grad_factor = full(shape, 0.5)});
      CHECK(x.shape() == of_parameter);
      CHECK(max(abs(x - 2.7)).item() < 1e-15);
    }
  }
}
