#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/vision.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/distance.h>
#include <linnet/ops/layers/pooling.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

Comparison of_input(Tensor (*f)(const Tensor& x, const Json& options)) {
  return function_comparison(
      [f](const Golden& golden, const TensorMap& in) { return f(in.at("input"), golden.parameters); });
}

/// An option that is a number or several.
template <class T>
std::vector<T> numbers_in(const Json& options, const char* name) {
  if (!options.contains(name)) return {};
  return options.at(name).is_number() ? std::vector{options.at(name).get<T>()}
                                      : options.at(name).get<std::vector<T>>();
}

Tensor run_interpolate(const Tensor& x, const Json& options) {
  const std::map<std::string, InterpolateMode> modes{
      {"nearest", InterpolateMode::nearest},  {"nearest-exact", InterpolateMode::nearest_exact},
      {"linear", InterpolateMode::linear},    {"bilinear", InterpolateMode::linear},
      {"trilinear", InterpolateMode::linear}, {"bicubic", InterpolateMode::cubic}};
  return interpolate(x, {.size = numbers_in<int64_t>(options, "size"),
                         .scale_factor = numbers_in<double>(options, "scale_factor"),
                         .mode = modes.at(options.value("mode", "nearest")),
                         .align_corners = options.value("align_corners", false)});
}

Tensor run_pad(const Tensor& x, const Json& options) {
  const std::map<std::string, PadMode> modes{
      {"reflect", PadMode::reflect}, {"replicate", PadMode::replicate}, {"circular", PadMode::circular}};
  const auto widths = numbers_in<int64_t>(options, "widths");
  return pad(x, Shape(widths.begin(), widths.end()), modes.at(options.at("mode")));
}

const std::map<std::string, Comparison> kFunctional = {
    {"relu6", of_input([](const Tensor& x, const Json&) { return relu6(x); })},
    {"hardsigmoid", of_input([](const Tensor& x, const Json&) { return hardsigmoid(x); })},
    {"hardswish", of_input([](const Tensor& x, const Json&) { return hardswish(x); })},
    {"mish", of_input([](const Tensor& x, const Json&) { return mish(x); })},
    {"selu", of_input([](const Tensor& x, const Json&) { return selu(x); })},
    {"prelu",
     function_comparison([](const Golden&, const TensorMap& in) { return prelu(in.at("input"), in.at("weight")); })},
    {"interpolate", of_input(run_interpolate)},
    {"adaptive_avg_pool2d", of_input([](const Tensor& x, const Json& options) {
       const auto size = numbers_in<int64_t>(options, "output_size");
       return adaptive_avg_pool2d(x, {size[0], size[1]});
     })},
    {"pixel_shuffle", of_input([](const Tensor& x, const Json& o) { return pixel_shuffle(x, o.at("factor")); })},
    {"pixel_unshuffle", of_input([](const Tensor& x, const Json& o) { return pixel_unshuffle(x, o.at("factor")); })},
    {"pad", of_input(run_pad)},
    {"index", function_comparison([](const Golden& golden, const TensorMap& in) {
       return index(in.at("input"), {golden.get("first"), golden.get("second")});
     })},
    {"index_add", function_comparison([](const Golden& golden, const TensorMap& in) {
       return index_add(in.at("input"), golden.parameters.at("dim").get<int64_t>(), golden.get("index"),
                        in.at("source"), golden.parameters.at("alpha").get<double>());
     })},
    {"normalize", of_input([](const Tensor& x, const Json& o) { return normalize(x, o.at("p").get<double>()); })},
    {"cdist", function_comparison([](const Golden& golden, const TensorMap& in) {
       return cdist(in.at("x1"), in.at("x2"), golden.parameters.at("p").get<double>());
     })},
    {"pairwise_distance", function_comparison([](const Golden&, const TensorMap& in) {
       return pairwise_distance(in.at("x1"), in.at("x2"));
     })},
    {"triplet_margin_loss", function_comparison([](const Golden& golden, const TensorMap& in) {
       return triplet_margin_loss(in.at("anchor"), in.at("positive"), in.at("negative"),
                                  {.margin = 0.7, .swap = golden.parameters.at("swap").get<bool>()});
     })},
    {"margin_ranking_loss", function_comparison([](const Golden& golden, const TensorMap& in) {
       return margin_ranking_loss(in.at("input1"), in.at("input2"), golden.get("target"), 0.3);
     })},
};

}  // namespace

TEST_CASE("Functions of torch.nn.functional that are composed of ops agree with PyTorch, float64") {
  compare_goldens("functional", DType::float64, kFunctional);
}
TEST_CASE("Functions of torch.nn.functional that are composed of ops agree with PyTorch, float32") {
  compare_goldens("functional", DType::float32, kFunctional);
}
