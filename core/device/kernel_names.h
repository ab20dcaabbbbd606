#pragma once

#include <cstdint>

/// The variants of the kernels in `core/device/backend.h`. `name_of` is the name in a profile; the compiler warns of
/// a variant without a name. The code is C++17, so that nvcc compiles it.

namespace linnet {

// clang-format off

/// y = f(x), one element each.
enum class Unary : uint8_t {
  neg, abs, sign, reciprocal, square, floor, ceil, round, trunc, exp, expm1, log, log1p, log2, log10, sqrt, rsqrt,
  sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, sigmoid, relu, gelu, gelu_tanh, silu, softplus, elu_plus_one,
  erf, logical_not
};
// clang-format on
constexpr const char* name_of(Unary op) {
  switch (op) {
    case Unary::neg: return "neg";
    case Unary::abs: return "abs";
    case Unary::sign: return "sign";
    case Unary::reciprocal: return "reciprocal";
    case Unary::square: return "square";
    case Unary::floor: return "floor";
    case Unary::ceil: return "ceil";
    case Unary::round: return "round";
    case Unary::trunc: return "trunc";
    case Unary::exp: return "exp";
    case Unary::expm1: return "expm1";
    case Unary::log: return "log";
    case Unary::log1p: return "log1p";
    case Unary::log2: return "log2";
    case Unary::log10: return "log10";
    case Unary::sqrt: return "sqrt";
    case Unary::rsqrt: return "rsqrt";
    case Unary::sin: return "sin";
    case Unary::cos: return "cos";
    case Unary::tan: return "tan";
    case Unary::asin: return "asin";
    case Unary::acos: return "acos";
    case Unary::atan: return "atan";
    case Unary::sinh: return "sinh";
    case Unary::cosh: return "cosh";
    case Unary::tanh: return "tanh";
    case Unary::sigmoid: return "sigmoid";
    case Unary::relu: return "relu";
    case Unary::gelu: return "gelu";
    case Unary::gelu_tanh: return "gelu_tanh";
    case Unary::silu: return "silu";
    case Unary::softplus: return "softplus";
    case Unary::elu_plus_one: return "elu_plus_one";
    case Unary::erf: return "erf";
    case Unary::logical_not: return "logical_not";
  }
  return "?";
}

// clang-format off

/// y = f(a, b). `leaky_relu` and `elu` take (x, their parameter). The variants `*_backward` take (cotangent, x), but
/// those of tanh and sigmoid (cotangent, y).
enum class Binary : uint8_t {
  add, sub, mul, div, remainder, pow, atan2, maximum, minimum, leaky_relu, elu, tanh_backward, sigmoid_backward,
  relu_backward, gelu_backward, gelu_tanh_backward, silu_backward, softplus_backward, elu_backward
};
// clang-format on
constexpr const char* name_of(Binary op) {
  switch (op) {
    case Binary::add: return "add";
    case Binary::sub: return "sub";
    case Binary::mul: return "mul";
    case Binary::div: return "div";
    case Binary::remainder: return "remainder";
    case Binary::pow: return "pow";
    case Binary::atan2: return "atan2";
    case Binary::maximum: return "maximum";
    case Binary::minimum: return "minimum";
    case Binary::leaky_relu: return "leaky_relu";
    case Binary::elu: return "elu";
    case Binary::tanh_backward: return "tanh_backward";
    case Binary::sigmoid_backward: return "sigmoid_backward";
    case Binary::relu_backward: return "relu_backward";
    case Binary::gelu_backward: return "gelu_backward";
    case Binary::gelu_tanh_backward: return "gelu_tanh_backward";
    case Binary::silu_backward: return "silu_backward";
    case Binary::softplus_backward: return "softplus_backward";
    case Binary::elu_backward: return "elu_backward";
  }
  return "?";
}

enum class Compare : uint8_t { eq, ne, lt, le, gt, ge };
constexpr const char* name_of(Compare op) {
  switch (op) {
    case Compare::eq: return "eq";
    case Compare::ne: return "ne";
    case Compare::lt: return "lt";
    case Compare::le: return "le";
    case Compare::gt: return "gt";
    case Compare::ge: return "ge";
  }
  return "?";
}

enum class Reduce : uint8_t { sum, sum_squares, prod, max, min, any, all };
constexpr const char* name_of(Reduce op) {
  switch (op) {
    case Reduce::sum: return "sum";
    case Reduce::sum_squares: return "sum_squares";
    case Reduce::prod: return "prod";
    case Reduce::max: return "max";
    case Reduce::min: return "min";
    case Reduce::any: return "any";
    case Reduce::all: return "all";
  }
  return "?";
}

enum class ArgReduce : uint8_t { max, min };
constexpr const char* name_of(ArgReduce op) {
  switch (op) {
    case ArgReduce::max: return "max";
    case ArgReduce::min: return "min";
  }
  return "?";
}

}  // namespace linnet
