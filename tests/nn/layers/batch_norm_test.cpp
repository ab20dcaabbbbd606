/// Batch norm and group norm as layers: properties that no golden file covers.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "tests/support/near.h"

using namespace linnet;
using linnet::test::near;

namespace {

std::vector<std::string> names_of(const TensorMap& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name + to_string(tensor.shape()));
  return names;
}

}  // namespace

TEST_CASE("BatchNorm: names, initial values and flags as in PyTorch") {
  Generator rng(3);
  nn::Sequential net(rng);
  const nn::BatchNorm2d norm(net, "norm", 4);
  CHECK(names_of(norm.state()) == std::vector<std::string>{"bias[4]", "num_batches_tracked[]", "running_mean[4]",
                                                           "running_var[4]", "weight[4]"});
  CHECK(norm.named_parameters().size() == 2);
  CHECK(norm.named_buffers().size() == 3);
  const TensorMap state = norm.state();
  for (const auto& [name, value] : {std::pair{"weight", 1}, {"bias", 0}, {"running_mean", 0}, {"running_var", 1}}) {
    CHECK(state.at(name).to_vector<double>() == std::vector<double>(4, value));
  }
  CHECK(state.at("num_batches_tracked").item<int64_t>() == 0);
  CHECK(state.at("num_batches_tracked").dtype() == DType::int64);

  CHECK(names_of(nn::BatchNorm1d(net, "a", 4, {.affine = false}).state()).size() == 3);
  CHECK(names_of(nn::BatchNorm1d(net, "b", 4, {.bias = false}).state()).size() == 4);
  CHECK(nn::BatchNorm1d(net, "c", 4, {.affine = false, .track_running_stats = false}).state().empty());
  CHECK(nn::GroupNorm(net, "d", 2, 4, {.affine = false}).state().empty());
  CHECK(names_of(nn::GroupNorm(net, "e", 2, 4, {.bias = false}).state()) == std::vector<std::string>{"weight[4]"});
}

TEST_CASE("BatchNorm: training edits the statistics, evaluation and a failed call do not") {
  Generator rng(3);
  nn::Sequential net(rng);
  net.add<nn::BatchNorm1d>(3);
  const Tensor x = randn({50, 3}, rng) * 2 + 5;
  const Tensor running_mean = net.state().at("0.running_mean"), count = net.state().at("0.num_batches_tracked");
  const Tensor trained = net(x);
  CHECK(abs(trained.mean(0)).max().item() < 1e-6);
  CHECK(count.item<int64_t>() == 1);
  CHECK(running_mean[1].item() == near(0.1 * x.mean(0)[1].item(), 1e-6));
  CHECK_THROWS_AS(net(x.narrow(0, 0, 1)), ValueError);
  const std::vector<float> after = running_mean.to_vector<float>();
  net.eval();
  const Tensor evaluated = net(x.narrow(0, 0, 1));
  CHECK(running_mean.to_vector<float>() == after);
  CHECK(count.item<int64_t>() == 1);
  CHECK(evaluated.shape() == Shape{1, 3});
}

TEST_CASE("BatchNorm: without momentum the statistics are the mean of all batches") {
  Generator rng(3);
  nn::Sequential net(rng, DType::float64);
  const nn::BatchNorm1d norm(net, "norm", 2, {.momentum = std::nullopt});
  Tensor sum = zeros({2}, DType::float64);
  for (int batch = 0; batch < 4; ++batch) {
    const Tensor x = randn({6, 2}, rng, DType::float64);
    norm(x);
    sum += x.mean(0);
  }
  CHECK(test::largest_difference(norm.state().at("running_mean"), sum / 4) < 1e-15);
}

TEST_CASE("BatchNorm and GroupNorm: weights are learned, and load by PyTorch's names") {
  Generator rng(3);
  nn::Sequential net(rng);
  net.add<nn::Conv2d>(2, 4, 3).add<nn::BatchNorm2d>(4).add(relu).add<nn::GroupNorm>(2, 4);
  nn::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor x = randn({3, 2, 6, 6}, rng), target = randn({3, 4, 4, 4}, rng);
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const Tensor loss = mse_loss(net(x), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  CHECK(last < first);
  nn::Sequential other(rng);
  other.add<nn::Conv2d>(2, 4, 3).add<nn::BatchNorm2d>(4).add(relu).add<nn::GroupNorm>(2, 4);
  other.load_state(net.state());
  net.eval();
  other.eval();
  CHECK(net(x).to_vector<float>() == other(x).to_vector<float>());
}

TEST_CASE("BatchNorm and GroupNorm say what is wrong") {
  Generator rng(3);
  nn::Sequential net(rng);
  const Where at{"a.cpp", 1};
  const nn::BatchNorm2d images(net, "images", 3, {.affine = false, .track_running_stats = false});
  CHECK_THROWS_WITH_AS(
      images(zeros({2, 8, 8, 3}), at),
      "images (BatchNorm2d 3): x[2, 8, 8, 3] must be [N, 3, H, W]; channels come second: did you mean "
      "permute(x, {0, 3, 1, 2})? (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(images(zeros({3, 8, 8}), at),
                       "images (BatchNorm2d 3): x[3, 8, 8] must be [N, 3, H, W] (a.cpp:1)", ShapeError);
  const nn::BatchNorm1d rows(net, "rows", 3);
  CHECK_THROWS_WITH_AS(rows(zeros({2, 8, 3}), at),
                       "rows (BatchNorm1d 3): x[2, 8, 3] must be [N, 3] or [N, 3, L]; channels come second: did you "
                       "mean transpose(x, 1, 2)? (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(rows(zeros({1, 3}), at),
                       doctest::Contains("rows (BatchNorm1d 3): x[1, 3] has one value for each channel"), ValueError);
  CHECK_THROWS_AS(rows(zeros({2, 3, 4, 4})), ShapeError);
  CHECK_THROWS_AS(rows(zeros({2, 4})), ShapeError);
  CHECK_THROWS_AS(rows(zeros({3})), ShapeError);
  const nn::GroupNorm groups(net, "groups", 2, 4, {.affine = false});
  CHECK_THROWS_WITH_AS(
      groups(zeros({2, 8, 8, 4}), at),
      "groups (GroupNorm 2 of 4): x[2, 8, 8, 4] must be [N, 4, …]; channels come second: did you mean "
      "permute(x, {0, 3, 1, 2})? (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(groups(zeros({4})), ShapeError);
  CHECK_THROWS_WITH_AS(nn::GroupNorm(net, "a", 3, 4),
                       "a (GroupNorm 3 of 4): num_channels must be a multiple of num_groups, and both at least 1",
                       ValueError);
  CHECK_THROWS_AS(nn::GroupNorm(net, "b", 0, 4), ValueError);
  CHECK_THROWS_AS(nn::GroupNorm(net, "c", 1, 0), ValueError);
  CHECK_THROWS_AS(nn::BatchNorm1d(net, "d", 0), ValueError);
}
