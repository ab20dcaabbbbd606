// # 2. Tensors, shapes and broadcasting
//
// A *tensor* is an array of numbers with a *shape*: a vector has one dim, a matrix two, a batch of colour images
// four. One op on a tensor replaces a loop, and that loop runs at the speed of compiled code. This chapter explains
// shapes, views and broadcasting, and the gradient of a broadcast, where most mistakes are made.

#include <fmt/core.h>

#include <iostream>

#include <linnet/linnet.h>

#include "support/plot/heat_map.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## Shapes and views
//
// The numbers of a matrix lie in memory row by row. The shape only says how to find them: element $[i, j]$ of a
// $[2, 3]$ matrix lies $3i + j$ places after the first. The factors, here 3 and 1, are the *strides*. A transpose
// swaps sizes and strides and copies nothing: it is a *view* of the same numbers. So a change to one is visible in
// the other. `reshape` also returns a view if the numbers already lie in the right order. Elsewhere, as after a
// transpose, it copies them.

void show_views() {
  Tensor a = arange(6, DType::float32).reshape({2, 3});
  const Tensor transposed = a.t();
  a[{0, 1}] = 10;  // Python: a[0, 1] = 10
  std::cout << a << "\n\nits transpose, " << transposed.shape() << ", with the strides " << transposed.strides()
            << "\n"
            << transposed << "\n\n";
  check(transposed[{1, 0}].item() == 10, "a transpose is a view");
}

// ## Broadcasting
//
// An op on two tensors of the same shape works element by element. If the shapes differ, their last dims are aligned.
// A dim of size 1, or one that is missing in front, is repeated until it fits; any other difference is an error. The
// repetition is a view with a stride of 0, so it costs no memory.
//
// | a | b | a + b |
// |---|---|---|
// | [2, 3] | [3] | [2, 3]: b is added to each row |
// | [2, 3] | [2, 1] | [2, 3]: b is added to each column |
// | [4, 1] | [5] | [4, 5]: every sum of one element of each |

void show_broadcasting() {
  const Tensor column = arange(1, 5).unsqueeze(1), row = arange(1, 6);
  std::cout << "a multiplication table, " << column.shape() << " * " << row.shape() << "\n" << column * row << "\n\n";
  try {
    ones({2, 3}) + ones({2});
  } catch (const ShapeError& error) {
    std::cout << error.message() << "\n\n";
  }
}

// ## The gradient of a broadcast
//
// Let $y_{ij} = x_{ij} + b_j$, and let $G_{ij} = \partial L/\partial y_{ij}$ be known. Each $b_j$ is used once in
// every row, and chapter 1 showed that the gradients from all uses of a value are added:
//
// $$\frac{\partial L}{\partial b_j} = \sum_i G_{ij}\frac{\partial y_{ij}}{\partial b_j} = \sum_i G_{ij}$$
//
// So **the gradient of a repeated value is the sum over its repetitions**, and it has the shape of $b$ again. The
// reverse holds too: the gradient of a sum is repeated. If $s = \sum_i x_i$, each $x_i$ gets $\partial L/\partial s$.

/// Sums `gradient`, which has the shape of a result, down to `shape`, the shape of an input that was broadcast.
Tensor sum_to(Tensor gradient, const Shape& shape) {
  while (gradient.rank() > shape.rank()) gradient = gradient.sum(0);  // dims that were missing in front
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] == 1) gradient = gradient.sum(dim, true);  // true: the dim stays, with size 1
  }
  return gradient;
}

// ## A layer by hand
//
// A linear layer is a matrix product and a broadcast: $y = xW + b$ for a batch $x$ of 32 rows. In the product
// $y_{ij} = \sum_k x_{ik} W_{kj}$, the weight $W_{kj}$ is multiplied by $x_{ik}$ in each row $i$. So
// $\partial L/\partial W_{kj} = \sum_i x_{ik} G_{ij}$, which is the product $x^\top G$. The gradient of $x$ is
// $G W^\top$. Shapes help to remember it: no other product of $G$ and $W$, transposed or not, has the shape of $x$.
//
// The loss is the mean of $(y - t)^2$ over all $n$ elements, so $G = 2(y - t)/n$. The program compares these
// gradients with linnet's (next chapter). Check gradients in float64, which has 16 digits; float32 has 7.

int main() {
  show_views();
  show_broadcasting();

  Generator rng(1);
  const Tensor x = randn({32, 8}, rng, DType::float64), t = randn({32, 4}, rng, DType::float64);
  Tensor w = randn({8, 4}, rng, DType::float64), b = zeros({4}, DType::float64);
  w.set_requires_grad();
  b.set_requires_grad();
  const Tensor y = matmul(x, w) + b;
  backward((y - t).square().mean());

  const Tensor g = 2 * (y.detach() - t) / y.numel();
  const double w_difference = (matmul(x.t(), g) - w.grad()).abs().max().item();
  const double b_difference = (sum_to(g, b.shape()) - b.grad()).abs().max().item();
  std::cout << "dL/db, " << b.grad().shape() << "\n" << b.grad() << "\n";
  check(w_difference < 1e-12 && b_difference < 1e-12, "the gradients by hand are those of backward");
  fmt::print("the gradients by hand differ from linnet's by less than 1e-12\n");

  const Tensor sums = arange(-10, 11).unsqueeze(1) * arange(-10, 11);
  examples::write_png({.title = "A column times a row",
                       .subtitle = "[21, 1] * [21], broadcast to [21, 21]",
                       .value_label = "product",
                       .maps = {{.rows = 21, .cols = 21, .values = sums.to_vector<double>()}}},
                      "02_broadcast.png");
}
// <!-- output -->
// ![Products of the numbers from −10 to 10: a column times a row](02_broadcast.png)
//
// ## Exercises
//
// 1. Subtract its mean from each row of a [5, 3] matrix. Which shape must the mean have, and why is [5] wrong?
// 2. Compute all distances between 4 points and 6 points of a plane without a loop: [4, 6] from [4, 2] and [6, 2].
// 3. Derive the gradient of $b$ in $y_{ij} = x_{ij} b_i$, where $b$ has the shape [2, 1], and check it.
