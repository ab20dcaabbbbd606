#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace linnet {

/// Element types. bfloat16 is storage, of what goes through a model, and on GPUs alone: ops compute in float32 and
/// round what they give; parameters of layers beside it, losses and weights of attention are float32. What makes and
/// moves elements takes it (zeros, `to`, views, copies, concat, where, index_select, gather), as do arithmetic,
/// activations, comparisons, dropout, sum, mean, var, norm, matmul, layers, attention, losses. All else refuses it.
enum class DType : uint8_t { float32, float64, bfloat16, int32, int64, boolean };

/// Bytes of one element.
constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::int32: return 4;
    case DType::float64:
    case DType::int64: return 8;
    case DType::bfloat16: return 2;
    case DType::boolean: return 1;
  }
  return 0;
}

/// Whether it is one that has gradients.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16;
}

/// What numbers of a dtype are computed with in: float32 for bfloat16, which is storage; else the same.
constexpr DType computed_in(DType dtype) { return dtype == DType::bfloat16 ? DType::float32 : dtype; }

/// int32 or int64; bool is neither integer nor floating.
constexpr bool is_integer(DType dtype) { return dtype == DType::int32 || dtype == DType::int64; }

/// As messages write it: "float32".
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::bfloat16: return "bfloat16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::boolean: return "bool";
  }
  return "?";
}

/// The same to a stream.
std::ostream& operator<<(std::ostream& stream, DType dtype);

/// The dtype of a C++ type: `dtype_of<float>` is DType::float32.
template <class T>
constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>)
    return DType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::float64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::int32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::int64;
  else {
    static_assert(std::is_same_v<T, bool>, "tensors hold float, double, int32_t, int64_t or bool");
    return DType::boolean;
  }
}();

/// Where a tensor lives.
enum class Device : uint8_t { cpu, cuda };

/// As messages and command lines write it: "cpu", "cuda".
constexpr const char* name_of(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

/// The same to a stream.
std::ostream& operator<<(std::ostream& stream, Device device);

/// How products of float32 matrices are made: exact to rounding, or with factors rounded to 10 bits behind the point
/// (TF32) or to 7 (bfloat16), for speed. Tensors and sums are float32 all the same.
enum class Precision : uint8_t { float32, tf32, bfloat16 };

/// As command lines write it: "tf32".
constexpr const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::float32: return "float32";
    case Precision::tf32: return "tf32";
    case Precision::bfloat16: return "bfloat16";
  }
  return "?";
}

/// The one of that name, if there is one.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision each : {Precision::float32, Precision::tf32, Precision::bfloat16}) {
    if (name == name_of(each)) return each;
  }
  return std::nullopt;
}

/// A C++ number that meets a tensor: it takes the tensor's dtype. An int64 keeps all its 64 bits.
struct Scalar {
  double real;
  int64_t integer;
  bool is_integer;

  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  constexpr Scalar(T value)  // NOLINT(google-explicit-constructor): `x * 2` is the point
      : real(static_cast<double>(value)),
        integer(std::is_integral_v<T> ? static_cast<int64_t>(value) : 0),
        is_integer(std::is_integral_v<T> && (std::is_signed_v<T> || integer >= 0)) {}

  /// As a T: a real number is cut to an integer, and any but 0 is true.
  template <class T>
  constexpr T as() const {
    if constexpr (std::is_same_v<T, bool>)
      return real != 0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(is_integer ? integer : static_cast<int64_t>(real));
    else
      return static_cast<T>(real);
  }
};

namespace detail {
/// Throws DTypeError unless a tensor of `dtype` can hold the number: an integer one whole numbers in its range.
void check_number(Scalar value, DType dtype);

/// Throws DTypeError, naming the remedy, unless it is a floating one.
void check_floating(DType dtype);
}  // namespace detail

}  // namespace linnet
