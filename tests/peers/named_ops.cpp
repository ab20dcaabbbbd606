#include "tests/peers/named_ops.h"

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <linnet/linnet.h>

namespace linnet::peers {
namespace {

/// The tensors and arguments of a call.
class Call {
 public:
  Call(std::vector<Tensor> tensors, const nlohmann::json& arguments)
      : inputs(std::move(tensors)), arguments_(arguments) {}

  /// Input i, or an undefined tensor if the case has fewer.
  Tensor operator[](size_t i) const { return i < inputs.size() ? inputs[i] : Tensor(); }
  std::vector<Tensor> from(size_t i) const { return {inputs.begin() + static_cast<int64_t>(i), inputs.end()}; }
  bool has(const char* name) const { return arguments_.contains(name); }
  bool flag(const char* name) const { return arguments_.at(name); }
  int64_t integer(const char* name) const { return arguments_.at(name); }
  std::string text(const char* name) const { return arguments_.at(name); }
  Shape sizes(const char* name) const { return shape_of(arguments_.at(name)); }
  Size2d pair(const char* name) const { return {sizes(name)[0], sizes(name)[1]}; }
  std::optional<int64_t> maybe_integer(const char* name) const {
    return has(name) ? std::optional(integer(name)) : std::nullopt;
  }
  Scalar number(const char* name) const {
    const nlohmann::json& value = arguments_.at(name);
    if (value.is_number_integer()) return value.get<int64_t>();
    return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();  // JSON has no infinity
  }
  std::optional<Scalar> maybe_number(const char* name) const {
    return has(name) ? std::optional(number(name)) : std::nullopt;
  }
  double real(const char* name) const { return number(name).real; }
  DType dtype() const {
    static const std::map<std::string, DType> kNames = {{"float32", DType::float32},
                                                        {"float64", DType::float64},
                                                        {"int32", DType::int32},
                                                        {"int64", DType::int64},
                                                        {"bool", DType::boolean}};
    return kNames.at(text("dtype"));
  }
  Reduction reduction() const {
    static const std::map<std::string, Reduction> kNames = {{"none", Reduction::none},
                                                            {"mean", Reduction::mean},
                                                            {"sum", Reduction::sum},
                                                            {"batchmean", Reduction::batchmean}};
    return kNames.at(text("reduction"));
  }
  Padding2d padding() const {
    const nlohmann::json& value = arguments_.at("padding");
    return value.is_string() ? Padding2d(value.get<std::string>().c_str())
                             : Padding2d(value.front().get<int64_t>(), value.back().get<int64_t>());
  }

  std::vector<Tensor> inputs;

 private:
  static Shape shape_of(const nlohmann::json& sizes) { return sizes.get<std::vector<int64_t>>(); }

  const nlohmann::json& arguments_;
};

/// The tensors that an op returns.
struct Results {
  Results(Tensor x) : tensors{std::move(x)} {}                          // NOLINT(google-explicit-constructor)
  Results(std::vector<Tensor> list) : tensors(std::move(list)) {}       // NOLINT(google-explicit-constructor)
  Results(const ValuesAndIndices& x) : tensors{x.values, x.indices} {}  // NOLINT(google-explicit-constructor)
  Results(const UniqueElements& x) : tensors{x.values, x.inverse_indices, x.counts} {}  // NOLINT
  Results(const GRUResult& x) : tensors{x.output, x.h_n} {}                             // NOLINT
  Results(const LSTMResult& x) : tensors{x.output, x.h_n, x.c_n} {}                     // NOLINT

  std::vector<Tensor> tensors;
};

using Run = std::function<Results(const Call&)>;
using C = const Call&;

/// An op of two tensors, or of one and a number, which may come first.
Run binary(Tensor (*op)(const Tensor&, const Tensor&, Where), Tensor (*with_number)(const Tensor&, Scalar, Where),
           Tensor (*of_number)(Scalar, const Tensor&, Where) = nullptr) {
  return [=](C c) {
    if (!c.has("number")) return op(c[0], c[1], {});
    return c.flag("first") ? of_number(c.number("number"), c[0], {}) : with_number(c[0], c.number("number"), {});
  };
}

Run loss(Tensor (*op)(const Tensor&, const Tensor&, Reduction, Where)) {
  return [op](C c) { return op(c[0], c[1], c.reduction(), {}); };
}

Conv2dOptions conv2d_options(C c) { return {c.pair("stride"), c.padding(), c.pair("dilation"), c.integer("groups")}; }

Conv1dOptions conv1d_options(C c) {
  return {c.integer("stride"), c.padding(), c.integer("dilation"), c.integer("groups")};
}

Pool2dOptions pool2d_options(C c) {
  return {.stride = c.pair("stride"), .padding = c.pair("padding"), .dilation = c.pair("dilation")};
}

Pool1dOptions pool1d_options(C c) {
  return {.stride = c.integer("stride"), .padding = c.integer("padding"), .dilation = c.integer("dilation")};
}

Tensor where_of(C c) {
  if (!c.has("number")) return where(c[0], c[1], c[2]);
  return c.flag("first") ? where(c[0], c.number("number"), c[1]) : where(c[0], c[1], c.number("number"));
}

std::map<std::string, Run> all_ops() {
  std::map<std::string, Run> ops = {
      {"clamp", [](C c) { return clamp(c[0], c.maybe_number("min"), c.maybe_number("max")); }},
      {"nan_to_num", [](C c) { return nan_to_num(c[0], c.number("nan"), c.number("posinf"), c.number("neginf")); }},
      {"add", binary(add, add)},
      {"sub", binary(sub, sub, sub)},
      {"mul", binary(mul, mul)},
      {"div", binary(div, div, div)},
      {"remainder", binary(remainder, remainder, remainder)},
      {"floor_divide", binary(floor_divide, floor_divide, floor_divide)},
      {"pow", binary(pow, pow, pow)},
      {"lerp", [](C c) { return c.has("weight") ? lerp(c[0], c[1], c.number("weight")) : lerp(c[0], c[1], c[2]); }},
      {"maximum", binary(maximum, maximum)},
      {"minimum", binary(minimum, minimum)},
      {"eq", binary(eq, eq)},
      {"ne", binary(ne, ne)},
      {"lt", binary(lt, lt)},
      {"le", binary(le, le)},
      {"gt", binary(gt, gt)},
      {"ge", binary(ge, ge)},
      {"where", where_of},
      {"isclose", [](C c) { return isclose(c[0], c[1], c.real("rtol"), c.real("atol"), c.flag("equal_nan")); }},
      {"allclose",
       [](C c) {
         return scalar(allclose(c[0], c[1], c.real("rtol"), c.real("atol"), c.flag("equal_nan")), DType::boolean);
       }},
      {"masked_fill", [](C c) { return masked_fill(c[0], c[1], c.number("value")); }},
      {"var", [](C c) { return var(c[0], c.sizes("dim"), c.real("correction"), c.flag("keepdim")); }},
      {"max_along", [](C c) { return max(c[0], c.integer("dim"), c.flag("keepdim")); }},
      {"min_along", [](C c) { return min(c[0], c.integer("dim"), c.flag("keepdim")); }},
      {"median_along", [](C c) { return median(c[0], c.integer("dim"), c.flag("keepdim")); }},
      {"argmax", [](C c) { return argmax(c[0], c.integer("dim"), c.flag("keepdim")); }},
      {"argmin", [](C c) { return argmin(c[0], c.integer("dim"), c.flag("keepdim")); }},
      {"norm", [](C c) { return norm(c[0], c.real("ord"), c.sizes("dim"), c.flag("keepdim")); }},
      {"cumsum", [](C c) { return cumsum(c[0], c.integer("dim")); }},
      {"cumprod", [](C c) { return cumprod(c[0], c.integer("dim")); }},
      {"diff", [](C c) { return diff(c[0], c.integer("n"), c.integer("dim"), c[1], c[2]); }},
      {"sort", [](C c) { return sort(c[0], c.integer("dim"), c.flag("descending")); }},
      {"argsort", [](C c) { return argsort(c[0], c.integer("dim"), c.flag("descending")); }},
      {"topk", [](C c) { return topk(c[0], c.integer("k"), c.integer("dim"), c.flag("largest")); }},
      {"searchsorted", [](C c) { return searchsorted(c[0], c[1], c.flag("right")); }},
      {"unique", [](C c) { return unique(c[0]); }},
      {"bincount", [](C c) { return bincount(c[0], c[1], c.integer("minlength")); }},
      {"index_select", [](C c) { return index_select(c[0], c.integer("dim"), c[1]); }},
      {"gather", [](C c) { return gather(c[0], c.integer("dim"), c[1]); }},
      {"scatter_add", [](C c) { return scatter_add(c[0], c.integer("dim"), c[1], c[2]); }},
      {"take_along_dim", [](C c) { return take_along_dim(c[0], c[1], c.maybe_integer("dim")); }},
      {"scatter", [](C c) { return scatter(c[0], c.integer("dim"), c[1], c[2]); }},
      {"scatter_value", [](C c) { return scatter(c[0], c.integer("dim"), c[1], c.number("value")); }},
      {"index_put", [](C c) { return index_put(c[0], c.from(2), c[1], c.flag("accumulate")); }},
      {"one_hot", [](C c) { return one_hot(c[0], c.integer("num_classes")); }},
      {"tril", [](C c) { return tril(c[0], c.integer("diagonal")); }},
      {"triu", [](C c) { return triu(c[0], c.integer("diagonal")); }},
      {"diag", [](C c) { return diag(c[0], c.integer("diagonal")); }},
      {"flip", [](C c) { return flip(c[0], c.sizes("dims")); }},
      {"roll", [](C c) { return roll(c[0], c.sizes("shifts"), c.sizes("dims")); }},
      {"repeat", [](C c) { return repeat(c[0], c.sizes("sizes")); }},
      {"tile", [](C c) { return tile(c[0], c.sizes("sizes")); }},
      {"repeat_interleave",
       [](C c) {
         return c.has("repeats") ? repeat_interleave(c[0], c.integer("repeats"), c.maybe_integer("dim"))
                                 : repeat_interleave(c[0], c[1], c.maybe_integer("dim"));
       }},
      {"meshgrid", [](C c) { return meshgrid(c.inputs, c.text("indexing")); }},
      {"concat", [](C c) { return concat(c.inputs, c.integer("dim")); }},
      {"stack", [](C c) { return stack(c.inputs, c.integer("dim")); }},
      {"pad", [](C c) { return pad(c[0], c.sizes("pad"), c.number("value")); }},
      {"full", [](C c) { return full(c.sizes("size"), c.number("fill_value"), c.dtype()); }},
      {"arange", [](C c) { return arange(c.number("start"), c.number("end"), c.number("step"), c.dtype()); }},
      {"linspace", [](C c) { return linspace(c.real("start"), c.real("end"), c.integer("steps"), c.dtype()); }},
      {"eye", [](C c) { return eye(c.integer("n"), c.integer("m"), c.dtype()); }},
      {"reshape", [](C c) { return c[0].reshape(c.sizes("shape")); }},
      {"view", [](C c) { return c[0].view(c.sizes("size")); }},
      {"flatten", [](C c) { return c[0].flatten(c.integer("start_dim"), c.integer("end_dim")); }},
      {"transpose", [](C c) { return c[0].transpose(c.integer("dim0"), c.integer("dim1")); }},
      {"permute", [](C c) { return c[0].permute(c.sizes("dims")); }},
      {"movedim", [](C c) { return movedim(c[0], c.sizes("source"), c.sizes("destination")); }},
      {"unbind", [](C c) { return unbind(c[0], c.integer("dim")); }},
      {"narrow", [](C c) { return c[0].narrow(c.integer("dim"), c.integer("start"), c.integer("length")); }},
      {"slice",
       [](C c) { return c[0].slice(c.integer("dim"), c.integer("start"), c.integer("stop"), c.integer("step")); }},
      {"select", [](C c) { return c[0].select(c.integer("dim"), c.integer("index")); }},
      {"diagonal", [](C c) { return c[0].diagonal(c.integer("offset"), c.integer("dim1"), c.integer("dim2")); }},
      {"squeeze", [](C c) { return c[0].squeeze(c.integer("dim")); }},
      {"unsqueeze", [](C c) { return c[0].unsqueeze(c.integer("dim")); }},
      {"expand", [](C c) { return c[0].expand(c.sizes("size")); }},
      {"split", [](C c) { return c[0].split(c.integer("split_size"), c.integer("dim")); }},
      {"chunk", [](C c) { return c[0].chunk(c.integer("chunks"), c.integer("dim")); }},
      {"mT", [](C c) { return transpose(c[0]); }},
      {"contiguous", [](C c) { return c[0].contiguous(); }},
      {"clone", [](C c) { return c[0].clone(); }},
      {"to", [](C c) { return c[0].to(c.dtype()); }},
      {"copy_", [](C c) { return c[0].clone().copy_(c[1]); }},
      {"linear", [](C c) { return linear(c[0], c[1], c[2]); }},
      {"einsum", [](C c) { return einsum(c.text("equation"), c.inputs); }},
      {"leaky_relu", [](C c) { return leaky_relu(c[0], c.real("negative_slope")); }},
      {"elu", [](C c) { return elu(c[0], c.real("alpha")); }},
      {"hardtanh", [](C c) { return hardtanh(c[0], c.real("min_val"), c.real("max_val")); }},
      {"gelu", [](C c) { return gelu(c[0], c.text("approximate") == "tanh" ? Gelu::tanh : Gelu::erf); }},
      {"softplus", [](C c) { return softplus(c[0], c.real("beta")); }},
      {"glu", [](C c) { return glu(c[0], c.integer("dim")); }},
      {"softmax", [](C c) { return softmax(c[0], c.integer("dim")); }},
      {"log_softmax", [](C c) { return log_softmax(c[0], c.integer("dim")); }},
      {"layer_norm", [](C c) { return layer_norm(c[0], c[1], c[2], c.real("eps")); }},
      {"rms_norm", [](C c) { return rms_norm(c[0], c[1], c.real("eps")); }},
      {"batch_norm",
       [](C c) {
         const Tensor mean = c[1].clone(), variance = c[2].clone();
         const Tensor y =
             batch_norm(c[0], mean, variance, c[3], c[4], c.flag("training"), c.real("momentum"), c.real("eps"));
         return std::vector{y, mean, variance};
       }},
      {"group_norm", [](C c) { return group_norm(c[0], c.integer("num_groups"), c[1], c[2], c.real("eps")); }},
      {"conv1d", [](C c) { return conv1d(c[0], c[1], c[2], conv1d_options(c)); }},
      {"conv2d", [](C c) { return conv2d(c[0], c[1], c[2], conv2d_options(c)); }},
      {"conv_transpose2d",
       [](C c) {
         return conv_transpose2d(c[0], c[1], c[2],
                                 {c.pair("stride"), c.pair("padding"), c.pair("output_padding"), c.integer("groups"),
                                  c.pair("dilation")});
       }},
      {"max_pool1d", [](C c) { return max_pool1d(c[0], c.integer("kernel_size"), pool1d_options(c)); }},
      {"max_pool2d", [](C c) { return max_pool2d(c[0], c.pair("kernel_size"), pool2d_options(c)); }},
      {"avg_pool1d", [](C c) { return avg_pool1d(c[0], c.integer("kernel_size"), pool1d_options(c)); }},
      {"avg_pool2d", [](C c) { return avg_pool2d(c[0], c.pair("kernel_size"), pool2d_options(c)); }},
      {"gru", [](C c) { return gru(c[0], c[1], c[2], c[3], c[4], c[5], {.reverse = c.flag("reverse")}); }},
      {"lstm", [](C c) { return lstm(c[0], c[1], c[2], c[3], c[4], c[5], c[6], {.reverse = c.flag("reverse")}); }},
      {"short_conv", [](C c) { return short_conv(c[0], c[1], {.causal = c.flag("causal"), .padding_mask = c[2]}); }},
      {"cross_entropy",
       [](C c) {
         return cross_entropy(c[0], c[1], {c.integer("ignore_index"), c.real("label_smoothing"), c.reduction()});
       }},
      {"nll_loss", [](C c) { return nll_loss(c[0], c[1], {c[2], c.integer("ignore_index"), c.reduction()}); }},
      {"mse_loss", loss(mse_loss)},
      {"l1_loss", loss(l1_loss)},
      {"huber_loss", [](C c) { return huber_loss(c[0], c[1], c.reduction(), c.real("delta")); }},
      {"smooth_l1_loss", [](C c) { return smooth_l1_loss(c[0], c[1], c.reduction(), c.real("beta")); }},
      {"kl_div", [](C c) { return kl_div(c[0], c[1], c.reduction(), c.flag("log_target")); }},
      {"gaussian_nll_loss",
       [](C c) { return gaussian_nll_loss(c[0], c[1], c[2], {c.flag("full"), c.real("eps"), c.reduction()}); }},
      {"cosine_similarity", [](C c) { return cosine_similarity(c[0], c[1], c.integer("dim"), c.real("eps")); }},
      {"cosine_embedding_loss",
       [](C c) { return cosine_embedding_loss(c[0], c[1], c[2], c.real("margin"), c.reduction()); }},
      {"hinge_embedding_loss", [](C c) { return hinge_embedding_loss(c[0], c[1], c.real("margin"), c.reduction()); }},
      {"binary_cross_entropy_with_logits",
       [](C c) { return binary_cross_entropy_with_logits(c[0], c[1], {c[2], c[3], c.reduction()}); }},
      {"binary_cross_entropy",
       [](C c) { return binary_cross_entropy(c[0], c[1], {.weight = c[2], .reduction = c.reduction()}); }},
      {"accuracy", [](C c) { return scalar(accuracy(c[0], c[1]), DType::float64); }},
      {"softmax_attention",
       [](C c) {
         return softmax_attention(c[0], c[1], c[2], {.causal = c.flag("is_causal"), .padding_mask = c[3]});
       }},
  };
  const std::pair<const char*, Tensor (*)(const Tensor&, Where)> of_one[] = {
      {"floor", floor},       {"ceil", ceil},
      {"round", round},       {"trunc", trunc},
      {"exp", exp},           {"expm1", expm1},
      {"log", log},           {"log1p", log1p},
      {"log2", log2},         {"log10", log10},
      {"sqrt", sqrt},         {"rsqrt", rsqrt},
      {"abs", abs},           {"sign", sign},
      {"sin", sin},           {"cos", cos},
      {"tan", tan},           {"asin", asin},
      {"acos", acos},         {"atan", atan},
      {"sinh", sinh},         {"cosh", cosh},
      {"square", square},     {"reciprocal", reciprocal},
      {"erf", erf},           {"neg", neg},
      {"isnan", isnan},       {"isinf", isinf},
      {"isfinite", isfinite}, {"logical_not", logical_not},
      {"median", median},     {"nonzero", nonzero},
      {"trace", trace},       {"tanh", tanh},
      {"sigmoid", sigmoid},   {"relu", relu},
      {"silu", silu},         {"logsigmoid", logsigmoid}};
  for (const auto& [name, op] : of_one) ops[name] = [f = op](C c) { return f(c[0], {}); };
  const std::pair<const char*, Tensor (*)(const Tensor&, const Tensor&, Where)> of_two[] = {
      {"atan2", atan2},
      {"logical_and", logical_and},
      {"logical_or", logical_or},
      {"logical_xor", logical_xor},
      {"masked_select", masked_select},
      {"embedding", embedding},
      {"matmul", matmul},
      {"outer", outer}};
  for (const auto& [name, op] : of_two) ops[name] = [f = op](C c) { return f(c[0], c[1], {}); };
  const std::pair<const char*, Tensor (*)(const Tensor&, const Shape&, KeepDim, Where)> over_dims[] = {
      {"sum", sum}, {"prod", prod},           {"mean", mean}, {"max", max},
      {"min", min}, {"logsumexp", logsumexp}, {"any", any},   {"all", all}};
  for (const auto& [name, op] : over_dims)
    ops[name] = [f = op](C c) { return f(c[0], c.sizes("dim"), c.flag("keepdim"), {}); };
  return ops;
}

}  // namespace

std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& inputs, const nlohmann::json& arguments) {
  static const std::map<std::string, Run> kOps = all_ops();
  return kOps.at(op)(Call(inputs, arguments)).tensors;
}

}  // namespace linnet::peers
