#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include <doctest/doctest.h>
#include <linnet/core/autograd/checkpoint.h>
#include <linnet/core/autograd/functional.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>

#include "tests/support/files.h"
#include "tests/support/gradient_check.h"
#include "tests/support/op_case.h"
#include "tests/support/public_functions.h"
#include "tests/support/same_bits.h"
#include "tests/support/sources.h"
#include "tests/support/values.h"

/// Uses the registry of op cases: each case becomes a gradient check, and a public function without a case is a
/// failure.

namespace linnet::test {
namespace {

/// Views, copies and indexing of empty tensors and of single rows, if they have no such cases.
void add_small_cases(Registry& registry) {
  using Inputs = std::vector<Tensor>;
  for (const Shape& shape : {Shape{0, 3}, Shape{1, 3}}) {
    const auto add = [&](const std::string& op, std::function<Tensor(const Inputs&)> f, size_t inputs = 1) {
      registry.differentiable.push_back(
          {op, "of " + to_string(shape), Inputs(inputs, uniform(shape, 90)), std::move(f)});
    };
    const Tensor rows = shape[0] == 0 ? zeros({0}, DType::int64) : tensor<int64_t>({0, 0});
    const Tensor columns = shape[0] == 0 ? zeros({0, 3}, DType::int64) : tensor<int64_t>({2, 0, 2}).unsqueeze(0);
    add("Tensor::clone", [](auto& in) { return in[0].clone(); });
    add("Tensor::contiguous", [](auto& in) { return in[0].transpose(0, 1).contiguous(); });
    add("Tensor::to", [](auto& in) { return in[0].to(DType::float64); });
    add("Tensor::expand", [](auto& in) { return in[0].expand({2, -1, -1}); });
    add("Tensor::flatten", [](auto& in) { return in[0].flatten(); });
    add("Tensor::narrow", [](auto& in) { return in[0].narrow(1, 1, 2); });
    add("Tensor::permute", [](auto& in) { return in[0].permute({1, 0}); });
    add("Tensor::transpose", [](auto& in) { return in[0].transpose(0, 1); });
    add("Tensor::select", [](auto& in) { return in[0].select(1, 2); });
    add("Tensor::slice", [](auto& in) { return in[0].slice(1, 0, 3, 2); });
    add("Tensor::split", [](auto& in) { return in[0].split(2, 1).back(); });
    add("Tensor::squeeze", [](auto& in) { return in[0].unsqueeze(1).squeeze(1); });
    add("Tensor::unsqueeze", [](auto& in) { return in[0].unsqueeze(0); });
    add("embedding", [rows](auto& in) { return embedding(in[0], rows); });
    add("index_select", [rows](auto& in) { return index_select(in[0], 0, rows); });
    add("gather", [columns](auto& in) { return gather(in[0], 1, columns); });
    add("scatter_add", [columns](auto& in) { return scatter_add(in[0], 1, columns, in[1]); }, 2);
    add("tril", [](auto& in) { return tril(in[0], 1); });
    add("triu", [](auto& in) { return triu(in[0], 1); });
    add("stack", [](auto& in) { return stack(in); }, 2);
    add("pad", [](auto& in) { return pad(in[0], {1, 1}); });
    add("topk", [](auto& in) { return topk(in[0], 2).values; });
  }
}

const Registry& registry() {
  static const Registry all = [] {
    Registry cases = all_cases();
    add_small_cases(cases);
    return cases;
  }();
  return all;
}

/// The message of the AutogradError that `f` throws, or a text that says what happened instead.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
    return "nothing was thrown";
  } catch (const AutogradError& error) {
    return std::string("AutogradError: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach().clone());
    if (is_floating(input.dtype())) leaves.back().set_requires_grad();
  }
  return leaves;
}

/// Whether an input is broadcast over another one or, by the variant's name, over a tensor that the case makes.
bool broadcasts(const OpCase& op_case) {
  if (contains(op_case.variant, "broadcast")) return true;
  for (const Tensor& a : op_case.inputs) {
    for (const Tensor& b : op_case.inputs) {
      try {
        if (broadcast_shapes(a.shape(), b.shape()) != a.shape()) return true;
      } catch (const ShapeError&) {
        // Two operands that are not combined element by element, such as the factors of a matrix product.
      }
    }
  }
  return false;
}

/// Ops without a case of some kind, and the reason.
using Exempt = std::map<std::string, std::string>;

/// Checks that each of `ops` is among those `tried` or exempt, and that none is both.
void check_tried(const std::string& kind, const std::set<std::string>& ops, const std::set<std::string>& tried,
                 const Exempt& exempt) {
  for (const std::string& op : ops) {
    CHECK_MESSAGE((tried.contains(op) || exempt.contains(op)), op, " has no case with ", kind,
                  ": add one to its *_cases.cpp");
  }
  for (const auto& [op, reason] : exempt) {
    CHECK_MESSAGE((ops.contains(op) && !tried.contains(op)), op, " needs no exemption from ", kind);
  }
}

}  // namespace

TEST_CASE("gradients: every op agrees with central differences, in every layout") {
  for (const OpCase& op_case : registry().differentiable) {
    std::string failure;
    try {
      failure = check_gradients(op_case.f, op_case.inputs, {.twice = op_case.twice}).failure;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    CHECK_MESSAGE(failure.empty(), op_case.op, " (", op_case.variant, "): ", failure);
  }
}

TEST_CASE("gradients: a fused op says why it has no second derivative") {
  for (const OpCase& op_case : registry().differentiable) {
    if (op_case.twice) continue;
    const std::string message = refusal([&] {
      std::vector<Tensor> arguments = leaves_of(op_case.inputs);
      const Tensor result = op_case.f(arguments);
      arguments.push_back(uniform(result.shape(), 5).set_requires_grad());
      gradient_of(op_case.f)(arguments);
    });
    CHECK_MESSAGE(contains(message, "AutogradError: "), op_case.op, " (", op_case.variant, "): ", message);
    CHECK_MESSAGE(contains(message, "fused"), op_case.op, " (", op_case.variant, "): ", message);
  }
}

TEST_CASE("gradients: a fused op refuses a second derivative of a constant cotangent and of frozen inputs too") {
  for (const OpCase& op_case : registry().differentiable) {
    if (op_case.twice) continue;
    for (const bool frozen : {false, true}) {  // all inputs except the first
      std::vector<Tensor> inputs = leaves_of(op_case.inputs);
      for (size_t i = 1; frozen && i < inputs.size(); ++i) inputs[i] = inputs[i].detach();
      const Tensor result = op_case.f(inputs);
      const GradOptions options{.grad_outputs = {uniform(result.shape(), 5)}, .create_graph = true};
      const std::string message = refusal([&] { grad({result}, {inputs[0]}, options); });
      CHECK_MESSAGE(contains(message, "AutogradError: "), op_case.op, " (", op_case.variant, "): ", message);
      CHECK_MESSAGE(contains(message, "it is fused"), op_case.op, " (", op_case.variant, "): ", message);
    }
  }
}

TEST_CASE("gradients: a checkpoint changes no bit of any op's first and second derivatives") {
  for (const OpCase& op_case : registry().differentiable) {
    CAPTURE(op_case.op);
    CAPTURE(op_case.variant);
    const auto derivatives = [&](const Function& f) {
      std::vector<Tensor> arguments = op_case.inputs;
      arguments.push_back(uniform(f(arguments).shape(), 5));
      std::vector<Tensor> all = gradient_of(f)(arguments);
      if (!op_case.twice) return all;
      for (Tensor& argument : arguments) argument = argument.detach().set_requires_grad();
      const std::vector<Tensor> first = gradient_of(f)(arguments);
      GradOptions options;
      for (const Tensor& gradient : first) options.grad_outputs.push_back(uniform(gradient.shape(), 6));
      for (const Tensor& second : detail::grad_or_zeros(first, arguments, options)) all.push_back(second);
      return all;
    };
    int runs = 0;
    const auto list = [&](const std::vector<Tensor>& in) { return ++runs, std::vector{op_case.f(in)}; };
    check_same_bits(derivatives([&](const std::vector<Tensor>& in) { return checkpoint(list, in)[0]; }),
                    derivatives(op_case.f));
    CHECK(runs <= 5);
  }
}

TEST_CASE("gradients: anomaly mode finds no NaN in clean numbers, whatever memory held before") {
  for (const OpCase& op_case : registry().differentiable) {
    const std::vector<Tensor> leaves = leaves_of(op_case.inputs);
    const Shape shape = op_case.f(leaves).shape();
    const Tensor cotangent = uniform(shape, 5);
    const auto leave_nan_behind = [&] {
      std::vector<Tensor> dirt;
      for (int i = 0; i < 8; ++i) {
        dirt.push_back(full(shape, NAN, DType::float64));
        for (const Tensor& leaf : leaves) dirt.push_back(full(leaf.shape(), NAN, leaf.dtype()));
      }
    };
    std::string failure;
    try {
      leave_nan_behind();
      const AnomalyMode mode;
      const Tensor result = op_case.f(leaves);
      leave_nan_behind();
      if (result.requires_grad()) backward(result, {.grad = cotangent});
    } catch (const std::exception& error) {
      failure = error.what();
    }
    CHECK_MESSAGE(failure.empty(), op_case.op, " (", op_case.variant, "): ", failure);
  }
}

TEST_CASE("gradients: a NaN that goes in and comes out does not leave a gradient of 0 behind") {
  // As in PyTorch: a NaN is not between the bounds of clamp, and sign and rounding have no gradient. Beside a 0, a
  // product does not depend on its other factors. In a row of one element the weight of layer_norm multiplies 0. So
  // does a projection of linformer_attention in the columns of padding, a token's own value in lsh_attention, and a
  // value that a mask of pairs hides.
  const std::set<std::string> zero_at_nan{"clamp",
                                          "sign",
                                          "floor",
                                          "floor_divide",
                                          "ceil",
                                          "round",
                                          "trunc",
                                          "lsh_attention",
                                          "prod (zeros)",
                                          "cumprod (zeros)",
                                          "layer_norm (size 1)",
                                          "softmax_attention (mask of pairs)",
                                          "linformer_attention (padding)",
                                          "linformer_attention (dropout, padding)"};
  for (const OpCase& op_case : registry().differentiable) {
    if (zero_at_nan.contains(op_case.op) || zero_at_nan.contains(op_case.op + " (" + op_case.variant + ")")) continue;
    for (size_t i = 0; i < op_case.inputs.size(); ++i) {
      const int64_t count = op_case.inputs[i].numel();
      for (const int64_t element : std::set<int64_t>{0, count / 2, count - 1}) {
        if (count == 0 || !is_floating(op_case.inputs[i].dtype())) continue;
        std::vector<Tensor> inputs = op_case.inputs;
        inputs[i] = inputs[i].clone();
        inputs[i].mutable_data<double>()[static_cast<size_t>(element)] = NAN;
        inputs = leaves_of(inputs);
        const Tensor result = op_case.f(inputs);
        if (!any(isnan(result)).item<bool>()) continue;
        const Tensor cotangent = uniform(result.shape(), 5);
        const Tensor gradient =
            grad({result}, {inputs[i]}, {.grad_outputs = {cotangent}, .allow_unused = true}).front();
        CHECK_MESSAGE(gradient.flatten()[element].item() != 0, op_case.op, " (", op_case.variant, "), element ",
                      element, " of input ", i);
      }
    }
  }
}

TEST_CASE("gradients: an op with a bool or integer result takes inputs that require one, and passes none on") {
  for (const NonDifferentiableCase& op_case : registry().non_differentiable) {
    CAPTURE(op_case.op);
    Tensor recorded;
    REQUIRE_NOTHROW(recorded = op_case.f(leaves_of(op_case.inputs)));
    CHECK_FALSE(is_floating(recorded.dtype()));
    CHECK_FALSE(recorded.requires_grad());
    CHECK(recorded.to_vector<double>() == op_case.f(op_case.inputs).to_vector<double>());
  }
}

TEST_CASE("gradients: the registry names every public function, and no other") {
  std::set<std::string> public_functions;
  for (const std::string& file : files_below({"ops"})) {
    const bool is_public = !file.starts_with("ops/cpu/") && !file.starts_with("ops/detail/");
    if (!file.ends_with(".h") || !is_public) continue;
    public_functions.merge(functions_in(read_bytes(std::filesystem::path(LINNET_SOURCE_DIR) / file)));
  }
  for (const std::string& name : tensor_members_in(read_bytes(LINNET_SOURCE_DIR "/core/tensor.h"))) {
    public_functions.insert("Tensor::" + name);
  }
  std::set<std::string> registered;
  for (const OpCase& op_case : registry().differentiable) registered.insert(op_case.op);
  for (const NonDifferentiableCase& op_case : registry().non_differentiable) registered.insert(op_case.op);
  for (const auto& [name, reason] : registry().exempt) registered.insert(name);

  for (const std::string& name : public_functions) {
    CHECK_MESSAGE(registered.contains(name), name, " has no gradient check: add it to tests/ops/*/*_cases.cpp");
  }
  for (const std::string& name : registered) {
    CHECK_MESSAGE(public_functions.contains(name), name, " is in the registry, but no header declares it");
  }
}

TEST_CASE("gradients: each op is tried on broadcast, empty and size-1 inputs, or need not be") {
  std::set<std::string> all, several, empty, size_one, broadcast;
  for (const OpCase& op_case : registry().differentiable) {
    all.insert(op_case.op);
    if (op_case.inputs.size() > 1) several.insert(op_case.op);
    if (broadcasts(op_case)) broadcast.insert(op_case.op);
    for (const Tensor& input : op_case.inputs) {
      if (input.numel() == 0) empty.insert(op_case.op);
      if (std::ranges::count(input.shape(), 1) > 0) size_one.insert(op_case.op);
    }
  }
  check_tried("an empty input", all, empty, {});
  check_tried("a dimension of size 1", all, size_one, {});
  const std::string fixed = "it takes operands of the shapes that its definition names, and no other";
  Exempt no_broadcast;
  for (const char* op :
       {"fastmax", "fastmax_weights", "performer_attention", "performer_attention_weights", "informer_attention",
        "informer_attention_weights", "linear_attention", "linear_attention_weights", "softmax_attention",
        "softmax_attention_weights", "mse_loss", "scatter_add", "scatter", "conv1d", "stack", "bigbird_attention",
        "bigbird_attention_weights", "lsh_attention"}) {
    no_broadcast[op] = fixed;
  }
  for (const char* loss : {"l1_loss", "huber_loss", "smooth_l1_loss", "kl_div", "cosine_embedding_loss",
                           "margin_ranking_loss", "triplet_margin_loss"}) {
    no_broadcast[loss] = fixed;
  }
  check_tried("an operand that is broadcast", several, broadcast, no_broadcast);
}

}  // namespace linnet::test
