#include <limits>

#include <linnet/core/build_info.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/fastmax/fastmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/cuda/agreement.h"

/// Products of float32 matrices in TF32 and bfloat16.

namespace linnet::test {
namespace {

/// While it exists, the GPU's products have this precision.
class Products {
 public:
  explicit Products(Precision precision) { set_precision(precision, Device::cuda); }
  ~Products() { set_precision(Precision::float32, Device::cuda); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
};

/// The largest error of products whose factors are rounded. cuBLAS may round them, but need not.
struct Rounded {
  Precision precision;
  double most;
};
constexpr Rounded kRounded[] = {{Precision::tf32, 1e-3}, {Precision::bfloat16, 5e-3}};

using Inputs = std::vector<Tensor>;

/// q [2, 2, queries, width], k and v [2, 2, keys, width].
Inputs heads(int64_t queries, int64_t keys, int64_t width, DType dtype, Device device) {
  return {spread({2, 2, queries, width}, 1, dtype, device), spread({2, 2, keys, width}, 2, dtype, device),
          spread({2, 2, keys, width}, 3, dtype, device)};
}

using Attention = std::function<Tensor(const Inputs&)>;

/// Attention with each kernel that multiplies tiles.
std::vector<std::pair<std::string, Attention>> attentions(bool causal) {
  const auto fastmax_of = [causal](FastmaxForm form, double dropout, FastmaxDropout kind) {
    return [=](const Inputs& in) {
      Generator generator(6);
      return fastmax(in[0], in[1], in[2],
                     {.scale = FastmaxScale::sqrt,
                      .causal = causal,
                      .form = form,
                      .dropout = dropout,
                      .dropout_kind = kind,
                      .generator = &generator});
    };
  };
  return {
      {"softmax", [causal](const Inputs& in) { return softmax_attention(in[0], in[1], in[2], {.causal = causal}); }},
      {"quadratic fastmax", fastmax_of(FastmaxForm::quadratic, 0, FastmaxDropout::token)},
      {"factorised fastmax", fastmax_of(FastmaxForm::factorised, 0, FastmaxDropout::token)},
      {"factorised fastmax with dropout", fastmax_of(FastmaxForm::factorised, 0.2, FastmaxDropout::quadratic)}};
}

}  // namespace

TEST_CASE("precision: each has a name, and the CPU takes float32 alone") {
  for (const Precision each : {Precision::float32, Precision::tf32, Precision::bfloat16}) {
    CHECK(precision_named(name_of(each)) == each);
  }
  CHECK_FALSE(precision_named("float16").has_value());
  set_precision(Precision::float32, Device::cpu);
  CHECK_THROWS_WITH_AS(
      set_precision(Precision::bfloat16, Device::cpu),
      doctest::Contains("set_precision: the CPU has no bfloat16 products; compute in float32, or on Device::cuda"),
      DeviceError);
  CHECK_THROWS_AS(set_precision(Precision::tf32, Device::cpu), DeviceError);
}

TEST_CASE("gpu: precision: matrix products of rounded factors, and float64 as ever") {
  if (!has_gpu("TF32 and bfloat16 products on the GPU")) return;
  const auto product = [](DType dtype, Device device) {
    return matmul(spread({70, 300}, 1, dtype, device), spread({300, 50}, 2, dtype, device)).to_vector<double>();
  };
  const std::vector<double> expected = product(DType::float64, Device::cpu);
  const std::vector<double> doubles = product(DType::float64, Device::cuda);
  for (const auto& [precision, most] : kRounded) {
    CAPTURE(name_of(precision));
    const Products products(precision);
    CHECK(relative_error(product(DType::float32, Device::cuda), expected) < most);
    CHECK(product(DType::float64, Device::cuda) == doubles);
    CHECK(build_info().find(name_of(precision)) != std::string::npos);
  }
  CHECK(relative_error(product(DType::float32, Device::cuda), expected) < 1e-6);
}

TEST_CASE("gpu: precision: a bias is added as it is, and the same bits come out each time") {
  if (!has_gpu("a bias beside products of rounded factors")) return;
  const auto apply = [](double scale, DType dtype, Device device) {
    return linear(mul(spread({70, 300}, 1, dtype, device), scale), spread({50, 300}, 2, dtype, device),
                  spread({50}, 3, dtype, device))
        .to_vector<double>();
  };
  const std::vector<double> expected = apply(1, DType::float64, Device::cpu);
  const std::vector<double> bias_alone = apply(0, DType::float32, Device::cpu);
  for (const auto& [precision, most] : kRounded) {
    CAPTURE(name_of(precision));
    const Products products(precision);
    const std::vector<double> first = apply(1, DType::float32, Device::cuda);
    CHECK(relative_error(first, expected) < most);
    CHECK(apply(1, DType::float32, Device::cuda) == first);
    CHECK(apply(0, DType::float32, Device::cuda) == bias_alone);
  }
}

TEST_CASE("gpu: precision: attention with tensor cores is off by what its factors are, and the same each time") {
  if (!has_gpu("bfloat16 attention on the GPU")) return;
  for (const auto& [queries, keys, width] : {std::tuple{150, 150, 40}, {70, 131, 70}, {131, 70, 8}}) {
    for (const bool causal : {false, true}) {
      for (const auto& [what, attention] : attentions(causal)) {
        CAPTURE(what);
        CAPTURE(width);
        const auto results = [&, n = queries, m = keys, d = width, &f = attention](DType dtype, Device device) {
          return with_gradients(heads(n, m, d, dtype, device), f);
        };
        const Inputs expected = results(DType::float64, Device::cpu), doubles = results(DType::float64, Device::cuda);
        const Products products(Precision::bfloat16);
        const Inputs first = results(DType::float32, Device::cuda), second = results(DType::float32, Device::cuda);
        const Inputs exact = results(DType::float64, Device::cuda);
        for (size_t r = 0; r < expected.size(); ++r) {
          CAPTURE(r);
          const double error = relative_error(first[r], expected[r].to_vector<double>());
          CHECK(error > 1e-4);
          CHECK(error < 3e-2);
          CHECK(first[r].to_vector<double>() == second[r].to_vector<double>());
          CHECK(exact[r].to_vector<double>() == doubles[r].to_vector<double>());
        }
      }
    }
  }
}

TEST_CASE("gpu: precision: with tensor cores too, what a query does not see is not read for it") {
  if (!has_gpu("infinities behind masks of bfloat16 attention")) return;
  const Products products(Precision::bfloat16);
  for (const auto& [what, attention] : attentions(true)) {
    CAPTURE(what);
    Inputs in = heads(70, 70, 8, DType::float32, Device::cuda);
    const Tensor expected = attention(in).narrow(2, 0, 60);
    for (Tensor& x : in) {
      x = x.clone();
      x.narrow(2, 60, 10).fill_(std::numeric_limits<double>::infinity());
    }
    CHECK(attention(in).narrow(2, 0, 60).to_vector<double>() == expected.to_vector<double>());
  }
}

TEST_CASE("gpu: precision: with tensor cores too, attention leaves out what padding and dropout take away") {
  if (!has_gpu("masks of bfloat16 attention")) return;
  for (const auto& [queries, keys, width] : {std::tuple{70, 70, 24}, {20, 131, 64}}) {
    for (const bool causal : {false, true}) {
      CAPTURE(width);
      CAPTURE(causal);
      const auto results = [&, n = queries, m = keys, d = width](bool is_softmax, DType dtype, Device device) {
        const Tensor padding_mask = lt(uniform({2, m}, 9), 0.5).to(device);
        return with_gradients(heads(n, m, d, dtype, device), [&](const Inputs& in) {
          Generator generator(6);
          if (is_softmax) {
            return softmax_attention(
                in[0], in[1], in[2],
                {.causal = causal, .padding_mask = padding_mask, .dropout = 0.3, .generator = &generator});
          }
          return fastmax(in[0], in[1], in[2],
                         {.scale = FastmaxScale::sqrt,
                          .causal = causal,
                          .padding_mask = padding_mask,
                          .form = FastmaxForm::quadratic,
                          .dropout = 0.3,
                          .dropout_kind = FastmaxDropout::token,
                          .generator = &generator});
        });
      };
      for (const bool is_softmax : {true, false}) {
        CAPTURE(is_softmax);
        const Inputs expected = results(is_softmax, DType::float64, Device::cpu);
        const Products products(Precision::bfloat16);
        const Inputs actual = results(is_softmax, DType::float32, Device::cuda);
        for (size_t r = 0; r < expected.size(); ++r) {
          CAPTURE(r);
          CHECK(relative_error(actual[r], expected[r].to_vector<double>()) < 3e-2);
        }
      }
    }
  }
}

TEST_CASE("gpu: precision: with tensor cores too, gradients do not mix with what did not see each other") {
  if (!has_gpu("infinities behind masks of bfloat16 gradients")) return;
  const Products products(Precision::bfloat16);
  const auto gradients = [](const Attention& attention, std::vector<size_t> poisoned, int64_t first, int64_t count) {
    Inputs in = heads(70, 70, 8, DType::float32, Device::cuda);
    for (const size_t i : poisoned) {
      in[i] = in[i].clone();
      in[i].narrow(2, first, count).fill_(std::numeric_limits<double>::infinity());
    }
    return with_gradients(in, attention);
  };
  for (const auto& [what, attention] : {attentions(true)[0], attentions(true)[1]}) {
    CAPTURE(what);
    const Inputs clean = gradients(attention, {}, 0, 0);
    const Inputs behind = gradients(attention, {1, 2}, 60, 10), before = gradients(attention, {0}, 0, 10);
    const auto same = [&](const Tensor& a, const Tensor& b, int64_t first, int64_t count) {
      return a.narrow(2, first, count).to_vector<double>() == b.narrow(2, first, count).to_vector<double>();
    };
    CHECK(same(behind[1], clean[1], 0, 60));
    CHECK(same(before[2], clean[2], 10, 60));
    CHECK(same(before[3], clean[3], 10, 60));
  }
}

}  // namespace linnet::test
