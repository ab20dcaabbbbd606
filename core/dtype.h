#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace linnet {

/// Element types. bfloat16 is a storage type for activations, and exists only on GPUs: ops compute in float32 and
/// round their results. The parameters of layers with bfloat16 inputs, losses and attention weights are float32.
/// These ops take bfloat16: creation and copies (zeros, `to`, views, concat, where, index_select, gather),
/// arithmetic, activations, comparisons, dropout, sum, mean, var, norm, matmul, layers, attention and losses. All
/// others throw DTypeError.
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

/// Whether tensors of the dtype can have gradients.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16;
}

/// The dtype in which ops compute: float32 for bfloat16, the same dtype otherwise.
constexpr DType computed_in(DType dtype) { return dtype == DType::bfloat16 ? DType::float32 : dtype; }

/// Whether the dtype is int32 or int64. bool is neither integer nor floating.
constexpr bool is_integer(DType dtype) { return dtype == DType::int32 || dtype == DType::int64; }

/// The name in messages: "float32".
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

/// Writes the name.
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

/// The device that holds a tensor's elements.
enum class Device : uint8_t { cpu, cuda };

/// The name in messages and on command lines: "cpu", "cuda".
constexpr const char* name_of(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

/// Writes the name.
std::ostream& operator<<(std::ostream& stream, Device device);

/// How products of float32 matrices are computed: in float32, or faster, with factors rounded to 10 bits (TF32) or
/// 7 bits (bfloat16) after the point. Tensors and sums are float32 in all cases.
enum class Precision : uint8_t { float32, tf32, bfloat16 };

/// The name on command lines: "tf32".
constexpr const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::float32: return "float32";
    case Precision::tf32: return "tf32";
    case Precision::bfloat16: return "bfloat16";
  }
  return "?";
}

/// The precision of this name, if there is one.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision each : {Precision::float32, Precision::tf32, Precision::bfloat16}) {
    if (name == name_of(each)) return each;
  }
  return std::nullopt;
}

/// A C++ number as an operand of an op. It takes the dtype of the op's tensor. An int64 keeps all its 64 bits.
struct Scalar {
  double real;      ///< the value of a floating number
  int64_t integer;  ///< the value of an integer
  bool is_integer;  ///< which of the two holds the value

  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  constexpr Scalar(T value)  // NOLINT(google-explicit-constructor): `x * 2` is the point
      : real(static_cast<double>(value)),
        integer(std::is_integral_v<T> ? static_cast<int64_t>(value) : 0),
        is_integer(std::is_integral_v<T> && (std::is_signed_v<T> || integer >= 0)) {}

  /// The number as a T. A real number is truncated to an integer; any number but 0 is true.
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
/// Checks that a tensor of `dtype` can hold the number. An integer dtype holds whole numbers in its range.
///
/// Throws: DTypeError.
void check_number(Scalar value, DType dtype);

/// Checks that the dtype is floating.
///
/// Throws: DTypeError, with the remedy.
void check_floating(DType dtype);
}  // namespace detail

}  // namespace linnet
