#include <atomic>
#include <cmath>

#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Copies, functions of one and two elements, comparisons and choices; the loops are in kernel.h. For tensors larger
/// than the caches, sums and products are memory-bound; the functions of vector_math.h are compute-bound. So these
/// functions are vectorised, and a task's elements fit a core's own cache.

namespace linnet::cpu::LINNET_ISA {
namespace {

// ---- Activations and their derivatives ----

template <class T>
T softplus(T x) {
  return (x > 0 ? x : T(0)) + vec::log1p(vec::exp(-std::abs(x)));
}

/// Φ(x) + x·φ(x)
template <class T>
T gelu_derivative(T x) {
  const vec::Normal<T> normal = vec::normal(x);
  return normal.cdf + x * (T(0.3989422804014327) * normal.bell);
}

/// tanh(√(2/π)·(x + 0.044715·x³))
template <class T>
T gelu_inner_tanh(T x) {
  return vec::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x));
}

template <class T>
T gelu_tanh_derivative(T x) {
  const T t = gelu_inner_tanh(x);
  const T inner_derivative = T(0.7978845608028654) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_derivative;
}

template <class T>
T silu_derivative(T x) {
  const T s = vec::sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

// ---- One operand ----

template <class T>
void unary_number(Unary op, const View& out, const View& x) {
  switch (op) {
    case Unary::neg: return map<T, T>(out, x, [](T v) { return static_cast<T>(-v); });
    case Unary::abs: return map<T, T>(out, x, [](T v) { return v < 0 ? static_cast<T>(-v) : v; });
    case Unary::sign: return map<T, T>(out, x, [](T v) { return v > 0 ? T(1) : v < 0 ? T(-1) : v == 0 ? T(0) : v; });
    case Unary::square: return map<T, T>(out, x, [](T v) { return v * v; });
    case Unary::floor:
    case Unary::ceil:
    case Unary::round:
    case Unary::trunc: return map<T, T>(out, x, [](T v) { return v; });  // of integers
    default: refuse_dtype(x.dtype);
  }
}

template <class T>
void unary_floating(Unary op, const View& out, const View& x) {
  switch (op) {
    case Unary::abs: return map<T, T>(out, x, [](T v) { return std::abs(v); });
    case Unary::reciprocal: return map<T, T>(out, x, [](T v) { return T(1) / v; });
    case Unary::floor: return map<T, T>(out, x, [](T v) { return std::floor(v); });
    case Unary::ceil: return map<T, T>(out, x, [](T v) { return std::ceil(v); });
    case Unary::round: return map<T, T>(out, x, [](T v) { return std::nearbyint(v); });
    case Unary::trunc: return map<T, T>(out, x, [](T v) { return std::trunc(v); });
    case Unary::exp: return map<T, T>(out, x, [](T v) { return vec::exp(v); });
    case Unary::expm1: return map<T, T>(out, x, [](T v) { return vec::expm1(v); });
    case Unary::log: return map<T, T>(out, x, [](T v) { return vec::log(v); });
    case Unary::log1p: return map<T, T>(out, x, [](T v) { return std::log1p(v); });
    case Unary::log2: return map<T, T>(out, x, [](T v) { return std::log2(v); });
    case Unary::log10: return map<T, T>(out, x, [](T v) { return std::log10(v); });
    case Unary::sqrt: return map<T, T>(out, x, [](T v) { return std::sqrt(v); });
    case Unary::rsqrt: return map<T, T>(out, x, [](T v) { return T(1) / std::sqrt(v); });
    case Unary::sin: return map<T, T>(out, x, [](T v) { return std::sin(v); });
    case Unary::cos: return map<T, T>(out, x, [](T v) { return std::cos(v); });
    case Unary::tan: return map<T, T>(out, x, [](T v) { return std::tan(v); });
    case Unary::asin: return map<T, T>(out, x, [](T v) { return std::asin(v); });
    case Unary::acos: return map<T, T>(out, x, [](T v) { return std::acos(v); });
    case Unary::atan: return map<T, T>(out, x, [](T v) { return std::atan(v); });
    case Unary::sinh: return map<T, T>(out, x, [](T v) { return std::sinh(v); });
    case Unary::cosh: return map<T, T>(out, x, [](T v) { return std::cosh(v); });
    case Unary::tanh: return map<T, T>(out, x, [](T v) { return vec::tanh(v); });
    case Unary::sigmoid: return map<T, T>(out, x, [](T v) { return vec::sigmoid(v); });
    case Unary::relu: return map<T, T>(out, x, [](T v) { return v < 0 ? T(0) : v; });
    case Unary::gelu: return map<T, T>(out, x, [](T v) { return v * vec::normal(v).cdf; });
    case Unary::gelu_tanh: return map<T, T>(out, x, [](T v) { return T(0.5) * v * (T(1) + gelu_inner_tanh(v)); });
    case Unary::silu: return map<T, T>(out, x, [](T v) { return v * vec::sigmoid(v); });
    case Unary::softplus: return map<T, T>(out, x, [](T v) { return softplus(v); });
    case Unary::elu_plus_one: return map<T, T>(out, x, [](T v) { return vec::elu_plus_one(v); });
    case Unary::erf: return map<T, T>(out, x, [](T v) { return vec::erf(v); });
    default: return unary_number<T>(op, out, x);
  }
}

void unary(Unary op, View out, View x) {
  if (op == Unary::logical_not) {
    if (x.dtype != DType::boolean) refuse_dtype(x.dtype);
    return map<bool, bool>(out, x, [](bool v) { return !v; });
  }
  dispatch_number(x.dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      unary_floating<T>(op, out, x);
    } else {
      unary_number<T>(op, out, x);
    }
  });
}

// ---- Two operands ----

/// NaN where either operand is.
template <class T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

template <class T>
T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

/// p − q·⌊p/q⌋, which has q's sign.
template <class T>
T floor_remainder(T p, T q) {
  T rest = 0;
  if constexpr (std::is_floating_point_v<T>) {
    rest = std::fmod(p, q);
  } else if (q != -1) {  // the smallest integer has no quotient by −1
    rest = p % q;
  }
  return rest != 0 && (rest < 0) != (q < 0) ? rest + q : rest;
}

template <class T>
void binary_number(Binary op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Binary::add: return map<T, T, T>(out, a, b, [](T p, T q) { return p + q; });
    case Binary::sub: return map<T, T, T>(out, a, b, [](T p, T q) { return p - q; });
    case Binary::mul: return map<T, T, T>(out, a, b, [](T p, T q) { return p * q; });
    case Binary::remainder: return map<T, T, T>(out, a, b, [](T p, T q) { return floor_remainder(p, q); });
    case Binary::maximum: return map<T, T, T>(out, a, b, [](T p, T q) { return larger(p, q); });
    case Binary::minimum: return map<T, T, T>(out, a, b, [](T p, T q) { return smaller(p, q); });
    default: refuse_dtype(out.dtype);
  }
}

/// In the backward functions `g` is the cotangent, and the other operand the input x or the result y.
template <class T>
void binary_floating(Binary op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Binary::div: return map<T, T, T>(out, a, b, [](T p, T q) { return p / q; });
    case Binary::pow: return map<T, T, T>(out, a, b, [](T p, T q) { return std::pow(p, q); });
    case Binary::atan2: return map<T, T, T>(out, a, b, [](T p, T q) { return std::atan2(p, q); });
    case Binary::leaky_relu:
      return map<T, T, T>(out, a, b, [](T x, T negative_slope) { return x > 0 ? x : negative_slope * x; });
    case Binary::elu: return map<T, T, T>(out, a, b, [](T x, T alpha) { return x > 0 ? x : alpha * vec::expm1(x); });
    case Binary::tanh_backward: return map<T, T, T>(out, a, b, [](T g, T y) { return g * (T(1) - y * y); });
    case Binary::sigmoid_backward: return map<T, T, T>(out, a, b, [](T g, T y) { return g * y * (T(1) - y); });
    case Binary::relu_backward: return map<T, T, T>(out, a, b, [](T g, T x) { return x <= 0 ? T(0) : g; });
    case Binary::gelu_backward: return map<T, T, T>(out, a, b, [](T g, T x) { return g * gelu_derivative(x); });
    case Binary::gelu_tanh_backward:
      return map<T, T, T>(out, a, b, [](T g, T x) { return g * gelu_tanh_derivative(x); });
    case Binary::silu_backward: return map<T, T, T>(out, a, b, [](T g, T x) { return g * silu_derivative(x); });
    case Binary::softplus_backward: return map<T, T, T>(out, a, b, [](T g, T x) { return g * vec::sigmoid(x); });
    case Binary::elu_backward: return map<T, T, T>(out, a, b, [](T g, T x) { return x <= 0 ? g * vec::exp(x) : g; });
    default: return binary_number<T>(op, out, a, b);
  }
}

void binary_bool(Binary op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Binary::maximum: return map<bool, bool, bool>(out, a, b, [](bool p, bool q) { return p | q; });
    case Binary::minimum: return map<bool, bool, bool>(out, a, b, [](bool p, bool q) { return p & q; });
    default: refuse_dtype(out.dtype);
  }
}

void binary(Binary op, View out, View a, View b) {
  dispatch_any(out.dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      binary_floating<T>(op, out, a, b);
    } else if constexpr (std::is_same_v<T, bool>) {
      binary_bool(op, out, a, b);
    } else {
      binary_number<T>(op, out, a, b);
    }
  });
}

void compare(Compare op, View out, View a, View b) {
  dispatch_any(a.dtype, [&]<class T>(T) {
    switch (op) {
      case Compare::eq: return map<bool, T, T>(out, a, b, [](T p, T q) { return p == q; });
      case Compare::ne: return map<bool, T, T>(out, a, b, [](T p, T q) { return p != q; });
      case Compare::lt: return map<bool, T, T>(out, a, b, [](T p, T q) { return p < q; });
      case Compare::le: return map<bool, T, T>(out, a, b, [](T p, T q) { return p <= q; });
      case Compare::gt: return map<bool, T, T>(out, a, b, [](T p, T q) { return p > q; });
      case Compare::ge: return map<bool, T, T>(out, a, b, [](T p, T q) { return p >= q; });
    }
  });
}

// ---- Copies and choices ----

void copy(View out, View x) {
  dispatch_any(out.dtype, [&]<class Y>(Y) {
    dispatch_any(x.dtype, [&]<class X>(X) {
      map<Y, X>(out, x, [](X v) {
        if constexpr (std::is_same_v<Y, bool>) {
          return v != X(0);
        } else {
          return static_cast<Y>(v);
        }
      });
    });
  });
}

void fill(View out, Scalar value) {
  dispatch_any(out.dtype, [&]<class T>(T) {
    const T element = value.as<T>();
    for_each_row<1>({out}, [&](int64_t n, const auto& at, const auto& step) {
      T* y = data<T>(out) + at[0];
      const int64_t s = step[0];
      if (s == 1) {
        for (int64_t i = 0; i < n; ++i) y[i] = element;
      } else {
        for (int64_t i = 0; i < n; ++i) y[i * s] = element;
      }
    });
  });
}

/// Reads both operands and takes the condition as a byte, so that gcc compiles no branch.
template <class T>
T choose(uint8_t condition, T a, T b) {
  return condition != 0 ? a : b;
}

void where(View out, View condition, View a, View b) {
  dispatch_any(out.dtype, [&]<class T>(T) {
    for_each_row<4>({out, condition, a, b}, [&](int64_t n, const auto& at, const auto& step) {
      T* y = data<T>(out) + at[0];
      const uint8_t* c = data<uint8_t>(condition) + at[1];
      const T* p = data<T>(a) + at[2];
      const T* q = data<T>(b) + at[3];
      const int64_t sy = step[0], sc = step[1], sp = step[2], sq = step[3];
      if (sy == 1 && sc == 1 && sp == 1 && sq == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], p[i], q[i]);
      } else if (sy == 1 && sc == 1 && sp == 0 && sq == 1) {
        const T same = *p;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], same, q[i]);
      } else if (sy == 1 && sc == 1 && sp == 1 && sq == 0) {
        const T same = *q;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], p[i], same);
      } else {
        for (int64_t i = 0; i < n; ++i) y[i * sy] = choose(c[i * sc], p[i * sp], q[i * sq]);
      }
    });
  });
}

bool has_nan(View x) {
  std::atomic<bool> found = false;
  dispatch_floating(x.dtype, [&]<class T>(T) {
    for_each_row<1>({x}, [&](int64_t n, const auto& at, const auto& step) {
      const T* v = data<T>(x) + at[0];
      const int64_t s = step[0];
      int any = 0;
      if (s == 1) {
#pragma omp simd reduction(| : any)
        for (int64_t i = 0; i < n; ++i) any |= v[i] != v[i];
      } else {
        for (int64_t i = 0; i < n; ++i) any |= v[i * s] != v[i * s];
      }
      if (any) found = true;
    });
  });
  return found;
}

}  // namespace

void fill_elementwise(Backend& table) {
  table.copy = copy;
  table.fill = fill;
  table.unary = unary;
  table.binary = binary;
  table.compare = compare;
  table.where = where;
  table.has_nan = has_nan;
}

}  // namespace linnet::cpu::LINNET_ISA
