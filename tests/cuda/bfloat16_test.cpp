#include <cmath>
#include <limits>
#include <string>

#include <linnet/nn/optim/optim.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/fastmax/fastmax.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/batch_norm.h>
#include <linnet/ops/layers/loss.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/layers/short_conv.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/cuda/bfloat16.h"

/// Tensors of bfloat16: the functions that create and move them, those that compute with them in float32, and those
/// that refuse them.

namespace linnet::test {
namespace {

constexpr DType kOthers[] = {DType::float32, DType::float64, DType::int32, DType::int64, DType::boolean};

/// The nearest number with 8 binary digits in float32's range; ties go to the even one.
double rounded(long double x) {
  if (!std::isfinite(x) || x == 0) return static_cast<double>(x);
  int exponent = 0;
  std::frexp(x, &exponent);
  const int digit = std::max(exponent, -125) - 8;
  const double nearest = static_cast<double>(std::ldexp(std::nearbyint(std::ldexp(x, -digit)), digit));
  return std::abs(nearest) < 0x1p128 ? nearest : std::copysign(kInfinity, nearest);
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
  // These differ from a tie by less than float32 can represent. If they were rounded twice, they would become even.
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
  backward(many.expand({300, 4}), {.grad = cotangent(many.expand({300, 4}), 1)});  // a bfloat16 sum stops at 256
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
      {"round", [](auto& in) { return round(in[0]); }},
      {"expm1", [](auto& in) { return expm1(in[0]); }},
      {"atan", [](auto& in) { return atan(in[0]); }},
      {"leaky_relu", [](auto& in) { return leaky_relu(in[0], 0.25); }},
      {"elu", [](auto& in) { return elu(in[0], 1.5); }},
      {"glu", [](auto& in) { return glu(in[0], 0); }},
      {"maximum", [](auto& in) { return maximum(in[0], in[1]); }},
      {"minimum", [](auto& in) { return minimum(in[0], in[1]); }},
      {"broadcast", [](auto& in) { return in[0] + in[1].narrow(0, 0, 1); }},
      {"transposed", [](auto& in) { return transpose(in[0]) * transpose(in[1]); }},
      {"sum", [](auto& in) { return sum(in[0], {1}); }},
      {"sum of columns", [](auto& in) { return sum(in[0], {0}); }},
      {"sum of all", [](auto& in) { return sum(in[0]); }},
      {"mean", [](auto& in) { return mean(in[0], {0}); }},
      {"var", [](auto& in) { return var(in[0], {1}); }},
      {"norm", [](auto& in) { return norm(in[0], 2, {1}); }},
      {"1-norm", [](auto& in) { return norm(in[0], 1, {1}); }},
      {"layer_norm", [](auto& in) { return layer_norm(in[0]); }},
      {"rms_norm", [](auto& in) { return rms_norm(in[0]); }},
      {"dropout",
       [](auto& in) {
         Generator generator(4);
         return dropout(in[0], 0.3, generator);
       }},
  };
  const Shape shape{70, 301};  // not a multiple of the elements that a thread moves at once
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

TEST_CASE("gpu: a number beside bfloat16 is rounded to that") {
  if (!has_gpu("numbers beside bfloat16 on the GPU")) return;
  const Tensor x = full({2}, 3, DType::bfloat16, Device::cuda);
  CHECK((x * 0.1).to_vector<double>() == std::vector<double>(2, rounded(3 * rounded(0.1))));
}

TEST_CASE("gpu: losses and weights of attention of bfloat16 are float32's") {
  if (!has_gpu("losses of bfloat16 on the GPU")) return;
  const Tensor rows = ids({70}, 33, Device::cuda), t = held({70, 33}, 7, Device::cuda);
  const Tensor w = held({3, 4}, 8, Device::cuda).to(DType::float32);
  const auto heads = [](const Tensor& x) {
    return x.narrow(1, 0, 24).reshape({2, 35, 6, 4}).narrow(2, 0, 3).transpose(1, 2);
  };
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> functions = {
      {"cross_entropy", [&](auto& x) { return cross_entropy(x, rows); }},
      {"mse_loss", [&](auto& x) { return mse_loss(x, t); }},
      {"mse_loss of float32", [&](auto& x) { return mse_loss(x, t.to(DType::float32), Reduction::sum); }},
      {"binary_cross_entropy_with_logits",
       [&](auto& x) { return binary_cross_entropy_with_logits(x, t, {.pos_weight = t.narrow(0, 0, 1)}); }},
      {"binary_cross_entropy",
       [&](auto& x) { return binary_cross_entropy(clamp(x, 0.125, 0.875), t, {.weight = t}); }},
      {"softmax", [&](auto& x) { return softmax_attention_weights(heads(x), heads(x)); }},
      {"fastmax", [&](auto& x) { return fastmax_weights(heads(x), heads(x)); }},
      {"additive", [&](auto& x) { return additive_attention_weights({heads(x), heads(x)}, {{w}})[0]; }},
  };
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    const Tensor x = held({70, 33}, 6, Device::cuda).set_requires_grad();
    const Tensor wide = x.detach().to(DType::float32).set_requires_grad();
    const Tensor y = f(x), exact = f(wide);
    CHECK(y.dtype() == DType::float32);
    CHECK(y.to_vector<float>() == exact.to_vector<float>());
    const std::vector<Tensor> cotangent{held(y.shape(), 5, Device::cuda).to(DType::float32)};
    const Tensor g = grad({y}, {x}, {.grad_outputs = cotangent})[0];
    CHECK(g.dtype() == DType::bfloat16);
    CHECK(relative_error(g, grad({exact}, {wide}, {.grad_outputs = cotangent})[0].to_vector<double>()) <= kRoundings);
  }
  const Tensor logits = held({70, 33}, 6, Device::cuda);
  CHECK(accuracy(logits, rows) == accuracy(logits.to(DType::float32), rows));
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
      {"batch_norm", {4, 7, 60}, {7}, 7, [](auto& x, auto& w, auto& b) { return batch_norm(x, {}, {}, w, b, true); }},
      {"group_norm", {9, 6, 4}, {6}, 6, [](auto& x, auto& w, auto& b) { return group_norm(x, 3, w, b); }},
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

TEST_CASE("gpu: a linear map of rows of nothing is its bias, rounded") {
  if (!has_gpu("products without terms on the GPU")) return;
  const Tensor x = zeros({7, 0}, DType::bfloat16, Device::cuda), w = zeros({5, 0}, DType::float32, Device::cuda);
  const Tensor bias = uniform({5}, 1).to(DType::float32).to(Device::cuda);
  CHECK(linear(x, w, bias).to_vector<float>() == bias.to(DType::bfloat16).expand({7, 5}).to_vector<float>());
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

}  // namespace linnet::test
