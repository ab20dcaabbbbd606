#include <linnet/ops/fastmax/fastmax.h>

#include <limits>
#include <string>
#include <tuple>

#include <linnet/ops/array/creation.h>

#include "tests/cuda/agreement.h"

/// The factorised form of Fastmax on the GPU, over several tiles, chunks and columns of blocks.

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

struct Size {
  int64_t queries, keys, width;
};

/// q [2, 2, queries, width], k and v [2, 2, keys, width]. k and v are transposed, as after a projection.
Inputs heads(const Size& size, DType dtype, Device device) {
  return {spread({2, 2, size.queries, size.width}, 1, dtype, device),
          spread({2, size.keys, 2, size.width}, 2, dtype, device).transpose(1, 2).detach(),
          spread({2, size.keys, 2, size.width}, 3, dtype, device).transpose(1, 2).detach()};
}

/// Bool [2, tokens]: every fifth token, and the last two thirds of the second sequence, are padding.
Tensor padding(int64_t tokens, Device device) {
  Tensor padding_mask = ones({2, tokens}, DType::boolean);
  const auto kept = padding_mask.mutable_data<bool>();
  for (int64_t i = 0; i < 2 * tokens; ++i) kept[i] = i % 5 != 3 && i < tokens + tokens / 3;
  return padding_mask.to(device);
}

Tensor attend(const Inputs& in, FastmaxOptions options) {
  Generator generator(6);
  options.form = FastmaxForm::factorised;
  options.generator = &generator;
  return fastmax(in[0], in[1], in[2], options);
}

/// Each kind of dropout, and none. If the only key of a first row lost the 1 of a denominator that shares the mask,
/// the test would only compare rounding errors.
std::vector<std::pair<std::string, FastmaxOptions>> dropouts(bool causal) {
  const FastmaxOptions none{.scale = FastmaxScale::unit, .causal = causal};
  std::vector<std::pair<std::string, FastmaxOptions>> all{{"no dropout", none}};
  for (const auto& [kind, name] : {std::pair{FastmaxDropout::quadratic, "quadratic dropout"},
                                   {FastmaxDropout::standard, "standard dropout"},
                                   {FastmaxDropout::token, "token dropout"}}) {
    FastmaxOptions options = none;
    options.dropout = 0.25;
    options.dropout_kind = kind;
    all.emplace_back(name, options);
    if (kind == FastmaxDropout::standard) continue;
    options.dropout_normaliser = FastmaxNormaliser::shared;
    all.emplace_back(std::string(name) + ", shared", options);
  }
  return all;
}

}  // namespace

TEST_CASE("gpu: factorised fastmax over several chunks") {
  if (!has_gpu("factorised fastmax on the GPU")) return;
  for (const Size& size : {Size{1100, 1100, 20}, {300, 300, 70}, {40, 331, 33}, {331, 40, 8}}) {
    for (const bool causal : {false, true}) {
      for (const auto& [dtype, allowed] : kPrecisions) {
        const auto compare = [&, dtype = dtype, allowed = allowed](const std::string& what, FastmaxOptions options,
                                                                   bool padded = false) {
          agree(what, 20 * allowed, [&](Device device) {
            if (padded) options.padding_mask = padding(size.keys, device);
            return with_gradients(heads(size, dtype, device), [&](auto& in) { return attend(in, options); });
          });
        };
        compare("order 2", {.scale = FastmaxScale::sqrt, .causal = causal});
        compare("order 1, padding", {.order = 1, .causal = causal}, true);
        compare("padding", {.scale = FastmaxScale::sqrt, .causal = causal}, true);
      }
    }
  }
}

TEST_CASE("gpu: factorised fastmax drops what the CPU drops") {
  if (!has_gpu("dropout of fastmax on the GPU")) return;
  for (const Size& size : {Size{200, 200, 12}, {70, 150, 35}, {150, 70, 9}}) {
    for (const bool causal : {false, true}) {
      for (const auto& [dtype, allowed] : kPrecisions) {
        for (const auto& [what, options] : dropouts(causal)) {
          agree(what, 20 * allowed, [&, dtype = dtype, &dropout = options](Device device) {
            return with_gradients(heads(size, dtype, device), [&](auto& in) { return attend(in, dropout); });
          });
        }
      }
    }
  }
}

TEST_CASE("gpu: factorised fastmax gives the same bits each time, and the same to a prefix whatever comes behind") {
  if (!has_gpu("the bits of fastmax on the GPU")) return;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const auto& [what, options] : dropouts(true)) {
      CAPTURE(what);
      const Inputs in = heads({200, 200, 12}, dtype, Device::cuda);
      const auto results = [&, &chosen = options] {
        return with_gradients({in[0].detach(), in[1].detach(), in[2].detach()},
                              [&](auto& given) { return attend(given, chosen); });
      };
      const Inputs first = results(), second = results();
      for (size_t r = 0; r < first.size(); ++r) CHECK(first[r].to_vector<double>() == second[r].to_vector<double>());

      Inputs changed = heads({200, 200, 12}, dtype, Device::cpu);
      for (Tensor& x : changed) {
        x = x.contiguous().clone();
        x.narrow(2, 137, 63).fill_(std::numeric_limits<double>::infinity());
        x = x.to(Device::cuda);
      }
      const Tensor prefix = attend(changed, options).narrow(2, 0, 137), expected = first[0].narrow(2, 0, 137);
      CHECK(prefix.to_vector<double>() == expected.to_vector<double>());
    }
  }
}

TEST_CASE("gpu: what a query of fastmax holds that sees no key changes no bit") {
  if (!has_gpu("queries of fastmax without keys on the GPU")) return;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const FastmaxForm form : {FastmaxForm::factorised, FastmaxForm::quadratic}) {
    for (const int order : {1, 2}) {
      // Results without the queries [0, count) of a sequence: once with these queries, and once with NaN in their
      // place.
      const auto compare = [&](const Inputs& in, int64_t sequence, int64_t count, const Tensor& padding_mask) {
        Inputs changed = in;
        changed[0] = in[0].clone();
        changed[0].narrow(0, sequence, 1).narrow(2, 0, count).fill_(nan);
        const auto results = [&](const Inputs& given) {
          std::vector<Tensor> there;
          for (const Tensor& x : given) there.push_back(x.to(Device::cuda).detach());
          FastmaxOptions options{.order = order, .causal = true, .form = form};
          if (padding_mask.defined()) options.padding_mask = padding_mask.to(Device::cuda);
          return with_gradients(there, [&](auto& x) { return fastmax(x[0], x[1], x[2], options); });
        };
        const Inputs expected = results(in), actual = results(changed);
        for (size_t r = 0; r < expected.size(); ++r) {
          CHECK(actual[r].to_vector<double>() == expected[r].to_vector<double>());
        }
      };
      Tensor padding_mask = ones({2, 150}, DType::boolean);
      padding_mask.narrow(0, 0, 1).narrow(1, 0, 70).fill_(false);
      padding_mask.narrow(0, 1, 1).fill_(false);
      const Inputs in = heads({150, 150, 8}, DType::float64, Device::cpu);
      compare(in, 0, 70, padding_mask);
      compare(in, 1, 150, padding_mask);
      const Inputs longer = heads({150, 70, 8}, DType::float64, Device::cpu);
      compare(longer, 0, 80, {});
    }
  }
}

TEST_CASE("gpu: the form of fastmax is chosen by counts of operations") {
  if (!has_gpu("fastmax's choice on the GPU")) return;
  const auto chosen = [](int64_t tokens, int64_t width, bool causal) {
    const Tensor x = Tensor::empty({1, 1, tokens, width}, DType::float32, Device::cuda);
    return fastmax_form(x, x, true, causal);
  };
  for (const auto& [width, tokens] : {std::pair{16, 163}, {32, 579}, {64, 2179}, {128, 8451}}) {
    for (const bool causal : {false, true}) {
      CHECK(chosen((tokens - 3) * (causal ? 2 : 1), width, causal) == FastmaxForm::quadratic);
      CHECK(chosen((tokens + 3) * (causal ? 2 : 1), width, causal) == FastmaxForm::factorised);
    }
  }
}

}  // namespace linnet::test
