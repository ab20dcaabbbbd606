// Solutions to the exercises of chapter 2.

#include <cmath>
#include <iostream>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. The mean must be [5, 1], so that it is repeated along each row. [5] would be aligned with the last dim, of size
//    3, which is an error. For a square matrix it would be no error, but the result would be wrong.

void center_rows(Generator& rng) {
  const Tensor x = randn({5, 3}, rng, DType::float64);
  const Tensor centered = x - x.mean(1, true);  // true keeps the dim that is averaged, with size 1
  std::cout << "1. the means of the centred rows: at most " << centered.mean(1).abs().max().item() << "\n";
  check(centered.mean(1).abs().max().item() < 1e-15, "centred rows have the mean 0");
}

// 2. [4, 1, 2] − [6, 2] has the shape [4, 6, 2]: all differences. A distance is the root of the sum of their squares.

void all_distances(Generator& rng) {
  const Tensor a = randn({4, 2}, rng, DType::float64), b = randn({6, 2}, rng, DType::float64);
  const Tensor distances = (a.unsqueeze(1) - b).square().sum(2).sqrt();
  std::cout << "2. the distances have the shape " << distances.shape() << "\n";
  const double by_hand = std::hypot(a[{3, 0}].item() - b[{5, 0}].item(), a[{3, 1}].item() - b[{5, 1}].item());
  check(std::abs(distances[{3, 5}].item() - by_hand) < 1e-14, "the last distance is that of the last two points");
}

// 3. b_i is used in each column j, where dy_ij/db_i = x_ij. So dL/db_i = Σ_j G_ij x_ij: a sum over dim 1, which stays
//    with size 1.

void column_gradient(Generator& rng) {
  const Tensor x = randn({2, 3}, rng, DType::float64), g = randn({2, 3}, rng, DType::float64);
  Tensor b = randn({2, 1}, rng, DType::float64).set_requires_grad();
  backward(x * b, {.grad = g});  // grad is dL/dy; it is needed because y has more than one element
  const double difference = ((g * x).sum(1, true) - b.grad()).abs().max().item();
  std::cout << "3. the gradient of b has the shape " << b.grad().shape() << "\n";
  check(difference < 1e-14, "the gradient of b is the sum of g * x along the rows");
}

int main() {
  Generator rng(2);
  center_rows(rng);
  all_distances(rng);
  column_gradient(rng);
}
