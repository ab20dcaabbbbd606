#include <linnet/core/files/file_dtype.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace linnet::detail {
namespace {

/// The value of a floating-point code of 8 or 16 bits. Codes follow IEEE 754, except those with 4 exponent bits.
/// These have no infinity: the highest exponent is an ordinary one, and NaN is the code with all bits set (E4M3,
/// Micikevicius et al. 2022, table 1).
float small_float(uint32_t code, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = code & ((1U << mantissa_bits) - 1);
  const uint32_t highest = (1U << exponent_bits) - 1, exponent = code >> mantissa_bits & highest;
  const int bias = static_cast<int>(highest / 2);
  const bool has_infinity = exponent_bits != 4;
  const float sign = (code >> (exponent_bits + mantissa_bits)) != 0 ? -1.0F : 1.0F;
  if (exponent == highest && (has_infinity ? mantissa != 0 : mantissa == (1U << mantissa_bits) - 1)) return NAN;
  if (exponent == highest && has_infinity) return sign * std::numeric_limits<float>::infinity();
  const bool normal = exponent > 0;
  const auto significand = static_cast<float>(mantissa + (normal ? 1U << mantissa_bits : 0));
  return sign * std::ldexp(significand, static_cast<int>(normal ? exponent : 1) - bias - mantissa_bits);
}

/// Converts floating-point codes of 8 or 16 bits by looking them up in a table of all codes.
template <class Code, int kExponentBits, int kMantissaBits>
std::optional<std::string> widen_float(const std::byte* from, int64_t count, void* to) {
  static const std::vector<float> table = [] {
    std::vector<float> values(size_t{1} << (8 * sizeof(Code)));
    for (size_t code = 0; code < values.size(); ++code) {
      values[code] = small_float(static_cast<uint32_t>(code), kExponentBits, kMantissaBits);
    }
    return values;
  }();
  const auto* codes = reinterpret_cast<const Code*>(from);
  std::transform(codes, codes + count, static_cast<float*>(to), [](Code code) { return table[code]; });
  return std::nullopt;
}

template <class From, class To>
std::optional<std::string> widen_integer(const std::byte* from, int64_t count, void* to) {
  const auto* numbers = reinterpret_cast<const From*>(from);
  const auto* too_large = std::find_if(numbers, numbers + count, [](From v) { return !std::in_range<To>(v); });
  if (too_large != numbers + count) return std::to_string(*too_large);
  std::copy(numbers, numbers + count, static_cast<To*>(to));
  return std::nullopt;
}

}  // namespace

const std::array<FileDType, 15> kFileDTypes = {{
    {"F32", "f4", 4, DType::float32},
    {"F64", "f8", 8, DType::float64},
    {"I32", "i4", 4, DType::int32},
    {"I64", "i8", 8, DType::int64},
    {"BOOL", "b1", 1, DType::boolean},
    {"BF16", "", 2, DType::float32, widen_float<uint16_t, 8, 7>},
    {"F16", "f2", 2, DType::float32, widen_float<uint16_t, 5, 10>},
    {"F8_E5M2", "", 1, DType::float32, widen_float<uint8_t, 5, 2>},
    {"F8_E4M3", "", 1, DType::float32, widen_float<uint8_t, 4, 3>},
    {"I8", "i1", 1, DType::int32, widen_integer<int8_t, int32_t>},
    {"U8", "u1", 1, DType::int32, widen_integer<uint8_t, int32_t>},
    {"I16", "i2", 2, DType::int32, widen_integer<int16_t, int32_t>},
    {"U16", "u2", 2, DType::int32, widen_integer<uint16_t, int32_t>},
    {"U32", "u4", 4, DType::int64, widen_integer<uint32_t, int64_t>},
    {"U64", "u8", 8, DType::int64, widen_integer<uint64_t, int64_t>},
}};

}  // namespace linnet::detail
