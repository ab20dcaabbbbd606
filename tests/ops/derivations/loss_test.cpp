#include <linnet/ops/layers/loss.h>

#include <doctest/doctest.h>

#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/softmax.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/layers/loss_gradient.md.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kRows = 7, kClasses = 11;

/// softmax by its definition, so that the tape computes its derivative and not the op's backward.
Tensor probabilities(const Tensor& x) { return exp(x) / sum(exp(x), {-1}, true); }

}  // namespace

TEST_CASE("derivations: the gradients of softmax and log-softmax") {
  const Tensor x = uniform({kRows, kClasses}, 1, -3, 3), g = uniform({kRows, kClasses}, 2), p = probabilities(x);
  const Tensor row = p.select(0, 3);
  std::vector<Tensor> rows;
  for (int64_t c = 0; c < kClasses; ++c) {
    rows.push_back(tape_gradient(x.select(0, 3), [&](const Tensor& y) { return probabilities(y).select(0, c); }));
  }
  check_step("(1)", row.unsqueeze(1) * (eye(kClasses, -1, DType::float64) - row.unsqueeze(0)), stack(rows));
  const Tensor dx = p * (g - sum(g * p, {-1}, true));
  check_step("(2)", dx, tape_gradient(x, [&](const Tensor& y) { return loss_of(probabilities(y), g); }));
  check_step("(2) of the op", dx, tape_gradient(x, [&](const Tensor& y) { return loss_of(softmax(y, -1), g); }));
  const Tensor dx_of_log = g - p * sum(g, {-1}, true);
  check_step("(3)", dx_of_log, tape_gradient(x, [&](const Tensor& y) { return loss_of(log(probabilities(y)), g); }));
  check_step("(3) of the op", dx_of_log,
             tape_gradient(x, [&](const Tensor& y) { return loss_of(log_softmax(y, -1), g); }));
}

TEST_CASE("derivations: the gradient of cross-entropy") {
  const Tensor x = uniform({kRows, kClasses}, 1, -3, 3), dloss = uniform({kRows}, 2);
  const Tensor targets = tensor(std::vector<int64_t>{3, 0, 10, -100, 5, 5, 7});
  const Tensor kept = ne(targets, -100).to(DType::float64).unsqueeze(-1);
  const Tensor is_target = one_hot(masked_fill(targets, eq(targets, -100), 0), kClasses, DType::float64);
  const Tensor m = max(x, {-1}, true), log_z = log(sum(exp(x - m), {-1}, true)), p = probabilities(x);
  check_step("(4)", (x - m) - log_z, log(p));
  check_step("(6)", exp(x - m - log_z),
             tape_gradient(x, [&](const Tensor& y) { return sum(log(sum(exp(y - m), {-1}))); }));
  for (const double epsilon : {0.0, 0.2}) {
    CAPTURE(epsilon);
    const Tensor tau = (1 - epsilon) * is_target + epsilon / kClasses;
    const Tensor loss = kept * (log_z - (1 - epsilon) * sum(is_target * (x - m), {-1}, true) -
                                epsilon / kClasses * sum(x - m, {-1}, true));
    CrossEntropyOptions options{.label_smoothing = epsilon, .reduction = Reduction::none};
    check_step("(5)", loss.squeeze(-1), cross_entropy(x, targets, options));
    check_step("(7)", kept * (p - epsilon / kClasses - (1 - epsilon) * is_target),
               tape_gradient(x, [&](const Tensor& y) { return sum(kept * neg(tau * log(probabilities(y)))); }));
    const Tensor slope = kept * (exp((x - m) - log_z) - epsilon / kClasses - (1 - epsilon) * is_target);
    check_step("(8)", dloss.unsqueeze(-1) * slope,
               tape_gradient(x, [&](const Tensor& y) { return loss_of(cross_entropy(y, targets, options), dloss); }));
    options.reduction = Reduction::mean;
    check_step("(9)", slope / sum(kept),
               tape_gradient(x, [&](const Tensor& y) { return cross_entropy(y, targets, options); }));
  }
}
