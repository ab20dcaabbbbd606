#include <limits>
#include <string>

#include <fmt/format.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/attention/informer_attention.h>
#include <linnet/ops/attention/linear_attention.h>
#include <linnet/ops/attention/linformer_attention.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/fastmax/fastmax.h>

#include "tests/cuda/bfloat16.h"

/// Attention of bfloat16.

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

// The error of sums in which weights nearly cancel, as when features are dropped and a row sees few keys. Inputs that
// differ by kRounding change float32's results and gradients by up to 0.017.
constexpr double kCancelling = 2 * kRoundings;

/// Tests the attention kernels for heads [B, H, N, width], with their kinds of dropout.
std::vector<std::pair<std::string, Moves>> attentions(bool causal, double rate = 0) {
  const auto fastmax_of = [=](FastmaxForm form, FastmaxDropout dropout) {
    return [=](const Inputs& in) {
      Generator generator(6);
      return fastmax(
          in[0], in[1], in[2],
          {.causal = causal, .form = form, .dropout = rate, .dropout_kind = dropout, .generator = &generator});
    };
  };
  const auto linear_of = [=](FastmaxForm form) {
    return [=](const Inputs& in) {
      Generator generator(6);
      return linear_attention(in[0], in[1], in[2],
                              {.causal = causal, .form = form, .dropout = rate, .generator = &generator});
    };
  };
  std::vector<std::pair<std::string, Moves>> all = {
      {"quadratic linear", linear_of(FastmaxForm::quadratic)},
      {"factorised linear", linear_of(FastmaxForm::factorised)},
      {"softmax",
       [=](const Inputs& in) {
         Generator generator(6);
         return softmax_attention(in[0], in[1], in[2], {.causal = causal, .dropout = rate, .generator = &generator});
       }},
      {"quadratic fastmax", fastmax_of(FastmaxForm::quadratic, FastmaxDropout::token)},
      {"factorised fastmax", fastmax_of(FastmaxForm::factorised, FastmaxDropout::token)}};
  if (rate > 0) {
    all.push_back({"features dropped", fastmax_of(FastmaxForm::factorised, FastmaxDropout::quadratic)});
    all.push_back({"columns dropped", fastmax_of(FastmaxForm::factorised, FastmaxDropout::standard)});
  }
  return all;
}

/// Additive attention of queries, keys and values, or of two tensors, the first of which is both queries and values.
Tensor additive(const Inputs& in, bool causal, double rate = 0) {
  const Tensor& q = in[0];
  const Tensor w = uniform({q.size(1), q.size(3)}, 5).to(DType::float32).to(q.device());
  Generator generator(6);
  return additive_attention({q, in[1], in.size() > 2 ? in[2] : q}, {{w}, {w}},
                            {.causal = causal, .dropout = rate, .generator = &generator});
}

}  // namespace

TEST_CASE("gpu: attention of bfloat16 is float32's to rounding, and so are its gradients") {
  if (!has_gpu("attention of bfloat16 on the GPU")) return;
  const auto padding_mask = [](Device device) { return lt(ids({2, 70}, 4, device), 3); };
  const auto agree_at = [](const char* what, int64_t width, const Moves& attend, double allowed = kRoundings) {
    agree_in_bfloat16(what + std::string(" ") + std::to_string(width), allowed,
                      std::vector<Shape>(3, {2, 3, 70, width}), attend);
  };
  for (const bool causal : {false, true}) {
    for (const int64_t width : {6, 32, 64, 80}) {  // with and without gaps after a row, and wider than a warp's rows
      agree_at("softmax", width, [&](auto& in) {
        return softmax_attention(in[0], in[1], in[2],
                                 {.causal = causal, .padding_mask = padding_mask(in[0].device())});
      });
    }
    for (const auto& [form, width] : {std::pair{FastmaxForm::quadratic, 8},
                                      {FastmaxForm::quadratic, 64},
                                      {FastmaxForm::factorised, 8},
                                      {FastmaxForm::reference, 8}}) {
      for (const int order : {1, 2}) {
        agree_at("fastmax", width, [&, form = form](auto& in) {
          FastmaxOptions options{
              .order = order, .causal = causal, .padding_mask = padding_mask(in[0].device()), .form = form};
          return fastmax(in[0], in[1], in[2], options);
        });
      }
      // The weights are nearly equal, so gradients of queries are differences of nearly equal means.
      const auto linear = [&, form = form](auto& in) {
        return linear_attention(in[0], in[1], in[2],
                                {.causal = causal, .padding_mask = padding_mask(in[0].device()), .form = form});
      };
      agree_at("linear", width, linear, kCancelling);
    }
    const auto additive = [&](int64_t width, int64_t weights, Interaction interaction) {
      agree_at("additive", width, [&](auto& in) {
        const Device device = in[0].device();
        const auto stage = [&](uint64_t seed) {
          return AdditiveStage{uniform({3, weights}, seed).to(DType::float32).to(device)};
        };
        return additive_attention(
            in, {stage(5), stage(6)},
            {.interaction = interaction, .causal = causal, .padding_mask = padding_mask(device)});
      });
    };
    for (const int64_t width : {6, 8, 136}) {  // columns in packs or not, and too many for a warp
      additive(width, width, Interaction::product);
    }
    additive(8, 8, Interaction::add);
    additive(8, 24, Interaction::product);  // composed of ops, with a full weight matrix
  }
}

TEST_CASE("gpu: attention of bfloat16 to slots, and of chosen queries, is float32's to rounding") {
  if (!has_gpu("linformer's and informer's attention of bfloat16 on the GPU")) return;
  const auto padding_mask = [](Device device) { return lt(ids({2, 70}, 4, device), 3); };
  for (const int64_t width : {8, 40}) {
    const std::vector<Shape> shapes(3, {2, 3, 70, width});
    for (const bool padded : {false, true}) {
      const auto mask = [&, padded](Device device) { return padded ? padding_mask(device) : Tensor(); };
      agree_in_bfloat16("linformer", kCancelling, shapes, [&](auto& in) {
        const Device device = in[0].device();
        const auto projection = [&](uint64_t seed) { return uniform({16, 80}, seed).to(DType::float32).to(device); };
        return linformer_attention(in[0], in[1], in[2], projection(5), projection(6), {.padding_mask = mask(device)});
      });
      agree_in_bfloat16("informer", kCancelling, shapes, [&](auto& in) {
        Generator generator(6);
        return informer_attention(in[0], in[1], in[2],
                                  {.queries = 12, .padding_mask = mask(in[0].device()), .generator = &generator});
      });
    }
  }
}

TEST_CASE("gpu: factorised fastmax of bfloat16 over several chunks") {
  if (!has_gpu("chunks of fastmax of bfloat16 on the GPU")) return;
  struct Size {
    int order;
    int64_t queries, keys, width;
  };
  // The queries' offset among the keys is a whole number of tiles or not; queries before the first key; fewer than a
  // chunk.
  for (const Size& size : {Size{1, 400, 400, 8},
                           {1, 150, 471, 20},
                           {1, 471, 150, 32},
                           {1, 330, 394, 40},
                           {1, 40, 331, 64},
                           {2, 1100, 1100, 20},
                           {2, 1100, 1100, 40}}) {
    const auto padding_mask = [&](Device device) { return lt(ids({2, size.keys}, 4, device), 3); };
    const auto attend = [&](bool padded) {
      return [&, padded](const Inputs& in) {
        FastmaxOptions options{.order = size.order, .causal = true, .form = FastmaxForm::factorised};
        if (padded) options.padding_mask = padding_mask(in[0].device());
        // Not centred at 0, so that products of different entries do not cancel.
        const Tensor middle = held({size.width}, 9, in[0].device());
        return fastmax(in[0] + middle, in[1] + middle, in[2], options);
      };
    };
    const Shape q{2, 1, size.queries, size.width}, k{2, 1, size.keys, size.width};
    agree_in_bfloat16(fmt::format("{} {} {}", size.queries, size.keys, size.width), kCancelling, {q, k, k},
                      attend(false));
    agree_in_bfloat16(fmt::format("{} {} {}, padding", size.queries, size.keys, size.width), kCancelling, {q, k, k},
                      attend(true));
  }
}

TEST_CASE("gpu: attention of bfloat16 with fewer queries than keys, or more, and with dropout") {
  if (!has_gpu("attention of bfloat16 of two lengths on the GPU")) return;
  for (const bool causal : {false, true}) {
    for (const int64_t width : {8, 40}) {
      for (const double rate : {0.0, 0.3}) {
        for (const auto& [what, attend] : attentions(causal, rate)) {
          for (const auto& [queries, keys] : {std::pair{20, 131}, {131, 20}}) {
            const Shape q{2, 2, queries, width}, k{2, 2, keys, width};
            agree_in_bfloat16(what, kCancelling, {q, k, k}, attend);
          }
        }
      }
    }
    for (const size_t inputs : {2, 3}) {  // shared queries and values, or not
      agree_in_bfloat16("additive", kRoundings, std::vector<Shape>(inputs, {2, 2, 70, 8}),
                        [=](auto& in) { return additive(in, causal, 0.3); });
    }
  }
}

TEST_CASE("gpu: attention of bfloat16 takes rows that begin anywhere") {
  if (!has_gpu("parts of rows of bfloat16 on the GPU")) return;
  const auto parts = [](const Inputs& in) {  // of 17 columns, from the second on: no two can be loaded together
    return Inputs{in[0].narrow(-1, 1, 16), in[1].narrow(-1, 1, 16), in[2].narrow(-1, 1, 16)};
  };
  const std::vector<Shape> shapes(3, {2, 3, 70, 17});
  for (const bool causal : {false, true}) {
    for (const auto& [what, attend] : attentions(causal)) {
      agree_in_bfloat16(what, kCancelling, shapes, [&, &f = attend](auto& in) { return f(parts(in)); });
    }
    agree_in_bfloat16("additive", kRoundings, shapes, [&](auto& in) { return additive(parts(in), causal); });
  }
}

TEST_CASE("gpu: what a query of bfloat16 does not see is not read for it") {
  if (!has_gpu("infinities behind masks of bfloat16 on the GPU")) return;
  auto all = attentions(true);
  all.push_back({"additive", [](const Inputs& in) { return additive(in, true); }});
  for (const auto& [what, attend] : all) {
    CAPTURE(what);
    Inputs in;
    for (const uint64_t seed : {1, 2, 3}) in.push_back(held({2, 2, 70, 8}, seed, Device::cuda));
    const Tensor expected = attend(in).narrow(2, 0, 60);
    for (const Tensor& x : in) x.narrow(2, 60, 10).fill_(std::numeric_limits<double>::infinity());
    CHECK(attend(in).narrow(2, 0, 60).to_vector<float>() == expected.to_vector<float>());
  }
}

TEST_CASE("gpu: what a query of bfloat16 does not see is in no sum of chunks before it") {
  if (!has_gpu("infinities behind chunks of fastmax of bfloat16 on the GPU")) return;
  Inputs in;
  for (const uint64_t seed : {1, 2, 3}) in.push_back(held({2, 2, 400, 8}, seed, Device::cuda));
  const Tensor cotangent = held({2, 2, 400, 8}, 4, Device::cuda);
  const auto prefixes = [&] {  // prefixes of the outputs, and of the gradients of queries
    const Tensor q = in[0].detach().set_requires_grad();
    const FastmaxOptions options{.order = 1, .causal = true, .form = FastmaxForm::factorised};
    const Tensor o = fastmax(q, in[1], in[2], options), dq = grad({o}, {q}, {.grad_outputs = {cotangent}})[0];
    return std::pair(o.narrow(2, 0, 250).to_vector<float>(), dq.narrow(2, 0, 250).to_vector<float>());
  };
  const auto expected = prefixes();
  for (const Tensor& x : in) x.narrow(2, 250, 150).fill_(std::numeric_limits<double>::infinity());
  CHECK(prefixes() == expected);
}

TEST_CASE("gpu: one tensor of bfloat16 as queries, keys and values has the gradient of all three") {
  if (!has_gpu("shared tensors of bfloat16 on the GPU")) return;
  const Tensor x = held({2, 70, 3, 8}, 1, Device::cuda).set_requires_grad();
  const Tensor wide = x.detach().to(DType::float32).set_requires_grad();
  const Tensor w = uniform({3, 8}, 5).to(DType::float32).to(Device::cuda);
  const std::vector<Moves> attentions = {
      [](auto& in) { return softmax_attention(in[0], in[0], in[0]); },
      [](auto& in) { return fastmax(in[0], in[0], in[0]); },
      [](auto& in) { return linear_attention(in[0], in[0], in[0]); },
      [&](auto& in) { return additive_attention({in[0], in[0], in[0]}, {{w}, {w}}); },
  };
  for (const Moves& attend : attentions) {
    const Tensor o = attend({x.transpose(1, 2)}), expected = attend({wide.transpose(1, 2)});
    CHECK(o.transpose(1, 2).is_contiguous());  // as in float32, so that joining the heads needs no copy
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
