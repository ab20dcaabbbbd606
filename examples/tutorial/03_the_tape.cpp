// # 3. linnet's tape
//
// This chapter writes the engine of chapter 1 again, as a list, and compares it with linnet's engine.

#include <fmt/core.h>

#include <chrono>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## An engine as a list
//
// Number the nodes in the order in which they are computed. Then the inputs of a node have smaller numbers than the
// node itself, so no sorting is needed: backward visits the nodes from the highest number down. Such a list of
// computed values is called a *tape*.

struct Entry {
  double value;
  size_t a = 0, b = 0;    // the indices of its inputs
  double da = 0, db = 0;  // its derivatives with respect to them; 0 for a leaf, so that it adds nothing to entry 0
  double grad = 0;        // dL/dvalue
};
std::vector<Entry> tape;

size_t record(Entry entry) { return tape.push_back(entry), tape.size() - 1; }
size_t add(size_t a, size_t b) { return record({tape[a].value + tape[b].value, a, b, 1, 1}); }
size_t multiply(size_t a, size_t b) {
  return record({tape[a].value * tape[b].value, a, b, tape[b].value, tape[a].value});
}

/// The gradient, with respect to w, of the sum of (xw)² over all elements, where x and w are [n, n].
Tensor gradient_by_list(const std::vector<double>& x, const std::vector<double>& w, size_t n) {
  tape.clear();
  for (const double value : w) record({value});  // w is the entries 0 … n² − 1
  size_t loss = record({0});
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      size_t y = record({0});
      for (size_t k = 0; k < n; ++k) y = add(y, multiply(record({x[i * n + k]}), k * n + j));
      loss = add(loss, multiply(y, y));
    }
  }
  tape[loss].grad = 1;
  std::vector<double> gradient(n * n);
  for (size_t i = loss + 1; i-- > 0;) {
    tape[tape[i].a].grad += tape[i].grad * tape[i].da;
    tape[tape[i].b].grad += tape[i].grad * tape[i].db;
    if (i < n * n) gradient[i] = tape[i].grad;
  }
  return tensor(gradient);
}

// ## Nodes of tensors
//
// In linnet a node stands for a whole op on tensors. It does not store derivatives: a product of two [n, n] matrices
// has $2n^3$ of them. It stores a function instead, which computes the gradients of its inputs, $G W^\top$ and
// $x^\top G$ (chapter 2), from the gradient $G$ of its result. It also stores the tensors that this function reads,
// here $x$ and $W$. Because of these *saved tensors*, training takes more memory than evaluation.
//
// A node's number is 1 + the largest of its inputs. `backward` (`core/autograd/engine.cpp`) visits nodes from the
// highest down and sums the gradients that reach each. A *leaf*, which no op computed, keeps the sum in the end.
//
// ## Five rules
//
// - Gradients **add up** over losses.
// - Backward frees the saved tensors, so a second backward throws, unless the first one had `{.retain = true}`.
// - Under `NoGrad` nothing is recorded: evaluation is cheaper there, and parameters can be edited in place.
// - Most backward functions are made of ops. With `{.create_graph = true}` backward records these too, so that
//   gradients have gradients. A *fused op*, one kernel for several ops as in attention, has only a first derivative.
// - A saved tensor must not be edited before backward. linnet detects such an edit and throws.

void show_rules() {
  Tensor w = scalar(3, DType::float64).set_requires_grad();
  for (int i = 0; i < 2; ++i) backward(w.square());
  fmt::print("d(w²)/dw at 3, added twice: {}\n", w.grad().item());
  check(w.grad().item() == 12, "gradients add up");
  const Tensor slope = grad({w.square()}, {w}, {.create_graph = true})[0];
  fmt::print("the second derivative: {}\n", grad({slope}, {w})[0].item());
  const Tensor y = w.square();  // saves w
  NoGrad no_grad;               // without it, the next line would throw: w is a leaf that requires gradients
  w -= 0.1 * w.grad();
  try {
    backward(y);
  } catch (const AutogradError& error) {
    fmt::print("an edit, then backward: {}\n\n", error.message());
  }
}

int main() {
  show_rules();
  const auto now_ms = [] { return 1e-6 * double(std::chrono::steady_clock::now().time_since_epoch().count()); };
  examples::Series list{.label = "one node for each number"}, ops{.label = "one node for each op"};
  Generator rng(1);
  for (const int64_t n : {2, 4, 8, 16, 32, 64, 128}) {
    const Tensor x = randn({n, n}, rng, DType::float64), w = randn({n, n}, rng, DType::float64).set_requires_grad();
    const double begin = now_ms();
    const Tensor by_list = gradient_by_list(x.to_vector<double>(), w.to_vector<double>(), size_t(n));
    const double middle = now_ms();
    const Tensor loss = matmul(x, w).square().sum();  // 4 nodes: matmul, square, sum, and the leaf w
    if (n == 64) fmt::print("n = 64: {} nodes in the list, {} in linnet\n", tape.size(), live_tape_nodes());
    backward(loss);
    for (auto* series : {&list, &ops}) series->x.push_back(double(n));
    list.y.push_back(middle - begin), ops.y.push_back(now_ms() - middle);
    check((by_list - w.grad().flatten()).abs().max().item() < 1e-10, "both engines find the same gradient");
  }
  examples::write_png({"Gradient of Σ (xw)²", "", "n", "ms", true, true, {list, ops}}, "03_time.png");
}
// <!-- output -->
// ![Milliseconds for the gradient by both engines, against the size of the matrices](03_time.png)
//
// ## Exercises
//
// 1. How many entries does the list have for [n, n] matrices? Derive the number that the program prints for n = 64.
// 2. Record a chain of 100,000 products with linnet. Why would the recursive `sort` of chapter 1 be a problem there?
// 3. Compute $\tanh$'s third derivative at 0.5 with `create_graph`, and compare it with the formula.
