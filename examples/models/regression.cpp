/// Regression with a learned uncertainty: from a table of x and y, a small network learns the mean of y for each x,
/// and its variance.
///
///     build/bin/regression                # regression.csv, or if it is not there, a table that it generates into it
///     build/bin/regression my.csv 500     # your own, with columns x and y, and 500 epochs
///
/// Draws regression.png: the mean, and two standard deviations around it.
///
/// Source: Nix & Weigend 1994, "Estimating the mean and variance of the target probability distribution".

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
using namespace linnet;

struct Regression : nn::Module {
  explicit Regression(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", 1, 64};
  nn::Linear fc2{*this, "fc2", 64, 64};
  nn::Linear mean{*this, "mean", 64, 1};
  nn::Linear spread{*this, "spread", 64, 1};

  struct Normal {
    Tensor mean, var;
  };
  /// [B, 1] → a normal distribution for each row, [B, 1] each
  Normal operator()(const Tensor& x) {
    const Tensor hidden = tanh(fc2(tanh(fc1(x))));
    return {mean(hidden), softplus(spread(hidden)) + 1e-4};  // a variance must be above 0
  }
};

/// A wave whose noise grows with x. A few numbers are missing, as in real tables.
void write_table(const std::string& path) {
  Generator rng(1);
  const Tensor x = rand({2000}, rng) * 10, noise = randn({2000}, rng) * (0.05 + 0.06 * x);
  const Tensor y = sin(x) + 0.3 * x + noise;
  std::ofstream file(path);
  file << "x,y\n";
  for (int64_t i = 0; i < x.size(0); ++i) {
    file << x[i].item() << ",";
    if (i % 100 != 7) file << y[i].item();
    file << "\n";
  }
}

int main(int argc, char** argv) try {
  const std::string path = argc > 1 ? argv[1] : "regression.csv";
  if (argc == 1 && !std::filesystem::exists(path)) write_table(path);
  const int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 60;

  // Rows without a missing value: [rows, 2]
  const Tensor all = nn::read_csv(path).columns({"x", "y"});
  const Tensor rows = index_select(all, 0, nonzero(isfinite(all.sum(1))).reshape({-1}));
  const nn::TensorDataset unscaled({rows});
  const auto parts = nn::random_split(unscaled, {0.8, 0.2}, 1337);
  // A network learns best from numbers of about 1. The mean and the variance are those of the training rows alone.
  const Tensor learned = index_select(rows, 0, tensor(parts[0].indices()));
  const Tensor center = learned.mean(0), scale = learned.var(0).sqrt();
  const Tensor scaled = (rows - center) / scale;
  const nn::TensorDataset data({scaled.narrow(1, 0, 1), scaled.narrow(1, 1, 1)});
  const nn::Subset to_learn(data, parts[0].indices()), held_out(data, parts[1].indices());

  Generator rng(1337);
  Regression model(rng);
  nn::AdamW optimizer(model.parameters());
  nn::Loader train(to_learn, {.batch = 64, .seed = 1337}),
      test(held_out, {.batch = held_out.size(), .shuffle = false});
  const auto lr = nn::schedule::one_cycle({.max_lr = 1e-2, .steps = epochs * train.batches_per_epoch()});
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& [x, y] : train) {
      optimizer.set_lr(lr(step++));
      const auto [mean, var] = model(x);
      backward(gaussian_nll_loss(mean, y, var));
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  const NoGrad no_grad;
  const double y_center = center[1].item(), y_scale = scale[1].item();
  for (const auto& [x, y] : test) {
    const auto [mean, var] = model(x);
    const Tensor inside = (y - mean).abs() <= 2 * var.sqrt();
    std::cout << "held out: loss " << gaussian_nll_loss(mean, y, var).item() << ", error "
              << mse_loss(mean, y).sqrt().item() * y_scale << ", " << 100 * inside.to(DType::float32).mean().item()
              << " % within two standard deviations\n";
  }

  // The picture: a grid of 200 places between the smallest and the largest x.
  const Tensor first = scaled.min(0).values[0], last = scaled.max(0).values[0];
  const Tensor grid = (first + (last - first) * arange(200).to(DType::float32) / 199).reshape({200, 1});
  const auto [mean, var] = model(grid);
  const auto line = [&](const char* label, double deviations) {
    const Tensor x = grid * scale[0] + center[0], y = (mean + deviations * var.sqrt()) * y_scale + y_center;
    return examples::Series{.label = label, .x = x.to_vector<double>(), .y = y.to_vector<double>()};
  };
  examples::write_png({.title = "Regression with a learned uncertainty",
                       .subtitle = path,
                       .x_label = "x",
                       .y_label = "y",
                       .series = {line("mean", 0), line("+2 deviations", 2), line("−2 deviations", -2)}},
                      "regression.png");
} catch (const std::exception& error) {
  std::cerr << "regression: " << error.what() << "\n";
  return 1;
}
