#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/attention/linear_attention.h>
#include <linnet/ops/layers/activation.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;
using One = std::function<Tensor(const Tensor&)>;
using Two = std::function<Tensor(const Tensor&, const Tensor&)>;

/// Values given by `seed`, of either sign, 0.2 or more from 0.
Tensor away_from_zero(const Shape& shape, uint64_t seed) {
  const Tensor x = uniform(shape, seed);
  return x + 0.2 * sign(x);
}

/// `draw` makes inputs of every shape. One more input covers `domain`, so that every branch of f is tested.
void add_one(Registry& registry, const std::string& op, const One& f, const std::function<Tensor(const Shape&)>& draw,
             const std::string& kind = "", const Domain& domain = {}) {
  const auto add = [&](const std::string& variant, const Shape& shape) {
    registry.differentiable.push_back(
        {op, kind + variant, {draw(shape)}, [f](const Inputs& in) { return f(in[0]); }});
  };
  add("matrix", {3, 4});
  add("rank 3", {2, 1, 3});
  add("size 1", {1});
  add("rank 0", {});
  add("empty", {0, 3});
  registry.differentiable.push_back(
      {op, kind + "wide", {spread_over(domain)}, [f](const Inputs& in) { return f(in[0]); }});
}

/// `draw` makes the operand with the given number, 0 or 1.
void add_two(Registry& registry, const std::string& op, const Two& f,
             const std::function<Tensor(const Shape&, uint64_t operand)>& draw, const Domain& domain = {}) {
  const auto add = [&](const std::string& variant, const Shape& a, const Shape& b) {
    registry.differentiable.push_back(
        {op, variant, {draw(a, 0), draw(b, 1)}, [f](const Inputs& in) { return f(in[0], in[1]); }});
  };
  add("same shape", {3, 4}, {3, 4});
  add("row", {3, 4}, {4});
  add("column", {3, 1}, {2, 3, 4});
  add("outer", {3, 1}, {4});
  add("rank 0", {}, {2, 3});
  add("size 1", {1}, {1});
  add("empty", {0, 3}, {3});
  add("empty by size 1", {1, 3}, {0, 1});
  // Each number of one operand is combined with a number elsewhere in the domain, and never with an equal one.
  const Tensor wide = spread_over(domain), other = concat({wide.narrow(0, 13, 27), wide.narrow(0, 0, 13)}, 0);
  registry.differentiable.push_back({op, "wide", {wide, other}, [f](const Inputs& in) { return f(in[0], in[1]); }});
}

void add_arithmetic(Registry& registry) {
  const auto any = [](const Shape& shape, uint64_t operand) { return uniform(shape, 10 + operand); };
  const auto positive = [](const Shape& shape, uint64_t operand) { return uniform(shape, 20 + operand, 0.5, 2); };
  // Multiples of 0.1 in one operand, halfway between them in the other: never equal.
  const auto apart = [](const Shape& shape, uint64_t operand) {
    Tensor x = uniform(shape, 30 + operand, -10, 10);
    for (double& value : x.mutable_data<double>()) {
      value = (static_cast<int>(value) + 0.5 * static_cast<double>(operand)) * 0.1;
    }
    return x;
  };
  add_two(registry, "add", [](auto& a, auto& b) { return add(a, b); }, any);
  add_two(registry, "sub", [](auto& a, auto& b) { return sub(a, b); }, any);
  add_two(registry, "mul", [](auto& a, auto& b) { return mul(a, b); }, any);
  add_two(registry, "div", [](auto& a, auto& b) { return div(a, b); }, positive, {0.2, 10});
  add_two(registry, "pow", [](auto& a, auto& b) { return pow(a, b); }, positive, {0.2, 5});
  add_two(registry, "remainder", [](auto& a, auto& b) { return remainder(a, b); }, any, {-9, 10});
  add_two(registry, "floor_divide", [](auto& a, auto& b) { return floor_divide(a, b); }, any, {-9, 10});
  add_two(registry, "atan2", [](auto& a, auto& b) { return atan2(a, b); }, any);
  add_two(registry, "lerp", [](auto& a, auto& b) { return lerp(a, b, 0.3); }, any);
  add_two(registry, "maximum", [](auto& a, auto& b) { return maximum(a, b); }, apart);
  add_two(registry, "minimum", [](auto& a, auto& b) { return minimum(a, b); }, apart);

  const auto one = [](const Shape& shape) { return uniform(shape, 40, 0.5, 2); };
  add_one(registry, "neg", [](auto& x) { return neg(x); }, one);
  add_one(registry, "add", [](auto& x) { return add(x, 3); }, one, "number, ");
  add_one(registry, "sub", [](auto& x) { return sub(x, 3); }, one, "number, ");
  add_one(registry, "sub", [](auto& x) { return sub(3, x); }, one, "from a number, ");
  add_one(registry, "mul", [](auto& x) { return mul(x, 3); }, one, "number, ");
  add_one(registry, "div", [](auto& x) { return div(x, 3); }, one, "number, ");
  add_one(registry, "div", [](auto& x) { return div(3, x); }, one, "of a number, ");
  add_one(registry, "remainder", [](auto& x) { return remainder(x, 0.7); }, one, "number, ");
  add_one(registry, "remainder", [](auto& x) { return remainder(3, x); }, one, "of a number, ", {-3.1, 4.2});
  add_one(registry, "floor_divide", [](auto& x) { return floor_divide(x, 0.7); }, one, "number, ");
  add_one(registry, "floor_divide", [](auto& x) { return floor_divide(3, x); }, one, "of a number, ", {-3.1, 4.2});
  add_one(registry, "lerp", [](auto& x) { return lerp(x, full({}, 2, x.dtype(), x.device()), 0.8); }, one, "0.8, ");
  add_one(registry, "pow", [](auto& x) { return pow(x, 2.5); }, one, "number, ", {0.1, 10});
  add_one(registry, "pow", [](auto& x) { return pow(2.5, x); }, one, "of a number, ", {-6, 6});
  add_one(registry, "maximum", [](auto& x) { return maximum(x, 1.1); }, one, "number, ", {.kinks = {1.1}});
  add_one(registry, "minimum", [](auto& x) { return minimum(x, 1.1); }, one, "number, ", {.kinks = {1.1}});
}

void add_functions(Registry& registry) {
  const auto any = [](const Shape& shape) { return uniform(shape, 50, -3, 3); };
  const auto positive = [](const Shape& shape) { return uniform(shape, 51, 0.5, 2); };
  const auto off_zero = [](const Shape& shape) { return away_from_zero(shape, 52); };
  const auto inside = [](const Shape& shape) { return uniform(shape, 53, -0.9, 0.9); };
  const std::vector<double> integers = {-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  add_one(registry, "floor", [](auto& x) { return floor(x); }, inside, "", {-9.4, 9.2, integers});
  add_one(registry, "ceil", [](auto& x) { return ceil(x); }, inside, "", {-9.4, 9.2, integers});
  add_one(registry, "trunc", [](auto& x) { return trunc(x); }, inside, "", {-9.4, 9.2, integers});
  add_one(registry, "round", [](auto& x) { return round(x); }, inside, "",
          {-3.1, 3.2, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}});
  add_one(registry, "exp", [](auto& x) { return exp(x); }, any);
  add_one(registry, "expm1", [](auto& x) { return expm1(x); }, any);
  add_one(registry, "log", [](auto& x) { return log(x); }, positive, "", {0.1, 10});
  add_one(registry, "log1p", [](auto& x) { return log1p(x); }, positive, "", {-0.9, 10});
  add_one(registry, "log2", [](auto& x) { return log2(x); }, positive, "", {0.1, 10});
  add_one(registry, "log10", [](auto& x) { return log10(x); }, positive, "", {0.1, 10});
  add_one(registry, "sqrt", [](auto& x) { return sqrt(x); }, positive, "", {0.1, 10});
  add_one(registry, "rsqrt", [](auto& x) { return rsqrt(x); }, positive, "", {0.1, 10});
  add_one(registry, "abs", [](auto& x) { return abs(x); }, off_zero, "", {.kinks = {0}});
  add_one(registry, "sign", [](auto& x) { return sign(x); }, off_zero, "", {.kinks = {0}});
  add_one(registry, "sin", [](auto& x) { return sin(x); }, any);
  add_one(registry, "cos", [](auto& x) { return cos(x); }, any);
  add_one(registry, "tan", [](auto& x) { return tan(x); }, inside, "", {-1.3, 1.3});
  add_one(registry, "asin", [](auto& x) { return asin(x); }, inside, "", {-0.9, 0.9});
  add_one(registry, "acos", [](auto& x) { return acos(x); }, inside, "", {-0.9, 0.9});
  add_one(registry, "atan", [](auto& x) { return atan(x); }, any);
  add_one(registry, "sinh", [](auto& x) { return sinh(x); }, any);
  add_one(registry, "cosh", [](auto& x) { return cosh(x); }, any);
  add_one(registry, "square", [](auto& x) { return square(x); }, any);
  add_one(registry, "reciprocal", [](auto& x) { return reciprocal(x); }, off_zero);
  add_one(registry, "erf", [](auto& x) { return erf(x); }, any);
  add_one(registry, "clamp", [](auto& x) { return clamp(x, -1, 1.5); }, any, "", {.kinks = {-1, 1.5}});
  add_one(registry, "clamp", [](auto& x) { return clamp(x, 0.5); }, any, "min, ", {.kinks = {0.5}});
  add_one(registry, "clamp", [](auto& x) { return clamp(x, {}, 0.5); }, any, "max, ", {.kinks = {0.5}});

  add_one(registry, "nan_to_num", [](auto& x) { return nan_to_num(x); }, any);

  add_one(registry, "tanh", [](auto& x) { return tanh(x); }, any);
  add_one(registry, "sigmoid", [](auto& x) { return sigmoid(x); }, any);
  add_one(registry, "relu", [](auto& x) { return relu(x); }, off_zero, "", {.kinks = {0}});
  add_one(registry, "leaky_relu", [](auto& x) { return leaky_relu(x); }, off_zero, "", {.kinks = {0}});
  add_one(registry, "leaky_relu", [](auto& x) { return leaky_relu(x, -0.3); }, off_zero, "slope, ", {.kinks = {0}});
  add_one(registry, "elu", [](auto& x) { return elu(x); }, off_zero, "", {.kinks = {0}});
  add_one(registry, "elu", [](auto& x) { return elu(x, 1.7); }, off_zero, "alpha, ", {.kinks = {0}});
  add_one(registry, "hardtanh", [](auto& x) { return hardtanh(x); }, any, "", {.kinks = {-1, 1}});
  add_one(registry, "hardtanh", [](auto& x) { return hardtanh(x, 0, 6); }, off_zero, "0 to 6, ", {.kinks = {0, 6}});
  add_one(registry, "relu6", [](auto& x) { return relu6(x); }, off_zero, "", {.kinks = {0, 6}});
  add_one(registry, "hardsigmoid", [](auto& x) { return hardsigmoid(x); }, any, "", {.kinks = {-3, 3}});
  add_one(registry, "hardswish", [](auto& x) { return hardswish(x); }, any, "", {.kinks = {-3, 3}});
  add_one(registry, "selu", [](auto& x) { return selu(x); }, off_zero, "", {.kinks = {0}});
  add_one(registry, "linear_attention_features", [](auto& x) { return linear_attention_features(x); }, off_zero, "",
          {.kinks = {0}});
  add_one(registry, "gelu", [](auto& x) { return gelu(x); }, any);
  add_one(registry, "gelu", [](auto& x) { return gelu(x, Gelu::tanh); }, any, "tanh, ");
  add_one(registry, "silu", [](auto& x) { return silu(x); }, any);
  // At its minimum, -1.19, the derivative is a difference of equal numbers, which has no exact digits.
  add_one(registry, "mish", [](auto& x) { return mish(x); }, inside);
  add_one(registry, "softplus", [](auto& x) { return softplus(x); }, any);
  add_one(registry, "softplus", [](auto& x) { return softplus(x, 2.5); }, any, "beta, ");
  add_one(registry, "logsigmoid", [](auto& x) { return logsigmoid(x); }, any);

  const auto drop = [](const Tensor& x) {
    Generator generator(3);
    return dropout(x, 0.4, generator);
  };
  add_one(registry, "dropout", drop, any);
  const auto keep = [](const Tensor& x) {
    Generator generator(3);
    return dropout(x, 0.4, generator, false);
  };
  add_one(registry, "dropout", keep, any, "not training, ");
}

/// Adds cases of several inputs, or along a dim.
void add_others(Registry& registry) {
  const auto add_lerp = [&](const std::string& variant, const Shape& start, const Shape& end, const Shape& weight) {
    registry.differentiable.push_back({"lerp",
                                       "weights, " + variant,
                                       {uniform(start, 54), uniform(end, 55), uniform(weight, 56, -0.5, 1.5)},
                                       [](const Inputs& in) { return lerp(in[0], in[1], in[2]); }});
  };
  add_lerp("same shape", {3, 4}, {3, 4}, {3, 4});
  add_lerp("one", {3, 4}, {4}, {});
  add_lerp("outer", {3, 1}, {4}, {2, 1, 1});
  add_lerp("empty", {0, 3}, {3}, {1});

  const auto add_glu = [&](const std::string& variant, const Shape& shape, int64_t dim) {
    registry.differentiable.push_back(
        {"glu", variant, {uniform(shape, 57, -3, 3)}, [dim](const Inputs& in) { return glu(in[0], dim); }});
  };
  add_glu("last dim", {3, 4}, -1);
  add_glu("middle dim", {2, 6, 1}, 1);
  add_glu("empty", {0, 4}, 1);
  add_glu("empty halves", {3, 0}, 1);
}

void add_choices(Registry& registry) {
  const auto any = [](const Shape& shape, uint64_t operand) { return uniform(shape, 60 + operand); };
  const auto mask = [](const Shape& shape) { return gt(uniform(shape, 62), 0).to(case_device()); };
  add_two(
      registry, "where",
      [mask](auto& a, auto& b) { return where(mask(broadcast_shapes(a.shape(), b.shape())), a, b); }, any);
  const auto one = [](const Shape& shape) { return uniform(shape, 63); };
  add_one(registry, "where", [mask](auto& x) { return where(mask(x.shape()), x, 2); }, one, "number second, ");
  add_one(registry, "where", [mask](auto& x) { return where(mask(x.shape()), 2, x); }, one, "number first, ");
  add_one(registry, "masked_fill", [mask](auto& x) { return masked_fill(x, mask(x.shape()), 5); }, one);
  registry.differentiable.push_back(
      {"where", "condition broadcast", {any({4}, 0), any({4}, 1)}, [=](const Inputs& in) {
         return where(mask({3, 1}), in[0], in[1]);
       }});
  registry.differentiable.push_back({"masked_fill", "mask broadcast", {one({2, 3, 4})}, [=](const Inputs& in) {
                                       return masked_fill(in[0], mask({3, 1}), -1);
                                     }});
}

void add_comparisons(Registry& registry) {
  const auto add = [&](const std::string& op, const Two& f) {
    registry.non_differentiable.push_back(
        {op, {uniform({2, 3}, 70), uniform({3}, 71)}, [f](const Inputs& in) { return f(in[0], in[1]); }});
  };
  add("eq", [](auto& a, auto& b) { return eq(a, b); });
  add("ne", [](auto& a, auto& b) { return ne(a, b); });
  add("lt", [](auto& a, auto& b) { return lt(a, b); });
  add("le", [](auto& a, auto& b) { return le(a, b); });
  add("gt", [](auto& a, auto& b) { return gt(a, b); });
  add("ge", [](auto& a, auto& b) { return ge(a, b); });
  add("lt", [](auto& a, auto&) { return lt(a, 0.5); });
  add("isnan", [](auto& a, auto&) { return isnan(a); });
  add("isinf", [](auto& a, auto&) { return isinf(1 / floor(a)); });
  add("isfinite", [](auto& a, auto&) { return isfinite(1 / floor(a)); });
  add("isclose", [](auto& a, auto& b) { return isclose(a, b, 0.5); });
  for (const char* op : {"logical_not", "logical_and", "logical_or", "logical_xor"}) {
    registry.exempt.emplace_back(op, "its inputs are bool tensors");
  }
}

}  // namespace

void add_elementwise_cases(Registry& registry) {
  add_arithmetic(registry);
  add_functions(registry);
  add_others(registry);
  add_choices(registry);
  add_comparisons(registry);
  for (const char* op : {"zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "scalar", "arange",
                         "linspace", "eye", "tensor", "from_span", "from_memory"}) {
    registry.exempt.emplace_back(op, "its result depends on no tensor's elements");
  }
  registry.exempt.emplace_back("allclose", "its result is a bool");
  for (const char* op : {"cat", "concatenate", "mm", "bmm", "dot", "manual_seed", "bernoulli", "normal", "fmod",
                         "scaled_dot_product_attention", "backward"}) {
    registry.exempt.emplace_back(op, "it only says what to write instead");
  }
  for (const char* op : {"rand", "randn", "rand_like", "randn_like", "randint", "randperm"}) {
    registry.exempt.emplace_back(op, "its result depends on the generator alone");
  }
}

}  // namespace linnet::test
