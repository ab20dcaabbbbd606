#include <doctest/doctest.h>
#include <linnet/ops/array/arrange.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/selection.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

Shape shape_of(const Golden& golden, const char* option) {
  return Shape(golden.parameters.at(option).get<std::vector<int64_t>>());
}

int64_t number(const Golden& golden, const char* option) { return golden.parameters.at(option).get<int64_t>(); }

/// For a result without a gradient: it must be equal.
void check_equal(const Golden& golden, const std::string& name, const Tensor& actual) {
  CAPTURE(name);
  const Tensor expected = golden.get(name);
  CHECK(actual.shape() == expected.shape());
  CHECK(actual.to_vector<double>() == expected.to_vector<double>());
}

const std::map<std::string, Comparison> kComparisons = {
    {"prod", function_comparison([](const Golden& golden, const TensorMap& in) {
       return prod(in.at("input"), {number(golden, "dim")});
     })},
    {"cumprod", function_comparison([](const Golden& golden, const TensorMap& in) {
       return cumprod(in.at("input"), number(golden, "dim"));
     })},
    {"median", function_comparison([](const Golden& golden, const TensorMap& in) {
       return median(in.at("input"), number(golden, "dim")).values;
     })},
    {"diff", function_comparison([](const Golden& golden, const TensorMap& in) {
       return diff(in.at("input"), number(golden, "n"), number(golden, "dim"));
     })},
    {"diff_ends", function_comparison([](const Golden&, const TensorMap& in) {
       return diff(in.at("input"), 1, -1, in.at("prepend"), in.at("append"));
     })},
    {"outer",
     function_comparison([](const Golden&, const TensorMap& in) { return outer(in.at("input"), in.at("other")); })},
    {"trace", function_comparison([](const Golden&, const TensorMap& in) { return trace(in.at("input")); })},
    {"flip", function_comparison([](const Golden& golden, const TensorMap& in) {
       return flip(in.at("input"), shape_of(golden, "dims"));
     })},
    {"roll", function_comparison([](const Golden& golden, const TensorMap& in) {
       return roll(in.at("input"), shape_of(golden, "shifts"), shape_of(golden, "dims"));
     })},
    {"repeat", function_comparison([](const Golden& golden, const TensorMap& in) {
       return repeat(in.at("input"), shape_of(golden, "sizes"));
     })},
    {"tile", function_comparison([](const Golden& golden, const TensorMap& in) {
       return tile(in.at("input"), shape_of(golden, "sizes"));
     })},
    {"repeat_interleave", function_comparison([](const Golden& golden, const TensorMap& in) {
       const bool flat = !golden.parameters.contains("dim");
       return repeat_interleave(in.at("input"), number(golden, "repeats"),
                                flat ? std::nullopt : std::optional(number(golden, "dim")));
     })},
    {"repeat_interleave_each", function_comparison([](const Golden& golden, const TensorMap& in) {
       return repeat_interleave(in.at("input"), golden.get("repeats"), 1);
     })},
    {"diag", function_comparison([](const Golden& golden, const TensorMap& in) {
       return diag(in.at("input"), number(golden, "diagonal"));
     })},
    {"masked_select", function_comparison([](const Golden& golden, const TensorMap& in) {
       return masked_select(in.at("input"), golden.get("mask"));
     })},
    {"take_along_dim", function_comparison([](const Golden& golden, const TensorMap& in) {
       return take_along_dim(in.at("input"), golden.get("index"), 0);
     })},
    {"take_along_dim_flat", function_comparison([](const Golden& golden, const TensorMap& in) {
       return take_along_dim(in.at("input"), golden.get("index"));
     })},
    {"scatter", function_comparison([](const Golden& golden, const TensorMap& in) {
       return scatter(in.at("input"), 0, golden.get("index"), in.at("src"));
     })},
    {"scatter_add", function_comparison([](const Golden& golden, const TensorMap& in) {
       return scatter_add(in.at("input"), 0, golden.get("index"), in.at("src"));
     })},
    {"index_put", function_comparison([](const Golden& golden, const TensorMap& in) {
       return index_put(in.at("input"), {golden.get("first")}, in.at("values"));
     })},
    {"index_put_add", function_comparison([](const Golden& golden, const TensorMap& in) {
       return index_put(in.at("input"), {golden.get("first"), golden.get("second")}, in.at("values"), true);
     })},
    {"unique",
     [](const Golden& golden, DType dtype) {
       const auto [values, inverse, counts] = unique(golden.get("input").to(dtype));
       check_equal(golden, "values", values);
       check_equal(golden, "inverse", inverse);
       check_equal(golden, "counts", counts);
     }},
    {"nonzero", [](const Golden& golden,
                   DType dtype) { check_equal(golden, "output", nonzero(golden.get("input").to(dtype))); }},
    {"bincount",
     [](const Golden& golden, DType) {
       check_equal(golden, "output", bincount(golden.get("input"), {}, number(golden, "minlength")));
     }},
    {"searchsorted",
     [](const Golden& golden, DType dtype) {
       const bool right = golden.parameters.at("right").get<bool>();
       check_equal(golden, "output",
                   searchsorted(golden.get("sequence").to(dtype), golden.get("input").to(dtype), right));
     }},
};

}  // namespace

TEST_CASE("Array ops agree with PyTorch, float64") { compare_goldens("array", DType::float64, kComparisons); }
TEST_CASE("Array ops agree with PyTorch, float32") { compare_goldens("array", DType::float32, kComparisons); }
