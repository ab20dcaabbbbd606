#include <doctest/doctest.h>
#include <linnet/core/error.h>
#include <linnet/nn/optim/optim.h>
#include <linnet/nn/optim/schedule.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/near.h"

using namespace linnet;
using linnet::test::near;

TEST_CASE("scale_lr keeps the rates of groups in proportion, also after a restored state") {
  Tensor body = ones({1}, DType::float64).set_requires_grad(), head = ones({1}, DType::float64).set_requires_grad();
  const auto make = [&] {
    return nn::SGD({{.parameters = {body}, .lr = 0.001}, {.parameters = {head}}}, {.lr = 0.1});
  };
  nn::SGD optimizer = make();
  const auto factor = nn::schedule::multi_step({.lr = 1, .milestones = {2, 5}, .gamma = 0.5});
  for (int64_t step = 0; step < 3; ++step) optimizer.scale_lr(factor(step));
  CHECK(*optimizer.groups()[0].lr == near(0.0005));
  CHECK(*optimizer.groups()[1].lr == near(0.05));

  nn::SGD resumed = make();
  resumed.load_state(optimizer.state());
  resumed.scale_lr(factor(5));
  CHECK(*resumed.groups()[0].lr == near(0.00025));
  CHECK(*resumed.groups()[1].lr == near(0.025));

  body.set_grad(ones({1}, DType::float64));
  head.set_grad(ones({1}, DType::float64));
  resumed.step();
  CHECK(body.item() == near(1 - 0.00025));
  CHECK(head.item() == near(1 - 0.025));
}

TEST_CASE("set_lr of all groups is refused where they were built with different rates") {
  Tensor body = ones({1}, DType::float64).set_requires_grad(), head = ones({1}, DType::float64).set_requires_grad();
  nn::SGD optimizer({{.parameters = {body}, .lr = 0.001}, {.parameters = {head}}}, {.lr = 0.1});
  CHECK_THROWS_WITH_AS(optimizer.set_lr(0.01),
                       doctest::Contains("the groups were built with different learning rates, 0.001 and 0.1; "
                                         "scale_lr(factor) keeps them in proportion"),
                       ValueError);
  CHECK(*optimizer.groups()[0].lr == 0.001);
  CHECK_THROWS_WITH_AS(optimizer.scale_lr(-1), doctest::Contains("factor is -1"), ValueError);

  nn::SGD same({{.parameters = {body}}, {.parameters = {head}, .weight_decay = 0.1}}, {.lr = 0.1});
  same.set_lr(0.01);
  CHECK(*same.groups()[1].lr == 0.01);
}
