#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <linnet/core/random/philox.h>
#include <linnet/core/tensor.h>

namespace linnet::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;
using Bools = std::vector<bool>;

/// The elements in row-major order.
inline Doubles values(const Tensor& x) { return x.to_vector<double>(); }

/// The bytes of the elements in row-major order.
inline std::string bytes_of(const Tensor& x) {
  const auto as_bytes = [](const auto& elements) {
    std::string bytes(elements.size() * sizeof(elements[0]), '\0');
    if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
  };
  switch (x.dtype()) {
    case DType::float32: return as_bytes(x.to_vector<float>());
    case DType::float64: return as_bytes(x.to_vector<double>());
    case DType::int32: return as_bytes(x.to_vector<int32_t>());
    case DType::int64: return as_bytes(x.to_vector<int64_t>());
    default: {
      const std::vector<bool> elements = x.to_vector<bool>();
      return {elements.begin(), elements.end()};
    }
  }
}

/// Random float64 values, uniform in [low, high), determined by `seed`.
inline Tensor uniform(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Tensor x = Tensor::empty(shape, DType::float64);
  uint64_t i = 0;
  for (double& value : x.mutable_data<double>()) {
    value = low + (high - low) * (random_word({seed, 0}, i++) * 0x1p-32);
  }
  return x;
}

/// Where a function of one number has a derivative: from `low` to `high`, except at `kinks`.
struct Domain {
  double low = -10, high = 10;
  std::vector<double> kinks = {};
};

/// 40 float64 values in even steps over the domain, to reach every branch of a function. Values near a kink are moved
/// to 0.05 above it.
inline Tensor spread_over(const Domain& domain) {
  Tensor x = Tensor::empty({40}, DType::float64);
  double i = 0;
  for (double& value : x.mutable_data<double>()) {
    value = domain.low + (domain.high - domain.low) * (i++ / 39);
    for (const double kink : domain.kinks) {
      if (std::abs(value - kink) < 0.05) value = kink + 0.05;
    }
  }
  return x;
}

/// 0, 1, 2, … in row-major order.
inline Tensor counting(const Shape& shape) {
  Tensor x = Tensor::empty(shape, DType::float64);
  double next = 0;
  for (double& value : x.mutable_data<double>()) value = next++;
  return x;
}

}  // namespace linnet::test
