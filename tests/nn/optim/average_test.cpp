#include <doctest/doctest.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tests/support/near.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::near;

namespace {

void move_to(Tensor parameter, double value) {
  const NoGrad guard;
  parameter.fill_(value);
}

}  // namespace

TEST_CASE("ExponentialMovingAverage: starts with the first update, then follows") {
  Tensor p = full({2}, 7, DType::float64).set_requires_grad();
  nn::ExponentialMovingAverage average({p}, 0.75);
  CHECK(average.averages()[0].to_vector<double>() == std::vector<double>{7, 7});
  move_to(p, 1);
  average.update();
  CHECK(average.averages()[0].to_vector<double>() == std::vector<double>{1, 1});
  move_to(p, 5);
  average.update();
  CHECK(average.averages()[0].to_vector<double>() == std::vector<double>{2, 2});
  CHECK_FALSE(average.averages()[0].requires_grad());
  CHECK(p.to_vector<double>() == std::vector<double>{5, 5});
  CHECK_THROWS_WITH_AS(nn::ExponentialMovingAverage({p}, 1.5),
                       doctest::Contains("decay is 1.5; it must be in [0, 1]"), ValueError);
}

TEST_CASE("AveragedWeights: the averages while it lives, then the weights to the bit, even after an error") {
  Generator rng(3);
  struct Model : nn::Module {
    explicit Model(Generator& generator) : Module(generator) {}
    nn::Linear fc{*this, "fc", 3, 2};
  } model(rng);
  nn::AdamW optimizer(model.parameters(), {.lr = 0.1});
  nn::ExponentialMovingAverage average(model.parameters(), 0.5);
  const Tensor x = randn({4, 3}, rng);
  for (int step = 0; step < 3; ++step) {
    backward(mean(square(model.fc(x))));
    optimizer.step();
    optimizer.zero_grad();
    average.update();
  }
  const auto weights = [&] { return model.fc.state().at("weight").to_vector<float>(); };
  const std::vector<float> own = weights(), averaged = average.averages()[0].to_vector<float>();
  CHECK(own != averaged);
  {
    const nn::AveragedWeights guard(average);
    CHECK(weights() == averaged);
    CHECK(model.parameters()[0].requires_grad());
  }
  CHECK(weights() == own);
  try {
    const nn::AveragedWeights guard(average);
    model.fc(zeros({4, 5}));
  } catch (const ShapeError&) {
  }
  CHECK(weights() == own);
  CHECK(average.averages()[0].to_vector<float>() == averaged);

  const Tensor loss = sum(square(model.parameters()[0]));
  {
    const nn::AveragedWeights guard(average);
  }
  CHECK_THROWS_AS(backward(loss), AutogradError);  // an edit in place, which the tape notices
}

TEST_CASE("ExponentialMovingAverage: a resumed one goes on to the same bits, and refuses a state that does not fit") {
  const auto start = [] { return test::uniform({5}, 1).to(DType::float32).set_requires_grad(); };
  const auto run = [](nn::ExponentialMovingAverage& average, Tensor p, uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; ++step) {
      {
        const NoGrad guard;
        p.copy_(test::uniform({5}, step).to(DType::float32));
      }
      average.update();
    }
  };
  for (const uint64_t stop : {2, 5}) {  // before the first update, and later
    const Tensor p = start(), q = start(), r = start();
    nn::ExponentialMovingAverage whole({p}), first({q}), second({r});
    run(whole, p, 2, 9);
    run(first, q, 2, stop);
    second.load_state(first.state());
    run(second, r, stop, 9);
    CHECK(whole.averages()[0].to_vector<float>() == second.averages()[0].to_vector<float>());
  }
  nn::ExponentialMovingAverage average({start()}), two({start(), start()}), wide({ones({2, 2})});
  const std::vector<float> before = average.averages()[0].to_vector<float>();
  CHECK_THROWS_WITH_AS(average.load_state(two.state()), doctest::Contains("unexpected: 1.average"), ValueError);
  CHECK_THROWS_WITH_AS(average.load_state(wide.state()), doctest::Contains("different: 0.average"), ValueError);
  CHECK_THROWS_WITH_AS(two.load_state(average.state()), doctest::Contains("missing: 1.average"), ValueError);
  CHECK_THROWS_AS(average.load_state({}), ValueError);
  CHECK(average.averages()[0].to_vector<float>() == before);
}
