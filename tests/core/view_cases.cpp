#include <linnet/core/tensor.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

namespace linnet::test {

void add_view_cases(Registry& registry) {
  uint64_t seed = 70;
  const auto add = [&](const std::string& op, const std::string& variant, const Shape& shape,
                       std::function<Tensor(const Tensor&)> f) {
    registry.differentiable.push_back(
        {"Tensor::" + op, variant, {uniform(shape, ++seed)}, [f](const std::vector<Tensor>& in) {
           return f(in[0]);
         }});
  };

  add("reshape", "merge and split", {2, 3, 4}, [](auto& x) { return x.reshape({4, -1}); });
  add("reshape", "rank 0 to rank 3", {}, [](auto& x) { return x.reshape({1, 1, 1}); });
  add("reshape", "empty", {0, 3}, [](auto& x) { return x.reshape({3, 0, 2}); });
  add("reshape", "rank 8", {2, 1, 2, 1, 2, 1, 2, 1}, [](auto& x) { return x.reshape({4, 4}); });
  add("flatten", "middle", {2, 3, 2, 2}, [](auto& x) { return x.flatten(1, 2); });
  add("flatten", "rank 0", {}, [](auto& x) { return x.flatten(); });
  add("transpose", "outer dims", {2, 3, 4}, [](auto& x) { return x.transpose(0, -1); });
  add("transpose", "empty", {0, 3}, [](auto& x) { return x.transpose(0, 1); });
  add("permute", "cycle", {2, 3, 4}, [](auto& x) { return x.permute({2, 0, 1}); });
  add("permute", "rank 8", {1, 2, 1, 2, 1, 2, 1, 2}, [](auto& x) { return x.permute({7, 5, 3, 1, 0, 2, 4, 6}); });
  add("narrow", "middle", {5, 3}, [](auto& x) { return x.narrow(0, 1, 3); });
  add("narrow", "nothing", {5, 3}, [](auto& x) { return x.narrow(1, 3, 0); });
  add("slice", "every second", {7, 2}, [](auto& x) { return x.slice(0, 1, 7, 2); });
  add("slice", "from the end", {2, 7}, [](auto& x) { return x.slice(-1, -5, -1, 3); });
  add("slice", "nothing", {4}, [](auto& x) { return x.slice(0, 3, 1); });
  add("select", "last of the first dim", {3, 2}, [](auto& x) { return x.select(0, -1); });
  add("select", "to rank 0", {3}, [](auto& x) { return x.select(0, 1); });
  add("squeeze", "middle", {2, 1, 3}, [](auto& x) { return x.squeeze(1); });
  add("unsqueeze", "end", {2, 3}, [](auto& x) { return x.unsqueeze(-1); });
  add("unsqueeze", "rank 0", {}, [](auto& x) { return x.unsqueeze(0); });
  add("expand", "new and old dims", {3, 1}, [](auto& x) { return x.expand({2, -1, 4}); });
  add("expand", "rank 0", {}, [](auto& x) { return x.expand({2, 2}); });
  add("expand", "to nothing", {1, 3}, [](auto& x) { return x.expand({0, 3}); });
  add("split", "last part", {5, 2}, [](auto& x) { return x.split(2).back(); });
  add("split", "columns", {2, 4}, [](auto& x) { return x.split(2, 1).front(); });
  add("contiguous", "of a transpose", {2, 3}, [](auto& x) { return x.transpose(0, 1).contiguous(); });
  add("clone", "rank 3", {2, 1, 3}, [](auto& x) { return x.clone(); });
  add("to", "the same dtype", {2, 3}, [](auto& x) { return x.to(DType::float64).to(x.device()); });

  registry.non_differentiable.push_back(
      {"Tensor::to", {uniform({3}, ++seed)}, [](auto& in) { return in[0].to(DType::int64); }});
  add("view", "of a view", {2, 6}, [](auto& x) { return x.narrow(0, 0, 1).view({3, 2}); });
  add("chunk", "last part", {5, 2}, [](auto& x) { return x.chunk(2).back(); });
  add("view", "size 1", {1, 6}, [](auto& x) { return x.view({6, 1}); });
  add("view", "empty", {0, 2}, [](auto& x) { return x.view({2, 0}); });
  add("chunk", "size 1", {1, 2}, [](auto& x) { return x.chunk(2).front(); });
  add("chunk", "empty", {0, 2}, [](auto& x) { return x.chunk(2, 1).back(); });
  add("diagonal", "main", {3, 4}, [](auto& x) { return x.diagonal(); });
  add("diagonal", "above, of other dims", {2, 3, 4}, [](auto& x) { return x.diagonal(1, 2, 0); });
  add("diagonal", "below", {3, 2, 2}, [](auto& x) { return x.diagonal(-1, 0, -1); });
  add("diagonal", "outside", {3, 2}, [](auto& x) { return x.diagonal(5); });
  add("diagonal", "empty", {0, 2}, [](auto& x) { return x.diagonal(); });
  add("diagonal", "size 1", {1, 1}, [](auto& x) { return x.diagonal(); });
  add("t", "size 1", {1, 3}, [](auto& x) { return x.t(); });
  add("t", "empty", {0, 3}, [](auto& x) { return x.t(); });
  add("t", "rank 3", {2, 3, 4}, [](auto& x) { return x.t(); });
  for (const char* op :
       {"add",    "sub",     "mul",       "div",       "pow",         "maximum", "minimum",      "eq",
        "ne",     "lt",      "le",        "gt",        "ge",          "exp",     "log",          "sqrt",
        "rsqrt",  "abs",     "sign",      "sin",       "cos",         "square",  "reciprocal",   "erf",
        "tanh",   "sigmoid", "relu",      "neg",       "isnan",       "clamp",   "masked_fill",  "sum",
        "mean",   "max",     "min",       "logsumexp", "any",         "all",     "var",          "norm",
        "argmax", "argmin",  "cumsum",    "softmax",   "log_softmax", "matmul",  "index_select", "gather",
        "tril",   "triu",    "remainder", "atan2",     "lerp",        "floor",   "ceil",         "round",
        "trunc",  "expm1",   "log1p",     "log2",      "log10",       "tan",     "asin",         "acos",
        "atan",   "sinh",    "cosh",      "isinf",     "isfinite",    "isclose"}) {
    registry.exempt.emplace_back(std::string("Tensor::") + op, "it is the function of that name");
  }
  for (const char* op : {"prod", "median", "cumprod", "diff", "outer", "take_along_dim", "scatter", "scatter_add",
                         "index_put", "masked_select", "nonzero", "bincount", "flip", "roll", "repeat", "tile",
                         "repeat_interleave", "diag", "trace"}) {
    registry.exempt.emplace_back(std::string("Tensor::") + op, "it is the function of that name");
  }
  registry.exempt.emplace_back("Tensor::detach", "it cuts the history off");
  registry.exempt.emplace_back("Tensor::grad", "it reads what backward left");
}

}  // namespace linnet::test
