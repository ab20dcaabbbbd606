/// Matrix factorisation: learns from users' ratings of some items to predict their ratings of others. Each user and
/// each item has a bias and a vector. A step changes only those of the users and items in its batch.
///
///     build/bin/factorization              # ratings.csv, or if it is not there, ratings that it generates into it
///     build/bin/factorization my.csv 50    # your own, with columns user, item and rating, and 50 epochs
///
/// Draws factorization.png: the errors on held-out ratings after each epoch.
/// Source: Koren, Bell & Volinsky 2009, "Matrix factorization techniques for recommender systems".

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
using namespace linnet;

constexpr int64_t kWidth = 8;                       // numbers in a vector
constexpr float kLr = 0.02F, kWeightDecay = 0.02F;  // γ and λ

/// A table of parameters. A batch uses few of its rows, and backward computes gradients only for these. So a step
/// takes as long in a table of a million rows as in one of a thousand.
struct SparseRows {
  Tensor weight;  // [count, 1 + width]: in each row a bias, then a vector
  Tensor ids;     // [B]: the rows of the batch
  Tensor rows;    // [B, 1 + width]: these rows, which get gradients

  SparseRows(int64_t count, int64_t width, Generator& rng) : weight(0.1 * randn({count, 1 + width}, rng)) {}

  Tensor operator()(const Tensor& batch) {
    ids = batch;
    rows = embedding(weight, ids);
    return rows.set_requires_grad();
  }

  /// Stochastic gradient descent. A row that is in the batch twice changes twice.
  void step() {
    const auto id = ids.to_vector<int64_t>();
    const auto grad = rows.grad().data<float>();
    const auto all = weight.mutable_data<float>();
    const size_t width = grad.size() / id.size();
    for (size_t i = 0; i < grad.size(); ++i) {
      float& number = all[id[i / width] * width + i % width];
      number -= kLr * (grad[i] + kWeightDecay * number);
    }
  }
};

struct Factorization {
  Tensor mean;  // μ
  SparseRows users, items;

  /// Pairs of a user and an item [B, 2] → their ratings [B], as eq. 4 predicts them.
  Tensor operator()(const Tensor& pairs) {
    const Tensor u = users(pairs.select(1, 0)), v = items(pairs.select(1, 1));
    const Tensor products = u[{Slice{}, Slice{1}}] * v[{Slice{}, Slice{1}}];
    return mean + u.select(1, 0) + v.select(1, 0) + products.sum(1);
  }
};

/// Writes ratings for about a tenth of all pairs of 1,000 users and 500 items. A rating is a sum of biases, of a
/// product of vectors of 4 numbers, and of noise with a standard deviation of 0.3. No error can be below the noise.
void write_ratings(const std::string& path) {
  Generator rng(1);
  const Tensor users = randn({1000, 4}, rng), items = randn({500, 4}, rng);
  const Tensor biases = 0.5 * (randn({1000, 1}, rng) + randn({500}, rng));
  const Tensor ratings = 3.5 + biases + 0.5 * matmul(users, items.t()) + 0.3 * randn({1000, 500}, rng);
  const Tensor known = rand({1000, 500}, rng) < 0.1;
  const auto pairs = nonzero(known).to_vector<int64_t>();
  std::ofstream file(path);
  file << "user,item,rating\n";
  for (size_t i = 0; i < pairs.size(); i += 2) {
    file << "user" << pairs[i] << ",item" << pairs[i + 1] << "," << ratings[{pairs[i], pairs[i + 1]}].item() << "\n";
  }
}

int main(int argc, char** argv) try {
  const std::string path = argc > 1 ? argv[1] : "ratings.csv";
  if (argc == 1 && !std::filesystem::exists(path)) write_ratings(path);
  const int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 20;

  const nn::Table table = nn::read_csv(path);
  const nn::Categories user = table.categories("user"), item = table.categories("item");
  const Tensor rating = table.column("rating"), known = nonzero(isfinite(rating)).squeeze(1);
  const Tensor ratings = index_select(rating, 0, known);
  const Tensor pairs = index_select(stack({user.indices, item.indices}, 1), 0, known);
  const nn::TensorDataset data({pairs, ratings});
  const auto parts = nn::random_split(data, {0.9, 0.1}, 1337);
  const Tensor mean = index_select(ratings, 0, tensor(parts[0].indices())).mean();
  // Trains with vectors of `width` numbers. Returns the errors on held-out ratings, before and after each epoch.
  const auto fit = [&](const char* label, int64_t width) {
    Generator rng(1337);
    Factorization model{mean, {std::ssize(user.names), width, rng}, {std::ssize(item.names), width, rng}};
    nn::Loader train(parts[0], {.batch = 64, .seed = 1337}), test(parts[1], {.batch = parts[1].size()});
    examples::Series errors{.label = label};
    for (int64_t epoch = 0;; ++epoch) {
      for (const auto& [x, y] : test) errors.y.push_back(mse_loss(model(x), y).sqrt().item());
      errors.x.push_back(static_cast<double>(epoch));
      if (epoch >= epochs) return errors;
      for (const auto& [x, y] : train) {
        backward(square(y - model(x)).sum() / 2);  // half of eq. 5, whose λ is in step()
        model.users.step();
        model.items.step();
      }
    }
  };
  const examples::Series biases = fit("biases alone", 0), vectors = fit("biases and vectors", kWidth);
  std::cout << "held out: error " << vectors.y.back() << ", of biases alone " << biases.y.back() << "\n";
  examples::write_png({.title = "Errors of predicted ratings",
                       .subtitle = "ratings held out of " + path,
                       .x_label = "epochs",
                       .y_label = "root mean square error",
                       .series = {vectors, biases}},
                      "factorization.png");
} catch (const std::exception& error) {
  std::cerr << "factorization: " << error.what() << "\n";
  return 1;
}
