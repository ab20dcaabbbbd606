#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>

/// Functions of one and two elements, for the kernels of kernel.cuh. Elements have type E and are computed as T:
/// float for bfloat16, otherwise E.

namespace linnet::cuda {
namespace {

// ---- Activations and their derivatives ----

template <class T>
__device__ T softplus(T x) {
  return (x > 0 ? x : T(0)) + log1p(exp(-abs(x)));
}

/// Φ(x), the normal distribution function. It uses erfc, because 1 + erf would lose the digits of the tail.
template <class T>
__device__ T normal_cdf(T x) {
  return T(0.5) * erfc(x * T(-0.7071067811865476));
}

template <class T>
__device__ T normal_pdf(T x) {
  return T(0.3989422804014327) * exp(T(-0.5) * x * x);
}

template <class T>
__device__ T gelu_derivative(T x) {
  return normal_cdf(x) + x * normal_pdf(x);
}

/// tanh(√(2/π)·(x + 0.044715·x³))
template <class T>
__device__ T gelu_inner_tanh(T x) {
  return tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x));
}

template <class T>
__device__ T gelu_tanh_derivative(T x) {
  const T t = gelu_inner_tanh(x);
  const T inner_derivative = T(0.7978845608028654) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_derivative;
}

template <class T>
__device__ T silu_derivative(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

// ---- One operand ----

template <class E, class T = ComputedIn<E>>
void unary_number(Unary op, const View& out, const View& x) {
  switch (op) {
    case Unary::neg: return map<E, E>([] __device__(T v) { return static_cast<T>(-v); }, out, x);
    case Unary::abs: return map<E, E>([] __device__(T v) { return v < 0 ? static_cast<T>(-v) : v; }, out, x);
    case Unary::sign:
      return map<E, E>([] __device__(T v) { return v > 0 ? T(1) : v < 0 ? T(-1) : v == 0 ? T(0) : v; }, out, x);
    case Unary::square: return map<E, E>([] __device__(T v) { return v * v; }, out, x);
    case Unary::floor:
    case Unary::ceil:
    case Unary::round:
    case Unary::trunc: return map<E, E>([] __device__(T v) { return v; }, out, x);  // x is an integer
    default: refuse_dtype(x.dtype);
  }
}

template <class E, class T = ComputedIn<E>>
void unary_floating(Unary op, const View& out, const View& x) {
  switch (op) {
    case Unary::abs: return map<E, E>([] __device__(T v) { return abs(v); }, out, x);
    case Unary::reciprocal: return map<E, E>([] __device__(T v) { return T(1) / v; }, out, x);
    case Unary::floor: return map<E, E>([] __device__(T v) { return floor(v); }, out, x);
    case Unary::ceil: return map<E, E>([] __device__(T v) { return ceil(v); }, out, x);
    case Unary::round: return map<E, E>([] __device__(T v) { return nearbyint(v); }, out, x);
    case Unary::trunc: return map<E, E>([] __device__(T v) { return trunc(v); }, out, x);
    case Unary::exp: return map<E, E>([] __device__(T v) { return exp(v); }, out, x);
    case Unary::expm1: return map<E, E>([] __device__(T v) { return expm1(v); }, out, x);
    case Unary::log: return map<E, E>([] __device__(T v) { return log(v); }, out, x);
    case Unary::log1p: return map<E, E>([] __device__(T v) { return log1p(v); }, out, x);
    case Unary::log2: return map<E, E>([] __device__(T v) { return log2(v); }, out, x);
    case Unary::log10: return map<E, E>([] __device__(T v) { return log10(v); }, out, x);
    case Unary::sqrt: return map<E, E>([] __device__(T v) { return sqrt(v); }, out, x);
    case Unary::rsqrt: return map<E, E>([] __device__(T v) { return T(1) / sqrt(v); }, out, x);
    case Unary::sin: return map<E, E>([] __device__(T v) { return sin(v); }, out, x);
    case Unary::cos: return map<E, E>([] __device__(T v) { return cos(v); }, out, x);
    case Unary::tan: return map<E, E>([] __device__(T v) { return tan(v); }, out, x);
    case Unary::asin: return map<E, E>([] __device__(T v) { return asin(v); }, out, x);
    case Unary::acos: return map<E, E>([] __device__(T v) { return acos(v); }, out, x);
    case Unary::atan: return map<E, E>([] __device__(T v) { return atan(v); }, out, x);
    case Unary::sinh: return map<E, E>([] __device__(T v) { return sinh(v); }, out, x);
    case Unary::cosh: return map<E, E>([] __device__(T v) { return cosh(v); }, out, x);
    case Unary::tanh: return map<E, E>([] __device__(T v) { return tanh(v); }, out, x);
    case Unary::sigmoid: return map<E, E>([] __device__(T v) { return sigmoid(v); }, out, x);
    case Unary::relu: return map<E, E>([] __device__(T v) { return v < 0 ? T(0) : v; }, out, x);
    case Unary::gelu: return map<E, E>([] __device__(T v) { return v * normal_cdf(v); }, out, x);
    case Unary::gelu_tanh:
      return map<E, E>([] __device__(T v) { return T(0.5) * v * (T(1) + gelu_inner_tanh(v)); }, out, x);
    case Unary::silu: return map<E, E>([] __device__(T v) { return v * sigmoid(v); }, out, x);
    case Unary::softplus: return map<E, E>([] __device__(T v) { return softplus(v); }, out, x);
    case Unary::elu_plus_one: return map<E, E>([] __device__(T v) { return elu_plus_one(v); }, out, x);
    case Unary::erf: return map<E, E>([] __device__(T v) { return erf(v); }, out, x);
    default: return unary_number<E, T>(op, out, x);
  }
}

void unary(Unary op, View out, View x) {
  if (op == Unary::logical_not) {
    if (x.dtype != DType::boolean) refuse_dtype(x.dtype);
    return map<bool, bool>([] __device__(bool v) { return !v; }, out, x);
  }
  switch (x.dtype) {
    case DType::float32: return unary_floating<float>(op, out, x);
    case DType::float64: return unary_floating<double>(op, out, x);
    case DType::bfloat16: return unary_floating<BFloat16>(op, out, x);
    case DType::int32: return unary_number<int32_t>(op, out, x);
    case DType::int64: return unary_number<int64_t>(op, out, x);
    default: refuse_dtype(x.dtype);
  }
}

// ---- Two operands ----

/// NaN if either operand is NaN.
template <class T>
__device__ T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

template <class T>
__device__ T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

/// p − q·⌊p/q⌋, which has the sign of q.
template <class T>
__device__ T floor_remainder(T p, T q) {
  T rest = 0;
  if constexpr (std::is_floating_point_v<T>) {
    rest = fmod(p, q);
  } else if (q != -1) {  // the smallest integer divided by −1 overflows
    rest = p % q;
  }
  return rest != 0 && (rest < 0) != (q < 0) ? rest + q : rest;
}

template <class E, class T = ComputedIn<E>>
void binary_number(Binary op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Binary::add: return map<E, E, E>([] __device__(T p, T q) { return p + q; }, out, a, b);
    case Binary::sub: return map<E, E, E>([] __device__(T p, T q) { return p - q; }, out, a, b);
    case Binary::mul: return map<E, E, E>([] __device__(T p, T q) { return p * q; }, out, a, b);
    case Binary::remainder: return map<E, E, E>([] __device__(T p, T q) { return floor_remainder(p, q); }, out, a, b);
    case Binary::maximum: return map<E, E, E>([] __device__(T p, T q) { return larger(p, q); }, out, a, b);
    case Binary::minimum: return map<E, E, E>([] __device__(T p, T q) { return smaller(p, q); }, out, a, b);
    default: refuse_dtype(out.dtype);
  }
}

/// In the backward functions `g` is the cotangent, and the other operand the input x or the result y.
template <class E, class T = ComputedIn<E>>
void binary_floating(Binary op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Binary::div: return map<E, E, E>([] __device__(T p, T q) { return p / q; }, out, a, b);
    case Binary::pow: return map<E, E, E>([] __device__(T p, T q) { return pow(p, q); }, out, a, b);
    case Binary::atan2: return map<E, E, E>([] __device__(T p, T q) { return atan2(p, q); }, out, a, b);
    case Binary::leaky_relu:
      return map<E, E, E>([] __device__(T x, T negative_slope) { return x > 0 ? x : negative_slope * x; }, out, a, b);
    case Binary::elu:
      return map<E, E, E>([] __device__(T x, T alpha) { return x > 0 ? x : alpha * expm1(x); }, out, a, b);
    case Binary::tanh_backward:
      return map<E, E, E>([] __device__(T g, T y) { return g * (T(1) - y * y); }, out, a, b);
    case Binary::sigmoid_backward:
      return map<E, E, E>([] __device__(T g, T y) { return g * y * (T(1) - y); }, out, a, b);
    case Binary::relu_backward: return map<E, E, E>([] __device__(T g, T x) { return x <= 0 ? T(0) : g; }, out, a, b);
    case Binary::gelu_backward:
      return map<E, E, E>([] __device__(T g, T x) { return g * gelu_derivative(x); }, out, a, b);
    case Binary::gelu_tanh_backward:
      return map<E, E, E>([] __device__(T g, T x) { return g * gelu_tanh_derivative(x); }, out, a, b);
    case Binary::silu_backward:
      return map<E, E, E>([] __device__(T g, T x) { return g * silu_derivative(x); }, out, a, b);
    case Binary::softplus_backward:
      return map<E, E, E>([] __device__(T g, T x) { return g * sigmoid(x); }, out, a, b);
    case Binary::elu_backward:
      return map<E, E, E>([] __device__(T g, T x) { return x <= 0 ? g * exp(x) : g; }, out, a, b);
    default: return binary_number<E, T>(op, out, a, b);
  }
}

void binary_bool(Binary op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Binary::maximum: return map<bool, bool, bool>([] __device__(bool p, bool q) { return p || q; }, out, a, b);
    case Binary::minimum: return map<bool, bool, bool>([] __device__(bool p, bool q) { return p && q; }, out, a, b);
    default: refuse_dtype(out.dtype);
  }
}

void binary(Binary op, View out, View a, View b) {
  switch (out.dtype) {
    case DType::float32: return binary_floating<float>(op, out, a, b);
    case DType::float64: return binary_floating<double>(op, out, a, b);
    case DType::bfloat16: return binary_floating<BFloat16>(op, out, a, b);
    case DType::int32: return binary_number<int32_t>(op, out, a, b);
    case DType::int64: return binary_number<int64_t>(op, out, a, b);
    case DType::boolean: return binary_bool(op, out, a, b);
    default: refuse_dtype(out.dtype);
  }
}

}  // namespace

void fill_elementwise(Backend& table) {
  table.unary = unary;
  table.binary = binary;
}

}  // namespace linnet::cuda
