#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/layers/activation.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

Comparison of_one(Tensor (*f)(const Tensor& x, Where where)) {
  return function_comparison([f](const Golden&, const TensorMap& in) { return f(in.at("input"), {}); });
}

/// The comparison of a function with the case's options.
Comparison with_options(Tensor (*f)(const Tensor& x, const Json& options)) {
  return function_comparison(
      [f](const Golden& golden, const TensorMap& in) { return f(in.at("input"), golden.parameters); });
}

Comparison of_several(Tensor (*f)(const TensorMap& in)) {
  return function_comparison([f](const Golden&, const TensorMap& in) { return f(in); });
}

const std::map<std::string, Comparison> kComparisons = {
    {"floor", of_one(floor)},
    {"ceil", of_one(ceil)},
    {"round", of_one(round)},
    {"trunc", of_one(trunc)},
    {"expm1", of_one(expm1)},
    {"log1p", of_one(log1p)},
    {"log2", of_one(log2)},
    {"log10", of_one(log10)},
    {"tan", of_one(tan)},
    {"asin", of_one(asin)},
    {"acos", of_one(acos)},
    {"atan", of_one(atan)},
    {"sinh", of_one(sinh)},
    {"cosh", of_one(cosh)},
    {"logsigmoid", of_one(logsigmoid)},
    {"leaky_relu", with_options([](const Tensor& x, const Json& o) {
       return o.contains("negative_slope") ? leaky_relu(x, o.at("negative_slope").get<double>()) : leaky_relu(x);
     })},
    {"elu", with_options([](const Tensor& x, const Json& o) {
       return o.contains("alpha") ? elu(x, o.at("alpha").get<double>()) : elu(x);
     })},
    {"hardtanh", with_options([](const Tensor& x, const Json& o) {
       return o.contains("min_val") ? hardtanh(x, o.at("min_val").get<double>(), o.at("max_val").get<double>())
                                    : hardtanh(x);
     })},
    {"glu", with_options([](const Tensor& x, const Json& o) {
       return o.contains("dim") ? glu(x, o.at("dim").get<int64_t>()) : glu(x);
     })},
    {"atan2", of_several([](const TensorMap& in) { return atan2(in.at("input"), in.at("other")); })},
    {"remainder", of_several([](const TensorMap& in) { return remainder(in.at("input"), in.at("other")); })},
    {"lerp", of_several([](const TensorMap& in) { return lerp(in.at("input"), in.at("other"), in.at("weight")); })},
};

}  // namespace

TEST_CASE("Elementwise functions agree with PyTorch, float64") {
  compare_goldens("elementwise", DType::float64, kComparisons);
}
TEST_CASE("Elementwise functions agree with PyTorch, float32") {
  compare_goldens("elementwise", DType::float32, kComparisons);
}
