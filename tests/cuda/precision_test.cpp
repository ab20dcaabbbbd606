#include <linnet/core/build_info.h>
#include <linnet/ops/matmul.h>

#include "tests/cuda/agreement.h"

/// Products of float32 matrices in TF32 and bfloat16.

namespace linnet::test {
namespace {

/// While one lives, the GPU's products are made so.
class Products {
 public:
  explicit Products(Precision precision) { set_precision(precision, Device::cuda); }
  ~Products() { set_precision(Precision::float32, Device::cuda); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
};

/// How far products are off at most when their factors are rounded; cuBLAS is allowed to, but does not have to.
struct Rounded {
  Precision precision;
  double most;
};
constexpr Rounded kRounded[] = {{Precision::tf32, 1e-3}, {Precision::bfloat16, 5e-3}};

}  // namespace

TEST_CASE("precision: each has a name, and the CPU takes float32 alone") {
  for (const Precision each : {Precision::float32, Precision::tf32, Precision::bfloat16}) {
    CHECK(precision_named(name_of(each)) == each);
  }
  CHECK_FALSE(precision_named("float16").has_value());
  set_precision(Precision::float32, Device::cpu);
  CHECK_THROWS_WITH_AS(set_precision(Precision::bfloat16, Device::cpu),
                       "the CPU has no bfloat16 products; compute in float32, or on Device::cuda", DeviceError);
  CHECK_THROWS_AS(set_precision(Precision::tf32, Device::cpu), DeviceError);
}

TEST_CASE("gpu: precision: matrix products of rounded factors, and float64 as ever") {
  if (!has_gpu("TF32 and bfloat16 products on the GPU")) return;
  const auto product = [](DType dtype, Device device) {
    return matmul(spread({70, 300}, 1, dtype, device), spread({300, 50}, 2, dtype, device)).to_vector<double>();
  };
  const std::vector<double> expected = product(DType::float64, Device::cpu);
  const std::vector<double> doubles = product(DType::float64, Device::cuda);
  for (const auto& [precision, most] : kRounded) {
    CAPTURE(name_of(precision));
    const Products products(precision);
    CHECK(relative_error(product(DType::float32, Device::cuda), expected) < most);
    CHECK(product(DType::float64, Device::cuda) == doubles);
    CHECK(build_info().find(name_of(precision)) != std::string::npos);
  }
  CHECK(relative_error(product(DType::float32, Device::cuda), expected) < 1e-6);
}

}  // namespace linnet::test
