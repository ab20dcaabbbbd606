#include <linnet/core/device/kernel_access.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/fastformer/fastformer.h>

#include "tests/cuda/agreement.h"

/// Infinities and signs of zeros, which kernels must treat as the CPU's; layouts of indices; and calls of kernels
/// that core/device/backend.h allows and no op makes.

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Which pairs of tokens attention takes, and how, in a call of the kernel itself.
struct DirectCall {
  AttentionParams params = {};
  Tensor padding = {}, codes = {};
};

/// The result of the kernel of attention, and the gradients of its inputs.
Inputs attended(const DirectCall& call, DType dtype, Device device) {
  const Shape shape{2, 2, 70, 12};
  const auto heads = [&](uint64_t seed) { return spread(shape, seed, dtype, device); };
  const auto empty = [&] { return Tensor::empty(shape, dtype, device); };
  const Tensor q = heads(1), k = heads(2), v = heads(3), d_o = heads(4), o = empty();
  const Tensor denominator = Tensor::empty({2, 2, 70}, dtype, device), dq = empty(), dk = empty(), dv = empty();
  const auto on_device = [&](const Tensor& x) { return x.defined() ? x.to(device) : x; };
  const detail::OptionalView padding(on_device(call.padding)), codes(on_device(call.codes));
  const AttentionMask mask{.padding = padding.get(), .codes = codes.get()};
  using detail::view;
  backend(o).attention(view(o), view(denominator), view(q), view(k), view(v), mask, call.params);
  backend(o).attention_backward(view(dq), view(dk), view(dv), view(d_o), view(o), view(denominator), view(q), view(k),
                                view(v), mask, call.params);
  return {o, dq, dk, dv};
}

}  // namespace

TEST_CASE("gpu: a running product keeps the sign of a zero") {
  if (!has_gpu("running products of zeros on the GPU")) return;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Tensor& x : {tensor({1, -2, 0}), tensor({-1, 0, -3, -1}), tensor({-0.0, -1, 2})}) {
      agree("cumprod", 0, [&](Device device) { return Inputs{1 / cumprod(x.to(dtype).to(device), 0)}; });
    }
    agree("a long cumprod", 0, [&](Device device) {
      Tensor x = where(gt(spread({2, 700}, 1, dtype, Device::cpu), 0), ones({}, dtype), full({}, -1, dtype)).clone();
      x[{0, 100}] = 0;
      x[{1, 33}] = -0.0;
      return Inputs{1 / cumprod(x.to(device), 1)};
    });
  }
}

TEST_CASE("gpu: a query whose scores are all -inf has the result 0, and gradients of 0") {
  if (!has_gpu("scores of -inf on the GPU")) return;
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const bool causal : {false, true}) {
      Inputs in;
      for (const double value : {1e20, -1e20, 1.0}) in.push_back(full({1, 2, 70, 4}, value, dtype, Device::cuda));
      for (Tensor& each : in) each.set_requires_grad();
      const Tensor o = softmax_attention(in[0], in[1], in[2], {.causal = causal, .scale = 1});
      CHECK(eq(o, 0).all().item<bool>());
      for (const Tensor& gradient : grad({o.sum()}, in)) CHECK(eq(gradient, 0).all().item<bool>());
    }
  }
}

TEST_CASE("gpu: an infinity whose weight is too small for a number is NaN in attention pooling, wherever it is") {
  if (!has_gpu("infinities in attention pooling on the GPU")) return;
  for (const bool causal : {false, true}) {
    for (const int64_t infinite : {0, 3, 40, 69}) {
      for (const int64_t largest : {1, 35, 68}) {
        agree("attention_pool", 0, [&](Device device) {
          Tensor scores = zeros({1, 1, 70}), x = ones({1, 1, 70, 2});
          scores[{0, 0, largest}] = 200;
          x[{0, 0, infinite, 1}] = kInfinity;
          Inputs in{scores.to(device), x.to(device)};
          for (Tensor& each : in) each.set_requires_grad();
          const Tensor y = attention_pool(in[0], in[1], {.causal = causal});
          const Inputs gradients = grad({y.sum()}, in);
          return Inputs{isfinite(y), isfinite(gradients[0]), isfinite(gradients[1])};
        });
      }
    }
  }
}

TEST_CASE("gpu: adding and writing at indices that some dims share gives the CPU's bits") {
  if (!has_gpu("shared indices on the GPU")) return;
  const Shape shape{6, 50, 5, 7};
  for (const Shape& of_index :
       {Shape{6, 50, 5, 1}, Shape{1, 50, 5, 7}, Shape{6, 50, 1, 7}, Shape{1, 50, 5, 1}, Shape{1, 50, 1, 1}}) {
    agree("scatter_add, scatter", 0, [&](Device device) {
      Generator generator(8);
      const Tensor index = randint(0, 9, of_index, generator, DType::int64, device).expand(shape);
      const Tensor x = spread({6, 9, 5, 7}, 1, DType::float32, device),
                   src = spread(shape, 2, DType::float32, device);
      return Inputs{scatter_add(x, 1, index, src),
                    scatter_add(x, 1, index, src.permute({3, 1, 2, 0}).contiguous().permute({3, 1, 2, 0})),
                    scatter(x, 1, index, src)};
    });
  }
}

TEST_CASE("gpu: adding rows at indices that they share sorts the indices alone") {
  if (!has_gpu("memory of shared indices on the GPU")) return;
  const Tensor x = zeros({64, 4096}, DType::float32, Device::cuda),
               src = ones({64, 4096}, DType::float32, Device::cuda);
  const Tensor index = arange(64).reshape({64, 1}).to(Device::cuda).expand({64, 4096});
  scatter_add(x, 0, index, src);
  reset_peak_memory(Device::cuda);
  const int64_t before = memory_stats(Device::cuda).peak;
  const Tensor y = scatter_add(x, 0, index, src);
  const int64_t bytes = y.numel() * 4;
  CHECK(memory_stats(Device::cuda).peak - before < bytes + bytes / 4);
}

TEST_CASE(
    "gpu: attention with codes alone, with a self score that codes do not hide, and with a mask for each head") {
  if (!has_gpu("direct calls of attention on the GPU")) return;
  Generator generator(5);
  const Tensor codes = randint(0, 9, {2, 2, 2, 70}, generator).to(DType::int32);
  const Tensor mask = gt(spread({2, 2, 70}, 6, DType::float32, Device::cpu), -0.5);
  AttentionParams softmax{};
  softmax.kind.softmax = true;
  softmax.scale = 0.3;
  AttentionParams with_self = softmax;
  with_self.has_self_score = true;
  with_self.self_score = -2;
  AttentionParams fastmax{};
  fastmax.kind = {.softmax = false, .a0 = 1, .a1 = 1, .a2 = 0.5};
  fastmax.map = RowMap::standardise;
  fastmax.scale = 0.3;
  fastmax.tokens.keep_of_256 = 256;
  for (const auto& [dtype, allowed] : kPrecisions) {
    const auto check = [&, dtype = dtype, allowed = allowed](const char* what, const DirectCall& call) {
      agree(what, 4 * allowed, [&](Device device) { return attended(call, dtype, device); });
    };
    check("codes", {.params = softmax, .codes = codes});
    check("codes and a self score", {.params = with_self, .codes = codes});
    check("a mask for each head", {.params = fastmax, .padding = mask});
  }
}

}  // namespace linnet::test
