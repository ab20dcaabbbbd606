#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/recurrent.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// A layer's tensors and options; c0 is unused by GRU.
struct RecurrentCase {
  bool is_lstm;
  Tensor x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh;
  RecurrentOptions options;

  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all{x, h0, weight_ih, weight_hh, bias_ih, bias_hh};
    if (is_lstm) all.push_back(c0);
    return all;
  }
};

RecurrentCase make_case(bool is_lstm, int64_t steps, int64_t batch, int64_t input, int64_t width, DType dtype) {
  const int64_t rows = (is_lstm ? 4 : 3) * width;
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  const auto leaf = [&](const Shape& shape, uint64_t seed, double limit) {
    return linnet::test::uniform(shape, seed, -limit, limit).to(DType::float32).to(dtype).set_requires_grad();
  };
  return {is_lstm,
          leaf({steps, batch, input}, 1, 1),
          leaf({batch, width}, 2, 1),
          leaf({batch, width}, 3, 1),
          leaf({rows, input}, 4, bound),
          leaf({rows, width}, 5, bound),
          leaf({rows}, 6, bound),
          leaf({rows}, 7, bound),
          {}};
}

/// The output [T, B, H] and the final states.
std::vector<Tensor> run(const RecurrentCase& c) {
  if (c.is_lstm) {
    const LSTMResult result = lstm(c.x, c.h0, c.c0, c.weight_ih, c.weight_hh, c.bias_ih, c.bias_hh, c.options);
    return {result.output, result.h_n, result.c_n};
  }
  const GRUResult result = gru(c.x, c.h0, c.weight_ih, c.weight_hh, c.bias_ih, c.bias_hh, c.options);
  return {result.output, result.h_n};
}

/// The definition, gate by gate, for sequences without padding.
std::vector<Tensor> reference(const RecurrentCase& c) {
  const int64_t steps = c.x.size(0);
  Tensor h = c.h0, cell = c.c0;
  std::vector<Tensor> outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = c.options.reverse ? steps - 1 - i : i;
    const auto x = linear(c.x[t], c.weight_ih, c.bias_ih).split(c.h0.size(1), 1);
    const auto sums = linear(h, c.weight_hh, c.bias_hh).split(c.h0.size(1), 1);
    if (c.is_lstm) {
      cell = sigmoid(x[1] + sums[1]) * cell + sigmoid(x[0] + sums[0]) * tanh(x[2] + sums[2]);
      h = sigmoid(x[3] + sums[3]) * tanh(cell);
    } else {
      const Tensor r = sigmoid(x[0] + sums[0]), z = sigmoid(x[1] + sums[1]), n = tanh(x[2] + r * sums[2]);
      h = (1 - z) * n + z * h;
    }
    outputs[static_cast<size_t>(t)] = h;
  }
  std::vector<Tensor> results{stack(outputs), h};
  if (c.is_lstm) results.push_back(cell);
  return results;
}

/// The results, and the gradients of all inputs for cotangents of all results.
std::vector<Tensor> with_all_gradients(const RecurrentCase& c, const std::vector<Tensor>& results) {
  std::vector<Tensor> cotangents, all;
  for (const Tensor& result : results) {
    cotangents.push_back(linnet::test::uniform(result.shape(), 8 + cotangents.size()).to(result.dtype()));
    all.push_back(result.detach());
  }
  for (const Tensor& gradient : grad(results, c.inputs(), {.grad_outputs = cotangents})) all.push_back(gradient);
  return all;
}

/// Sizes whose matrix products are thin, or are divided by rows and columns, with last panels that are not full.
constexpr int64_t kSizes[][4] = {{5, 3, 7, 33}, {4, 40, 20, 130}, {3, 17, 9, 50}};

}  // namespace

TEST_CASE("gru and lstm are their definitions, in both directions") {
  for (const auto& [steps, batch, input, width] : kSizes) {
    for (const bool is_lstm : {false, true}) {
      for (const bool reverse : {false, true}) {
        CAPTURE(width);
        CAPTURE(is_lstm);
        CAPTURE(reverse);
        RecurrentCase c = make_case(is_lstm, steps, batch, input, width, DType::float64);
        c.options.reverse = reverse;
        const auto actual = with_all_gradients(c, run(c)), expected = with_all_gradients(c, reference(c));
        REQUIRE(actual.size() == expected.size());
        for (size_t i = 0; i < actual.size(); ++i) {
          CAPTURE(i);
          CHECK(relative_error(actual[i], expected[i].to_vector<double>()) < 1e-13);
        }
      }
    }
  }
}

TEST_CASE("gru and lstm in float32 are near float64, and the same for any number of threads") {
  for (const auto& [steps, batch, input, width] : kSizes) {
    for (const bool is_lstm : {false, true}) {
      CAPTURE(width);
      CAPTURE(is_lstm);
      const RecurrentCase wide = make_case(is_lstm, steps, batch, input, width, DType::float64);
      const RecurrentCase c = make_case(is_lstm, steps, batch, input, width, DType::float32);
      const auto exact = with_all_gradients(wide, run(wide));
      check_threads_change_no_bit([&] {
        const auto results = with_all_gradients(c, run(c));
        for (size_t i = 0; i < results.size(); ++i) {
          CAPTURE(i);
          CHECK(relative_error(results[i], exact[i].to_vector<double>()) < 1e-6);
        }
        return results;
      });
    }
  }
}

TEST_CASE("gru and lstm: what padding holds changes nothing, and each sequence is as if it were alone") {
  const std::vector<int64_t> lengths{4, 1, 6, 3};
  for (const bool is_lstm : {false, true}) {
    for (const bool reverse : {false, true}) {
      RecurrentCase c = make_case(is_lstm, 6, 4, 3, 5, DType::float64);
      c.options = {.lengths = tensor(lengths), .reverse = reverse};
      const auto all = with_all_gradients(c, run(c));
      RecurrentCase other = c;
      other.x = c.x.detach().clone();
      for (size_t b = 0; b < lengths.size(); ++b) {
        const int64_t length = lengths[b], row = static_cast<int64_t>(b);
        for (int64_t t = length; t < 6; ++t) {
          CHECK(all[0][{t, row}].abs().max().item() == 0);
          CHECK(all[is_lstm ? 3 : 2][{t, row}].abs().max().item() == 0);  // the gradient of x
          other.x[{t, row}] = NAN;
        }
        RecurrentCase alone = c;
        alone.x = c.x.detach().narrow(1, row, 1).narrow(0, 0, length);
        alone.h0 = c.h0.detach().narrow(0, row, 1);
        alone.c0 = c.c0.detach().narrow(0, row, 1);
        alone.options.lengths = {};
        const auto of_alone = run(alone);
        CHECK(largest_difference(of_alone[0], all[0].narrow(1, row, 1).narrow(0, 0, length)) < 1e-14);
        for (size_t i = 1; i < of_alone.size(); ++i) {
          CHECK(largest_difference(of_alone[i][0], all[i][row]) < 1e-14);
        }
      }
      other.x = other.x.set_requires_grad();
      check_same_bits(with_all_gradients(other, run(other)), all);
    }
  }
}

TEST_CASE("gru: a state edited before backward is an error, as of any op") {
  const RecurrentCase c = make_case(false, 3, 2, 3, 4, DType::float64);
  const Tensor y = run(c)[0];
  {
    NoGrad no_grad;
    Tensor edited = y.detach();
    edited.fill_(0);
  }
  CHECK_THROWS_AS(backward(y.sum()), AutogradError);
}

TEST_CASE("gru and lstm: errors name what does not fit, and the remedy") {
  const RecurrentCase c = make_case(false, 5, 3, 7, 4, DType::float32);
  const auto refused = [&](const char* part, const auto& edit) {
    RecurrentCase edited = c;
    edit(edited);
    CAPTURE(part);
    CHECK_THROWS_WITH(run(edited), doctest::Contains(part));
  };
  refused("gru: x[5, 3] must be [T, B, in], steps first; unsqueeze(1) makes a batch of one",
          [](auto& e) { e.x = ones({5, 3}); });
  refused("x[5, 3, 6] has 6 features in its last dim, but weight_ih[12, 7] takes 7",
          [](auto& e) { e.x = ones({5, 3, 6}); });
  refused("x[0, 3, 7] has no steps; one is needed", [](auto& e) { e.x = ones({0, 3, 7}); });
  refused("h0[1, 3, 4] must be [3, 4], one state for each sequence", [](auto& e) { e.h0 = ones({1, 3, 4}); });
  refused("weight_hh[12, 5] must be [3·H, H]", [](auto& e) { e.weight_hh = ones({12, 5}); });
  refused("weight_ih[16, 7] must be [12, in]", [](auto& e) { e.weight_ih = ones({16, 7}); });
  refused("bias_hh[4] must be [12], one number for each row of the weights", [](auto& e) { e.bias_hh = ones({4}); });
  refused("bias_ih[4] must be [12]", [](auto& e) { e.bias_ih = ones({4}); });
  refused("lengths[1] is 6, beyond the 5 steps of x; clip the lengths, or pad x",
          [](auto& e) { e.options.lengths = tensor<int64_t>({5, 6, 1}); });
  refused("lengths[2] is 0; a sequence has at least 1 step: leave the empty ones out",
          [](auto& e) { e.options.lengths = tensor<int64_t>({5, 2, 0}); });
  refused("lengths[5] must be [3], one for each sequence of x[5, 3, 7]; is x [B, T, in]?",
          [](auto& e) { e.options.lengths = ones({5}, DType::int64); });
  refused("lengths are float32; they must be int64 or int32", [](auto& e) { e.options.lengths = ones({3}); });
  refused("float64", [](auto& e) { e.h0 = ones({3, 4}, DType::float64); });
  RecurrentCase of_lstm = make_case(true, 5, 3, 7, 4, DType::float32);
  of_lstm.c0 = ones({3, 5});
  CHECK_THROWS_WITH(run(of_lstm), doctest::Contains("lstm: c0[3, 5] must be [3, 4]"));
}
