#include <cmath>
#include <limits>

#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/softmax.h>

#include "tests/support/op_case.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// A reduction over `dims` of one input.
using Reduction = std::function<Tensor(const Tensor& x, const Shape& dims, bool keepdim)>;

/// The cases of every reduction. `of_nothing`: it has a value for no elements.
void add_reduction(Registry& registry, const std::string& op, const Reduction& f, bool of_nothing,
                   const std::string& option = "") {
  Generator generator(11);
  const auto add = [&](const std::string& variant, const Shape& shape, const Shape& dims, bool keepdim) {
    registry.differentiable.push_back(
        {op, option + variant, {randn(shape, generator, DType::float64)}, [=](const Inputs& in) {
           return f(in[0], dims, keepdim);
         }});
  };
  add("all", {2, 3, 4}, {}, false);
  add("all keepdim", {2, 3}, {}, true);
  add("last dim", {3, 4}, {-1}, false);
  add("first dim", {3, 4}, {0}, false);
  add("middle dim keepdim", {2, 3, 2}, {1}, true);
  add("dims {0, 2}", {2, 3, 4}, {0, 2}, false);
  add("dims {-1, 0} keepdim", {2, 3, 4}, {-1, 0}, true);
  add("size 1", {3, 1}, {1}, false);
  add("rank 0", {}, {}, false);
  add("rank 0, dim -1", {}, {-1}, true);
  add("empty result", {0, 3}, {1}, false);
  if (of_nothing) add("empty dim", {3, 0}, {1}, false);
}

void add_along_dim(Registry& registry, const std::string& op,
                   const std::function<Tensor(const Tensor& x, int64_t dim)>& f, bool of_nothing = true,
                   const std::string& option = "") {
  Generator generator(12);
  const auto add = [&](const std::string& variant, const Shape& shape, int64_t dim) {
    registry.differentiable.push_back(
        {op, option + variant, {randn(shape, generator, DType::float64)}, [=](const Inputs& in) {
           return f(in[0], dim);
         }});
  };
  add("last dim", {3, 4}, -1);
  add("first dim", {3, 4}, 0);
  add("middle dim", {2, 3, 2}, 1);
  add("size 1", {3, 1}, 1);
  add("rank 0", {}, 0);
  add("empty", {0, 3}, -1);
  if (of_nothing) add("empty dim", {2, 0}, -1);
}

/// Products of elements with one or two zeros in a row.
void add_products_with_zeros(Registry& registry) {
  const Tensor x = tensor({{2, 0, 3, -1.5}, {0, 2, 0.5, 0}, {1, -2, 0.7, 1.2}}, DType::float64);
  const auto add = [&](const std::string& op, std::function<Tensor(const Tensor& x)> f) {
    registry.differentiable.push_back({op, "zeros", {x}, [f](const Inputs& in) { return f(in[0]); }});
  };
  add("prod", [](auto& t) { return prod(t, {1}); });
  add("prod", [](auto& t) { return prod(t, {0}, true); });
  add("cumprod", [](auto& t) { return cumprod(t, 1); });
  add("cumprod", [](auto& t) { return cumprod(t, 0); });
}

void add_medians_and_differences(Registry& registry) {
  Generator generator(14);
  const auto add = [&](const std::string& op, const std::string& variant, const std::vector<Shape>& shapes,
                       std::function<Tensor(const Inputs&)> f) {
    Inputs inputs;
    for (const Shape& shape : shapes) inputs.push_back(randn(shape, generator, DType::float64));
    registry.differentiable.push_back({op, variant, inputs, std::move(f)});
  };
  add("median", "all", {{3, 4}}, [](auto& in) { return median(in[0]); });
  add("median", "rank 0", {{}}, [](auto& in) { return median(in[0]); });
  add("median", "last dim, even", {{3, 4}}, [](auto& in) { return median(in[0], -1).values; });
  add("median", "first dim, odd, keepdim", {{5, 2}}, [](auto& in) { return median(in[0], 0, true).values; });
  add("median", "size 1", {{2, 1}}, [](auto& in) { return median(in[0], 1).values; });
  add("median", "empty", {{0, 3}}, [](auto& in) { return median(in[0], 1).values; });
  add("diff", "last dim", {{2, 4}}, [](auto& in) { return diff(in[0]); });
  add("diff", "first dim, twice", {{4, 2}}, [](auto& in) { return diff(in[0], 2, 0); });
  add("diff", "prepended and appended, broadcast", {{2, 3}, {2, 1}, {2, 2}},
      [](auto& in) { return diff(in[0], 1, 1, in[1], in[2]); });
  add("diff", "size 1", {{1}}, [](auto& in) { return diff(in[0], 3); });
  add("diff", "empty", {{2, 0}}, [](auto& in) { return diff(in[0]); });
}

}  // namespace

void add_reduction_cases(Registry& registry) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();

  add_reduction(registry, "sum", [](auto& x, auto& dims, bool keepdim) { return sum(x, dims, keepdim); }, true);
  add_reduction(registry, "prod", [](auto& x, auto& dims, bool keepdim) { return prod(x, dims, keepdim); }, true);
  add_reduction(registry, "mean", [](auto& x, auto& dims, bool keepdim) { return mean(x, dims, keepdim); }, false);
  for (const double correction : {0.0, 0.5}) {
    add_reduction(
        registry, "var", [=](auto& x, auto& dims, bool keepdim) { return var(x, dims, correction, keepdim); }, false,
        "correction " + std::to_string(correction) + ", ");
  }
  add_reduction(registry, "max", [](auto& x, auto& dims, bool keepdim) { return max(x, dims, keepdim); }, false);
  add_reduction(registry, "min", [](auto& x, auto& dims, bool keepdim) { return min(x, dims, keepdim); }, false);
  add_reduction(
      registry, "logsumexp", [](auto& x, auto& dims, bool keepdim) { return logsumexp(x, dims, keepdim); }, false);
  for (const double p : {1.0, 2.0, 3.0, 2.5, kInfinity}) {
    add_reduction(
        registry, "norm", [=](auto& x, auto& dims, bool keepdim) { return norm(x, p, dims, keepdim); },
        !std::isinf(p), "p " + std::to_string(p) + ", ");
  }

  add_along_dim(registry, "max", [](auto& x, int64_t dim) { return max(x, dim).values; }, false, "with indices, ");
  add_along_dim(registry, "min", [](auto& x, int64_t dim) { return min(x, dim).values; }, false, "with indices, ");
  add_along_dim(registry, "cumsum", [](auto& x, int64_t dim) { return cumsum(x, dim); });
  add_along_dim(registry, "cumprod", [](auto& x, int64_t dim) { return cumprod(x, dim); });
  add_along_dim(registry, "softmax", [](auto& x, int64_t dim) { return softmax(x, dim); });
  add_along_dim(registry, "log_softmax", [](auto& x, int64_t dim) { return log_softmax(x, dim); });

  add_products_with_zeros(registry);
  add_medians_and_differences(registry);

  Generator generator(13);
  const Tensor x = randn({2, 3}, generator, DType::float64);
  registry.non_differentiable.push_back({"argmax", {x}, [](const Inputs& in) { return argmax(in[0], -1); }});
  registry.non_differentiable.push_back({"argmin", {x}, [](const Inputs& in) { return argmin(in[0], 0); }});
  registry.non_differentiable.push_back({"any", {x}, [](const Inputs& in) { return any(in[0]); }});
  registry.non_differentiable.push_back({"all", {x}, [](const Inputs& in) { return all(in[0], {1}); }});
}

}  // namespace linnet::test
