#include <linnet/ops/layers/recurrent.h>

#include <algorithm>

#include <doctest/doctest.h>

#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/layers/recurrent_gradient.md. x already holds the products with the input
// weights: weight_ih is the identity, and there is no bias_ih.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kSteps = 5, kBatch = 3, kWidth = 4;

/// The inputs and cotangents of a layer of `gates` gates. Sequence b has kSteps − b steps.
struct RecurrentCase {
  int64_t gates;
  Tensor x = uniform({kSteps, kBatch, gates* kWidth}, 1), h0 = uniform({kBatch, kWidth}, 2),
         c0 = uniform({kBatch, kWidth}, 3);
  Tensor weight = uniform({gates * kWidth, kWidth}, 4), bias = uniform({gates * kWidth}, 5);
  Tensor dy = uniform({kSteps, kBatch, kWidth}, 6), dh_n = uniform({kBatch, kWidth}, 7);
  Tensor dc_n = uniform({kBatch, kWidth}, 8);
  Tensor identity = eye(gates * kWidth, -1, DType::float64);
  RecurrentOptions options{.lengths = tensor(std::vector<int64_t>{5, 4, 3})};

  explicit RecurrentCase(int64_t gates_) : gates(gates_) {}

  /// 1 for sequences that have step t, [B, 1].
  Tensor is_real(int64_t t) const {
    return tensor(std::vector<double>{1, t < 4 ? 1.0 : 0, t < 3 ? 1.0 : 0}).unsqueeze(1);
  }
};

Tensor part(const Tensor& sums, int64_t gate) { return sums.narrow(1, gate * kWidth, kWidth); }

struct Gru {
  Tensor r, z, h_n, n;
  Gru(const Tensor& x, const Tensor& sums)
      : r(sigmoid(part(x, 0) + part(sums, 0))),
        z(sigmoid(part(x, 1) + part(sums, 1))),
        h_n(part(sums, 2)),
        n(tanh(part(x, 2) + r * h_n)) {}
  Tensor state(const Tensor& before) const { return (1 - z) * n + z * before; }
};

struct Lstm {
  Tensor i, f, g, o;
  explicit Lstm(const Tensor& a)
      : i(sigmoid(part(a, 0))), f(sigmoid(part(a, 1))), g(tanh(part(a, 2))), o(sigmoid(part(a, 3))) {}
};

}  // namespace

TEST_CASE("derivations: slopes by values") {
  const Tensor a = uniform({9}, 1, -3, 3), s = sigmoid(a), t = tanh(a);
  check_step("(1) of sigmoid", s * (1 - s),
             tape_gradient(a, [](const Tensor& x) { return sum(1 / (1 + exp(neg(x)))); }));
  check_step("(1) of tanh", 1 - square(t),
             tape_gradient(a, [](const Tensor& x) { return sum((exp(2 * x) - 1) / (exp(2 * x) + 1)); }));
}

TEST_CASE("derivations: the gradient of GRU") {
  const RecurrentCase in(3);
  std::vector<Tensor> h{in.h0};
  for (int64_t t = 0; t < kSteps; ++t) {
    const Tensor next = Gru(in.x.select(0, t), linear(h.back(), in.weight, in.bias)).state(h.back());
    h.push_back(in.is_real(t) * next + (1 - in.is_real(t)) * h.back());
  }
  Tensor carry = in.dh_n;  // cotangent of the last state, which the caller uses too
  std::vector<Tensor> dx(kSteps), dsums(kSteps);
  for (int64_t t = kSteps - 1; t >= 0; --t) {
    const auto at = static_cast<size_t>(t);
    const Tensor x = in.x.select(0, t), before = h[at], sums = linear(before, in.weight, in.bias),
                 real = in.is_real(t);
    const Gru gates(x, sums);
    const Tensor dh = real * in.dy.select(0, t) + carry;  // (2); the output past the end is 0
    const Tensor da_n = dh * (1 - gates.z) * (1 - square(gates.n));
    const Tensor da_z = dh * (before - gates.n) * gates.z * (1 - gates.z);
    const Tensor da_r = da_n * gates.h_n * gates.r * (1 - gates.r);
    const Tensor of_x = concat({da_r, da_z, da_n}, 1), of_sums = concat({da_r, da_z, da_n * gates.r}, 1);
    const Tensor of_before = dh * gates.z + matmul(of_sums, in.weight);

    const auto by_x = tape_gradient(x, [&](const Tensor& y) { return loss_of(Gru(y, sums).state(before), dh); });
    check_step("(3) of n", part(of_x, 2), part(by_x, 2));
    check_step("(3) of z", part(of_x, 1), part(by_x, 1));
    check_step("(4)", part(of_x, 0), part(by_x, 0));
    check_step("(5)", of_sums,
               tape_gradient(sums, [&](const Tensor& s) { return loss_of(Gru(x, s).state(before), dh); }));
    check_step("(6)", of_before, tape_gradient(before, [&](const Tensor& state) {
                 return loss_of(Gru(x, linear(state, in.weight, in.bias)).state(state), dh);
               }));
    dx[at] = real * of_x;
    dsums[at] = real * of_sums;
    carry = real * of_before + (1 - real) * dh;  // (11)
  }

  std::vector<Tensor> leaves{in.x, in.h0, in.weight, in.bias};
  for (Tensor& leaf : leaves) leaf = leaf.detach().set_requires_grad();
  const GRUResult result = gru(leaves[0], leaves[1], in.identity, leaves[2], {}, leaves[3], in.options);
  const std::vector<Tensor> fused = grad({loss_of(result.output, in.dy) + loss_of(result.h_n, in.dh_n)}, leaves);
  const Tensor all = concat(dsums, 0);
  h.pop_back();
  check_step("(3) to (5) of all steps", stack(dx), fused[0]);
  check_step("(2), (6) and (11)", carry, fused[1]);
  check_step("(10) of the weight", matmul(transpose(all), concat(h, 0)), fused[2]);
  check_step("(10) of the bias", sum(all, {0}), fused[3]);
}

TEST_CASE("derivations: the gradient of LSTM") {
  const RecurrentCase in(4);
  const auto next_cell = [](const Lstm& gates, const Tensor& c) { return gates.f * c + gates.i * gates.g; };
  std::vector<Tensor> h{in.h0}, c{in.c0};
  for (int64_t t = 0; t < kSteps; ++t) {
    const Lstm gates(in.x.select(0, t) + linear(h.back(), in.weight, in.bias));
    const Tensor real = in.is_real(t), cell = next_cell(gates, c.back());
    c.push_back(real * cell + (1 - real) * c.back());
    h.push_back(real * gates.o * tanh(cell) + (1 - real) * h.back());
  }
  Tensor carry = in.dh_n, carry_c = in.dc_n;  // cotangents of the last states, which the caller uses too
  std::vector<Tensor> dx(kSteps);
  for (int64_t t = kSteps - 1; t >= 0; --t) {
    const auto at = static_cast<size_t>(t);
    const Tensor a = in.x.select(0, t) + linear(h[at], in.weight, in.bias), before = c[at], real = in.is_real(t);
    const Lstm gates(a);
    const Tensor cell = next_cell(gates, before), dh = real * in.dy.select(0, t) + carry;
    const Tensor squashed = tanh(cell), carried = carry_c;
    const Tensor da_o = dh * squashed * gates.o * (1 - gates.o);
    const Tensor dc = carried + dh * gates.o * (1 - square(squashed));
    const Tensor da_i = dc * gates.g * gates.i * (1 - gates.i), da_f = dc * before * gates.f * (1 - gates.f);
    const Tensor da_g = dc * gates.i * (1 - square(gates.g));
    const Tensor of_a = concat({da_i, da_f, da_g, da_o}, 1), of_before = dc * gates.f;

    // The loss through the step's results: h by dh, c by the carried cotangent.
    const auto loss = [&](const Lstm& at_step, const Tensor& c_next) {
      return loss_of(at_step.o * tanh(c_next), dh) + loss_of(c_next, carried);
    };
    const Tensor by_a = tape_gradient(a, [&](const Tensor& y) {
      const Lstm other(y);
      return loss(other, next_cell(other, before));
    });
    check_step("(7) of o", da_o, part(by_a, 3));
    check_step("(7) of c", dc, tape_gradient(cell, [&](const Tensor& y) { return loss(gates, y); }));
    for (const int64_t gate : {0, 1, 2}) check_step("(8)", part(of_a, gate), part(by_a, gate));
    check_step("(9) of c", of_before,
               tape_gradient(before, [&](const Tensor& y) { return loss(gates, next_cell(gates, y)); }));
    dx[at] = real * of_a;
    carry = real * matmul(of_a, in.weight) + (1 - real) * dh;  // (9) and (11)
    carry_c = real * of_before + (1 - real) * carried;
  }

  std::vector<Tensor> leaves{in.x, in.h0, in.c0, in.weight, in.bias};
  for (Tensor& leaf : leaves) leaf = leaf.detach().set_requires_grad();
  const LSTMResult result = lstm(leaves[0], leaves[1], leaves[2], in.identity, leaves[3], {}, leaves[4], in.options);
  const std::vector<Tensor> fused =
      grad({loss_of(result.output, in.dy) + loss_of(result.h_n, in.dh_n) + loss_of(result.c_n, in.dc_n)}, leaves);
  const Tensor all = concat(dx, 0);
  h.pop_back();
  check_step("(7) and (8) of all steps", stack(dx), fused[0]);
  check_step("(9) of h", carry, fused[1]);
  check_step("(9) of the first c", carry_c, fused[2]);
  check_step("(10) of the weight", matmul(transpose(all), concat(h, 0)), fused[3]);
  check_step("(10) of the bias", sum(all, {0}), fused[4]);
}
