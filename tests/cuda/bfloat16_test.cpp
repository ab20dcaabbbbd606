#include <cmath>
#include <limits>
#include <string>

#include <linnet/nn/optim.h>
#include <linnet/ops/activation.h>
#include <linnet/ops/arithmetic.h>
#include <linnet/ops/attention.h>
#include <linnet/ops/compare.h>
#include <linnet/ops/creation.h>
#include <linnet/ops/fastformer.h>
#include <linnet/ops/fastmax.h>
#include <linnet/ops/indexing.h>
#include <linnet/ops/join.h>
#include <linnet/ops/loss.h>
#include <linnet/ops/math.h>
#include <linnet/ops/matmul.h>
#include <linnet/ops/normalisation.h>
#include <linnet/ops/random.h>
#include <linnet/ops/reduction.h>
#include <linnet/ops/short_conv.h>
#include <linnet/ops/softmax.h>
#include <linnet/ops/sorting.h>

#include "tests/cuda/agreement.h"

/// Tensors of bfloat16: what makes and moves them, what computes with them, in float32, and what refuses them.

namespace linnet::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DType kOthers[] = {DType::float32, DType::float64, DType::int32, DType::int64, DType::boolean};
constexpr double kRounding = 0x1p-8;          // of one number, relative
constexpr double kRoundings = 2 * kRounding;  // of what goes through several ops, or through factors of products

/// The nearest number with 8 digits, the even one of two, of float32's range.
double rounded(long double x) {
  if (!std::isfinite(x) || x == 0) return static_cast<double>(x);
  int exponent = 0;
  std::frexp(x, &exponent);
  const int digit = std::max(exponent, -125) - 8;
  const double nearest = static_cast<double>(std::ldexp(std::nearbyint(std::ldexp(x, -digit)), digit));
  return std::abs(nearest) < 0x1p128 ? nearest : std::copysign(kInfinity, nearest);
}

/// Multiples of 1/64 in (−1, 1), which bfloat16 holds: float32 on the CPU, bfloat16 on the GPU.
Tensor held(const Shape& shape, uint64_t seed, Device device) {
  const Tensor x = uniform(shape, seed, -64, 64).to(DType::int32).to(DType::float32) / 64;
  return device == Device::cpu ? x : x.to(device).to(DType::bfloat16);
}

/// f's results of `held` inputs of these shapes, with gradients, on the CPU in float32 and on the GPU in bfloat16.
/// The results are the same, gradients to rounding.
using Moves = std::function<Tensor(const std::vector<Tensor>&)>;
void agree_in_bfloat16(const std::string& what, double allowed, const std::vector<Shape>& shapes, const Moves& f) {
  const auto results = [&](Device device) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) inputs.push_back(held(shape, 3 + inputs.size(), device).set_requires_grad());
    std::vector<Tensor> all{f(inputs)};
    const Tensor cotangent = held(all[0].shape(), 2, device);
    for (Tensor& gradient : grad({all[0]}, inputs, {.grad_outputs = {cotangent}, .allow_unused = true})) {
      if (gradient.defined()) all.push_back(gradient);
    }
    return all;
  };
  const std::vector<Tensor> expected = results(Device::cpu), actual = results(Device::cuda);
  for (size_t r = 0; r < actual.size(); ++r) {
    CAPTURE(what);
    CAPTURE(r);
    CHECK(actual[r].dtype() == DType::bfloat16);
    CHECK(actual[r].shape() == expected[r].shape());
    CHECK(relative_error(actual[r].to_vector<double>(), expected[r].to_vector<double>()) <= allowed);
  }
}

Tensor ids(const Shape& shape, int64_t bound, Device device) {
  Generator generator(8);
  return randint(0, bound, shape, generator, DType::int64, device);
}

}  // namespace

TEST_CASE("gpu: what becomes bfloat16 is rounded once, to nearest even, from every dtype") {
  if (!has_gpu("rounding to bfloat16 on the GPU")) return;
  const auto check = [](const auto& values, DType dtype) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    const std::vector<double> actual =
        tensor(values).to(dtype).to(Device::cuda).to(DType::bfloat16).template to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = values[i];
      const double expected = rounded(value);
      CHECK_MESSAGE((actual[i] == expected || (std::isnan(actual[i]) && std::isnan(expected))), name_of(dtype), " ",
                    value, " became ", actual[i], ", not ", expected);
    }
  };
  std::vector<double> numbers = {0,      -0.0,      kNan,     -kNan,     kInfinity, -kInfinity,  0x1.fep127,
                                 0x1p-9, 0x1.04p-3, 0x1.01p0, -0x1.03p0, 0x1.03p0,  0x1.fdp-130, 0x1p-133};
  for (const double x : uniform({1003}, 3, -9, 9).to_vector<double>()) numbers.push_back(x);
  std::vector<float> floats(numbers.begin(), numbers.end());
  check(floats, DType::float32);
  // Beside a tie by less than float32 can tell: rounded twice, they would be even.
  numbers.insert(numbers.end(),
                 {0x1.0100000001p0, -0x1.02ffffffffp0, 0x1.ff0000001p127, 0x1.feffffffp127, 1e300, 1e-300});
  check(numbers, DType::float64);
  check(std::vector<int32_t>{0, 1, -255, 257, 259, 0x40400001, -0x40400001, 0x7fffffff}, DType::int32);
  check(std::vector<int64_t>{0, -1, 259, 0x4040000000000001, -0x4040000000000001, 0x40c0000000000000,
                             std::numeric_limits<int64_t>::min()},
        DType::int64);
  CHECK(tensor({0, 1}, DType::boolean).to(Device::cuda).to(DType::bfloat16).to_vector<double>() ==
        std::vector<double>{0, 1});
}

TEST_CASE("gpu: bfloat16 becomes every other dtype, as float32 does") {
  if (!has_gpu("conversions from bfloat16 on the GPU")) return;
  const Tensor x = held({41, 33}, 2, Device::cuda);
  for (const DType dtype : kOthers) {
    for (const bool strided : {false, true}) {
      const Tensor from = strided ? x.transpose(0, 1) : x;
      const Tensor plain = strided ? held({41, 33}, 2, Device::cpu).transpose(0, 1) : held({41, 33}, 2, Device::cpu);
      CHECK(from.to(dtype).to_vector<double>() == plain.to(dtype).to_vector<double>());
    }
  }
  const Tensor special = tensor({kNan, kInfinity, -2.75, 0, 300}).to(Device::cuda).to(DType::bfloat16);
  CHECK(special.to(DType::boolean).to_vector<bool>() == std::vector<bool>{true, true, true, false, true});
  CHECK(special.narrow(0, 2, 3).to(DType::int64).to_vector<int64_t>() == std::vector<int64_t>{-2, 0, 300});
  CHECK(std::isnan(special.select(0, 0).item<float>()));
  CHECK(to_string(special) == to_string(tensor({kNan, kInfinity, -2.75, 0, 300})));
  CHECK_THROWS_WITH_AS(special.to(Device::cpu), doctest::Contains("to(DType::float32) before to(Device::cpu)"),
                       DTypeError);
}

TEST_CASE("gpu: bfloat16 is made, viewed, copied, joined and chosen") {
  if (!has_gpu("moving bfloat16 on the GPU")) return;
  for (const Tensor& x : {full({3, 300}, 2.5, DType::bfloat16, Device::cuda),
                          full_like(zeros({3, 300}, DType::bfloat16, Device::cuda), 2.5),
                          ones({3, 300}, DType::bfloat16, Device::cuda).fill_(2.5),
                          zeros({3, 300}, DType::bfloat16, Device::cuda).copy_(full({300}, 2.5).to(Device::cuda))}) {
    CHECK(x.dtype() == DType::bfloat16);
    CHECK(x.to_vector<double>() == std::vector<double>(900, 2.5));
  }
  CHECK(full({1}, 0x1.0100000001p0, DType::bfloat16, Device::cuda).item<double>() == 0x1.02p0);

  const Shape shape{7, 65, 33};
  agree_in_bfloat16("clone", 0, {shape}, [](auto& in) { return in[0].clone(); });
  agree_in_bfloat16("views", 0, {shape}, [](auto& in) {
    return in[0].transpose(0, 2).contiguous().slice(0, 1, 30, 2).reshape({-1}).narrow(0, 3, 5000).unsqueeze(0);
  });
  agree_in_bfloat16("concat", 0, {{3, 5}, {4, 5}}, [](auto& in) { return concat({in[0], in[1]}); });
  agree_in_bfloat16("stack", 0, {{3, 5}, {3, 5}}, [](auto& in) { return stack({in[0], in[1]}, 1); });
  agree_in_bfloat16("pad", 0, {{3, 5}}, [](auto& in) { return pad(in[0], {1, 2}, 0.5); });
  agree_in_bfloat16("where", 0, {shape, shape},
                    [](auto& in) { return where(eq(ids({7, 65, 33}, 2, in[0].device()), 0), in[0], in[1]); });
  agree_in_bfloat16("masked_fill", 0, {{65, 65}}, [](auto& in) { return tril(in[0]); });
  agree_in_bfloat16("expand", kRounding, {{65, 1}}, [](auto& in) { return in[0].expand({3, 65, 100}); });
  agree_in_bfloat16("index_select", kRounding, {{12, 70}},
                    [](auto& in) { return index_select(in[0], 0, ids({300}, 12, in[0].device())); });
  agree_in_bfloat16("embedding", kRounding, {{12, 70}},
                    [](auto& in) { return embedding(in[0], ids({300}, 12, in[0].device())); });
  agree_in_bfloat16("gather", kRounding, {{12, 70}},
                    [](auto& in) { return gather(in[0], 0, ids({300, 70}, 12, in[0].device())); });
}

TEST_CASE("gpu: gradients go through conversions to and from bfloat16, and are added in float32") {
  if (!has_gpu("gradients of bfloat16 on the GPU")) return;
  const Tensor single = held({300}, 1, Device::cuda).to(DType::float32).set_requires_grad();
  const Tensor x = single.to(DType::bfloat16);
  const Tensor g = held({300}, 2, Device::cuda);
  CHECK(grad({x}, {single}, {.grad_outputs = {g}})[0].dtype() == DType::float32);
  CHECK(grad({single.to(DType::bfloat16)}, {single}, {.grad_outputs = {g}})[0].to_vector<float>() ==
        g.to_vector<float>());

  const auto cotangent = [](const Tensor& y, double value) { return full_like(y, value); };
  const auto leaf = [] { return zeros({4}, DType::bfloat16, Device::cuda).set_requires_grad(); };
  const Tensor many = leaf();
  backward(many.expand({300, 4}), {.grad = cotangent(many.expand({300, 4}), 1)});  // bfloat16 sums end at 256
  CHECK(many.grad().dtype() == DType::bfloat16);
  CHECK(many.grad().to_vector<float>() == std::vector<float>(4, 300));
  backward(many.clone(), {.grad = cotangent(many, 4)});
  CHECK(many.grad().to_vector<float>() == std::vector<float>(4, 304));

  const Tensor slices = leaf();
  const Tensor copy = slices.clone();
  const Tensor overlapping = concat({copy.narrow(0, 0, 3), copy.narrow(0, 1, 3), copy});
  backward(overlapping, {.grad = cotangent(overlapping, 0.5)});
  CHECK(slices.grad().to_vector<float>() == std::vector<float>{1, 1.5, 1.5, 1});

  const Tensor twice = leaf();
  const Tensor both = concat({twice, twice});
  const auto first = grad({both}, {twice}, {.grad_outputs = {cotangent(both, 3)}, .create_graph = true});
  CHECK(first[0].to_vector<float>() == std::vector<float>(4, 6));
}

TEST_CASE("gpu: a NaN is found in bfloat16") {
  if (!has_gpu("NaN in bfloat16 on the GPU")) return;
  const Tensor x = tensor({0, kInfinity, kNan}).to(Device::cuda).to(DType::bfloat16);
  const AnomalyMode anomaly;
  CHECK_NOTHROW(x.narrow(0, 0, 2));
  CHECK_THROWS_AS(x.narrow(0, 1, 2), ValueError);
}

TEST_CASE("gpu: of bfloat16 is computed in float32, and rounded once") {
  if (!has_gpu("arithmetic of bfloat16 on the GPU")) return;
  const std::vector<std::pair<std::string, Moves>> functions = {
      {"add", [](auto& in) { return in[0] + in[1]; }},
      {"sub", [](auto& in) { return in[0] - in[1]; }},
      {"mul", [](auto& in) { return in[0] * in[1]; }},
      {"a number", [](auto& in) { return 0.75 * in[0] + 3; }},
      {"neg", [](auto& in) { return -in[0]; }},
      {"abs", [](auto& in) { return abs(in[0]); }},
      {"square", [](auto& in) { return square(in[0]); }},
      {"exp", [](auto& in) { return exp(in[0]); }},
      {"sin", [](auto& in) { return sin(in[0]); }},
      {"tanh", [](auto& in) { return tanh(in[0]); }},
      {"sigmoid", [](auto& in) { return sigmoid(in[0]); }},
      {"relu", [](auto& in) { return relu(in[0]); }},
      {"gelu", [](auto& in) { return gelu(in[0]); }},
      {"gelu_tanh", [](auto& in) { return gelu(in[0], Gelu::tanh); }},
      {"silu", [](auto& in) { return silu(in[0]); }},
      {"softplus", [](auto& in) { return softplus(in[0]); }},
      {"erf", [](auto& in) { return erf(in[0]); }},
      {"maximum", [](auto& in) { return maximum(in[0], in[1]); }},
      {"minimum", [](auto& in) { return minimum(in[0], in[1]); }},
      {"broadcast", [](auto& in) { return in[0] + in[1].narrow(0, 0, 1); }},
      {"transposed", [](auto& in) { return transpose(in[0]) * transpose(in[1]); }},
      {"sum", [](auto& in) { return sum(in[0], {1}); }},
      {"sum of columns", [](auto& in) { return sum(in[0], {0}); }},
      {"sum of all", [](auto& in) { return sum(in[0]); }},
      {"mean", [](auto& in) { return mean(in[0], {0}); }},
      {"layer_norm", [](auto& in) { return layer_norm(in[0]); }},
      {"rms_norm", [](auto& in) { return rms_norm(in[0]); }},
      {"dropout",
       [](auto& in) {
         Generator generator(4);
         return dropout(in[0], 0.3, generator);
       }},
  };
  const Shape shape{70, 301};  // not a multiple of what a thread moves together
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    const std::vector<Tensor> in{held(shape, 3, Device::cuda), held(shape, 4, Device::cuda)};
    const Tensor y = f(in), exact = f({in[0].to(DType::float32), in[1].to(DType::float32)});
    CHECK(y.dtype() == DType::bfloat16);
    if (name != "a number") CHECK(y.to_vector<float>() == exact.to(DType::bfloat16).to_vector<float>());
    agree_in_bfloat16(name, kRoundings, {shape, shape}, f);
  }
  const Tensor x = held(shape, 3, Device::cuda), y = held(shape, 4, Device::cuda);
  CHECK(lt(x, y).to_vector<bool>() == lt(x.to(DType::float32), y.to(DType::float32)).to_vector<bool>());
  CHECK(eq(x, 0).to_vector<bool>() == eq(x.to(DType::float32), 0).to_vector<bool>());
}

TEST_CASE("gpu: mean of bfloat16 divides by a count that bfloat16 does not hold") {
  if (!has_gpu("means of bfloat16 on the GPU")) return;
  CHECK(mean(ones({257}, DType::bfloat16, Device::cuda)).item<double>() == 1);
}

TEST_CASE("gpu: products of bfloat16 are exact but for the rounding of the result") {
  if (!has_gpu("products of bfloat16 on the GPU")) return;
  agree_in_bfloat16("matmul", kRounding, {{70, 33}, {33, 65}}, [](auto& in) { return matmul(in[0], in[1]); });
  agree_in_bfloat16("matmul", kRounding, {{3, 17, 33}, {33, 65}}, [](auto& in) { return matmul(in[0], in[1]); });
  agree_in_bfloat16("matmul", kRounding, {{2, 1, 17, 33}, {5, 33, 9}}, [](auto& in) { return matmul(in[0], in[1]); });
  agree_in_bfloat16("transposed", kRounding, {{33, 70}, {65, 33}},
                    [](auto& in) { return matmul(transpose(in[0]), transpose(in[1])); });
  agree_in_bfloat16("strided", kRounding, {{70, 66}, {66, 65}},
                    [](auto& in) { return matmul(in[0].slice(1, 0, 66, 2), in[1].slice(0, 0, 66, 2)); });
  agree_in_bfloat16("nothing to sum", 0, {{7, 0}, {0, 5}}, [](auto& in) { return matmul(in[0], in[1]); });
}

TEST_CASE("gpu: parameters beside bfloat16 are float32, and so are their gradients") {
  if (!has_gpu("layers of bfloat16 on the GPU")) return;
  using Layer = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;
  struct Case {
    std::string name;
    Shape x, weight;
    int64_t bias;
    Layer layer;
  };
  const std::vector<Case> cases = {
      {"linear", {3, 70, 33}, {65, 33}, 65, [](auto& x, auto& w, auto& b) { return linear(x, w, b); }},
      {"without bias", {3, 70, 33}, {65, 33}, 65, [](auto& x, auto& w, auto&) { return linear(x, w); }},
      {"one row", {1, 33}, {1, 33}, 1, [](auto& x, auto& w, auto& b) { return linear(x, w, b); }},
      {"layer_norm", {300, 70}, {70}, 70, [](auto& x, auto& w, auto& b) { return layer_norm(x, w, b); }},
      {"wide", {9, 1100}, {1100}, 1100, [](auto& x, auto& w, auto& b) { return layer_norm(x, w, b); }},
      {"rms_norm", {300, 70}, {70}, 70, [](auto& x, auto& w, auto&) { return rms_norm(x, w); }},
      {"short_conv", {2, 40, 24}, {24, 4}, 24, [](auto& x, auto& w, auto&) { return short_conv(x, w); }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto results = [&](DType dtype) {
      const auto leaf = [&](const Shape& shape, uint64_t seed, DType as) {
        return held(shape, seed, Device::cuda).to(as).set_requires_grad();
      };
      const Tensor x = leaf(c.x, 1, dtype), w = leaf(c.weight, 2, DType::float32),
                   b = leaf({c.bias}, 3, DType::float32);
      std::vector<Tensor> all{c.layer(x, w, b)};
      const Tensor cotangent = held(all[0].shape(), 4, Device::cuda).to(dtype);
      for (Tensor& gradient : grad({all[0]}, {x, w, b}, {.grad_outputs = {cotangent}, .allow_unused = true})) {
        if (gradient.defined()) all.push_back(gradient);
      }
      return all;
    };
    const std::vector<Tensor> expected = results(DType::float32), actual = results(DType::bfloat16);
    for (size_t r = 0; r < actual.size(); ++r) {
      CAPTURE(r);
      const bool is_parameter = r >= 2;
      CHECK(actual[r].dtype() == (is_parameter ? DType::float32 : DType::bfloat16));
      CHECK(relative_error(actual[r], expected[r].to_vector<double>()) <= (is_parameter ? 1e-5 : kRounding));
    }
  }
}

TEST_CASE("gpu: a linear map of bfloat16 has second derivatives") {
  if (!has_gpu("second derivatives of bfloat16 on the GPU")) return;
  const auto second = [](DType dtype) {
    const Tensor x = held({9, 6}, 1, Device::cuda).to(dtype).set_requires_grad();
    const Tensor w = held({5, 6}, 2, Device::cuda).to(DType::float32).set_requires_grad();
    const Tensor g = held({9, 5}, 3, Device::cuda).to(dtype).set_requires_grad();
    const std::vector<Tensor> first = grad({linear(x, w)}, {x, w}, {.grad_outputs = {g}, .create_graph = true});
    const Tensor total = sum(first[0].to(DType::float32)) + sum(first[1]);
    return grad({total}, {x, w, g});
  };
  const std::vector<Tensor> expected = second(DType::float32), actual = second(DType::bfloat16);
  for (size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    CHECK(actual[r].dtype() == (r == 1 ? DType::float32 : DType::bfloat16));
    CHECK(relative_error(actual[r], expected[r].to_vector<double>()) <= kRounding);
  }
}

TEST_CASE("gpu: parameters of another dtype beside bfloat16 are refused") {
  if (!has_gpu("parameters beside bfloat16 on the GPU")) return;
  const Tensor x = held({8, 8}, 1, Device::cuda), row = x.select(0, 0);
  const auto text = doctest::Contains("beside bfloat16[8, 8] parameters are float32, not bfloat16[8");
  CHECK_THROWS_WITH_AS(linear(x, x), text, DTypeError);
  CHECK_THROWS_WITH_AS(layer_norm(x, row), text, DTypeError);
  CHECK_THROWS_WITH_AS(rms_norm(x, row), text, DTypeError);
  CHECK_THROWS_WITH_AS(linear(x.to(DType::float32), x), doctest::Contains("dtypes differ"), DTypeError);
  CHECK_THROWS_WITH_AS(matmul(x, x.to(DType::float32)), doctest::Contains("dtypes differ"), DTypeError);
}

TEST_CASE("gpu: what has no kernel for bfloat16 refuses it, and names the remedy") {
  if (!has_gpu("refusals of bfloat16 on the GPU")) return;
  const Tensor x = held({8, 8}, 1, Device::cuda);
  Generator generator(1);
  const std::vector<std::pair<std::string, std::function<void()>>> uses = {
      {"max", [&] { max(x); }},
      {"any", [&] { any(x); }},
      {"argmax", [&] { argmax(x, 0); }},
      {"cumsum", [&] { cumsum(x, 0); }},
      {"sort", [&] { sort(x); }},
      {"softmax", [&] { softmax(x); }},
      {"cross_entropy", [&] { cross_entropy(x, ids({8}, 8, Device::cuda)); }},
      {"scatter_add", [&] { scatter_add(x, 0, ids({8, 8}, 8, Device::cuda), x); }},
      {"rand", [&] { rand({2}, generator, DType::bfloat16, Device::cuda); }},
      {"randn", [&] { randn({2}, generator, DType::bfloat16, Device::cuda); }},
      {"optimizer", [&] { nn::AdamW({x.clone().set_requires_grad()}, {}); }},
      {"optimizer", [&] { nn::SGD({x.clone().set_requires_grad()}, {.lr = 0.1}); }},
  };
  for (const auto& [name, use] : uses) {
    CAPTURE(name);
    try {
      use();
      FAIL_CHECK("nothing was thrown");
    } catch (const DTypeError& error) {
      const std::string message = error.what();
      CAPTURE(message);
      CHECK(message.starts_with(name + ": "));
      CHECK(message.find("bfloat16") != std::string::npos);
      CHECK(message.find("storage") != std::string::npos);
      CHECK(message.find("to(DType::float32)") != std::string::npos);
    }
  }
}

TEST_CASE("gpu: attention of bfloat16 is float32's to rounding, and so are its gradients") {
  if (!has_gpu("attention of bfloat16 on the GPU")) return;
  const auto keep = [](Device device) { return lt(ids({2, 70}, 4, device), 3); };
  const auto agree_at = [](const char* what, int64_t width, const Moves& attend) {
    agree_in_bfloat16(what + std::string(" ") + std::to_string(width), kRoundings,
                      std::vector<Shape>(3, {2, 3, 70, width}), attend);
  };
  for (const bool causal : {false, true}) {
    for (const int64_t width : {6, 32, 64, 80}) {  // with and without gaps behind a row, and wider than a warp's rows
      agree_at("softmax", width, [&](auto& in) {
        return softmax_attention(in[0], in[1], in[2], {.causal = causal, .keep = keep(in[0].device())});
      });
    }
    for (const auto& [form, width] : {std::pair{FastmaxForm::quadratic, 8},
                                      {FastmaxForm::quadratic, 64},
                                      {FastmaxForm::factorised, 8},
                                      {FastmaxForm::reference, 8}}) {
      for (const int order : {1, 2}) {
        agree_at("fastmax", width, [&, form = form](auto& in) {
          FastmaxOptions options{.order = order, .causal = causal, .keep = keep(in[0].device()), .form = form};
          return fastmax(in[0], in[1], in[2], options);
        });
      }
    }
    const auto additive = [&](int64_t width, int64_t weights, Interaction interaction) {
      agree_at("additive", width, [&](auto& in) {
        const Device device = in[0].device();
        const auto stage = [&](uint64_t seed) {
          return AdditiveStage{uniform({3, weights}, seed).to(DType::float32).to(device)};
        };
        return additive_attention(in, {stage(5), stage(6)},
                                  {.interaction = interaction, .causal = causal, .keep = keep(device)});
      });
    };
    for (const int64_t width : {6, 8, 136}) {  // packs of columns or not, and too many for a warp
      additive(width, width, Interaction::product);
    }
    additive(8, 8, Interaction::add);
    additive(8, 24, Interaction::product);  // composed, with full weights
  }
}

TEST_CASE("gpu: one tensor of bfloat16 as queries, keys and values has the gradient of all three") {
  if (!has_gpu("shared tensors of bfloat16 on the GPU")) return;
  const Tensor x = held({2, 70, 3, 8}, 1, Device::cuda).set_requires_grad();
  const Tensor wide = x.detach().to(DType::float32).set_requires_grad();
  const Tensor w = uniform({3, 8}, 5).to(DType::float32).to(Device::cuda);
  const std::vector<Moves> attentions = {
      [](auto& in) { return softmax_attention(in[0], in[0], in[0]); },
      [](auto& in) { return fastmax(in[0], in[0], in[0]); },
      [&](auto& in) { return additive_attention({in[0], in[0], in[0]}, {{w}, {w}}); },
  };
  for (const Moves& attend : attentions) {
    const Tensor o = attend({x.transpose(1, 2)}), expected = attend({wide.transpose(1, 2)});
    CHECK(o.transpose(1, 2).is_contiguous());  // as that of float32: joining the heads is free
    CHECK(relative_error(o, expected.to_vector<double>()) <= kRoundings);
    const Tensor g = held(o.shape(), 2, Device::cuda);
    const Tensor gradient = grad({o}, {x}, {.grad_outputs = {g}})[0];
    const Tensor exact = grad({expected}, {wide}, {.grad_outputs = {g.to(DType::float32)}})[0];
    CHECK(gradient.dtype() == DType::bfloat16);
    CHECK(relative_error(gradient, exact.to_vector<double>()) <= kRoundings);
  }
}

TEST_CASE("gpu: attention of bfloat16 and other dtypes at once is refused") {
  if (!has_gpu("attention of two dtypes on the GPU")) return;
  const Tensor x = held({1, 2, 9, 8}, 1, Device::cuda), wide = x.to(DType::float32),
               w = wide.select(0, 0).select(1, 0);
  const auto differ = doctest::Contains("dtypes differ");
  CHECK_THROWS_WITH_AS(softmax_attention(x, wide, x), differ, DTypeError);
  CHECK_THROWS_WITH_AS(fastmax(wide, x, x), differ, DTypeError);
  CHECK_THROWS_WITH_AS(additive_attention({x, x, wide}, {{w}, {w}}), differ, DTypeError);
  const Tensor narrow = w.to(DType::bfloat16);
  CHECK_THROWS_WITH_AS(additive_attention({x, x, x}, {{narrow}, {narrow}}), differ, DTypeError);
}

}  // namespace linnet::test
