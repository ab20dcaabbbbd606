#include <map>
#include <string>

#include <doctest/doctest.h>
#include <linnet/ops/layers/convolution.h>
#include <linnet/ops/layers/pooling.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// An option of PyTorch's that is a number or a pair.
Size2d pair_in(const Golden& golden, const char* name, Size2d otherwise) {
  if (!golden.parameters.contains(name)) return otherwise;
  const nlohmann::json& value = golden.parameters.at(name);
  return value.is_number() ? Size2d(value.get<int64_t>()) : Size2d(value.at(0), value.at(1));
}

Padding2d padding_in(const Golden& golden) {
  if (golden.parameters.contains("padding") && golden.parameters.at("padding").is_string()) return "same";
  return pair_in(golden, "padding", 0);
}

Tensor bias_in(const TensorMap& in) { return in.contains("bias") ? in.at("bias") : Tensor(); }

Tensor run_conv2d(const Golden& golden, const TensorMap& in) {
  return conv2d(in.at("input"), in.at("weight"), bias_in(in),
                {.stride = pair_in(golden, "stride", 1),
                 .padding = padding_in(golden),
                 .dilation = pair_in(golden, "dilation", 1),
                 .groups = golden.parameters.value("groups", 1)});
}

Tensor run_conv1d(const Golden& golden, const TensorMap& in) {
  return conv1d(in.at("input"), in.at("weight"), bias_in(in),
                {.stride = golden.parameters.value("stride", 1),
                 .padding = padding_in(golden),
                 .dilation = golden.parameters.value("dilation", 1),
                 .groups = golden.parameters.value("groups", 1)});
}

Tensor run_conv_transpose2d(const Golden& golden, const TensorMap& in) {
  return conv_transpose2d(in.at("input"), in.at("weight"), bias_in(in),
                          {.stride = pair_in(golden, "stride", 1),
                           .padding = pair_in(golden, "padding", 0),
                           .output_padding = pair_in(golden, "output_padding", 0),
                           .groups = golden.parameters.value("groups", 1),
                           .dilation = pair_in(golden, "dilation", 1)});
}

template <class Pool>
Comparison pooling(Pool pool) {
  return function_comparison([pool](const Golden& golden, const TensorMap& in) {
    Pool2dOptions options{.padding = pair_in(golden, "padding", 0), .dilation = pair_in(golden, "dilation", 1)};
    if (golden.parameters.contains("stride")) options.stride = pair_in(golden, "stride", 1);
    return pool(in.at("input"), pair_in(golden, "kernel", 1), options, Where{});
  });
}

template <class Pool>
Comparison pooling_of_one_dim(Pool pool) {
  return function_comparison([pool](const Golden& golden, const TensorMap& in) {
    const auto& p = golden.parameters;
    const Pool1dOptions options{.stride = p.at("stride").get<int64_t>(), .padding = p.at("padding")};
    return pool(in.at("input"), p.at("kernel"), options, Where{});
  });
}

const std::map<std::string, Comparison> kConvolutions = {
    {"conv2d", function_comparison(run_conv2d)},
    {"conv1d", function_comparison(run_conv1d)},
    {"conv_transpose2d", function_comparison(run_conv_transpose2d)},
    {"max_pool2d", pooling(max_pool2d)},
    {"avg_pool2d", pooling(avg_pool2d)},
    {"max_pool1d", pooling_of_one_dim(max_pool1d)},
    {"avg_pool1d", pooling_of_one_dim(avg_pool1d)},
};

}  // namespace

TEST_CASE("Convolutions and poolings agree with PyTorch, float64") {
  compare_goldens("convolutions", DType::float64, kConvolutions);
}
TEST_CASE("Convolutions and poolings agree with PyTorch, float32") {
  compare_goldens("convolutions", DType::float32, kConvolutions);
}
