#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <linnet/core/autograd/recording.h>
#include <linnet/nn/attention/attention.h>
#include <linnet/nn/recurrent/recurrent.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/vision.h>
#include <linnet/ops/attention/pooled_attention.h>
#include <linnet/ops/layers/pooling.h>

#include "tests/cuda/agreement.h"

/// Ops and modules that make indices or lengths of their own, which a recording must not check.

namespace linnet::test {
namespace {

/// Modules on the GPU.
struct RecordedModules : nn::Module {
  explicit RecordedModules(Generator& rng) : Module(rng, DType::float32, Device::cuda) {}

  nn::GRU gru{*this, "gru", 2, 3, {.num_layers = 2, .bidirectional = true}};
  nn::LSTM lstm{*this, "lstm", 2, 3, {.batch_first = true}};
  std::unique_ptr<nn::Attention> fastmax =
      nn::make_attention(*this, "fastmax", {.mechanism = "fastmax2", .width = 8, .heads = 2, .causal = true});
};

}  // namespace

TEST_CASE("gpu: recorded ops that make indices and lengths of their own") {
  if (!has_gpu("recorded ops that make indices and lengths of their own")) return;
  Generator rng(1);
  const RecordedModules modules(rng);
  using Function = std::function<Tensor(const Tensor& x, const Tensor& padding_mask)>;  // [48], [4, 6]
  const std::vector<std::pair<std::string, Function>> cases = {
      {"max_pool2d", [](const Tensor& x, auto&) { return max_pool2d(x.reshape({1, 2, 4, 6}), 3, {.stride = 2}); }},
      {"max_pool1d", [](const Tensor& x, auto&) { return max_pool1d(x.reshape({2, 4, 6}), 3, {.stride = 1}); }},
      {"pad", [](const Tensor& x, auto&) { return pad(x.reshape({8, 6}), {2, 1, 3, 0}, PadMode::reflect); }},
      {"interpolate", [](const Tensor& x, auto&) { return interpolate(x.reshape({2, 4, 6}), {.size = {9}}); }},
      {"pooled_attention_weights",
       [](const Tensor& x, auto&) {
         const Tensor heads = x.reshape({1, 2, 12, 2});
         const TokenPooling mean{.kind = TokenPooling::Kind::mean, .kernel = 3, .stride = 2};
         return pooled_attention_weights(heads, heads, heads, {.keys = mean, .values = mean, .window = 6});
       }},
      {"fastmax2, step by step",
       [&](const Tensor& x, auto&) {
         const auto state = modules.fastmax->start();
         modules.fastmax->step(*state, x.reshape({6, 8}));
         return modules.fastmax->step(*state, x.reshape({6, 8}) * 2);
       }},
      {"GRU",
       [&](const Tensor& x, const Tensor& padding_mask) {
         return modules.gru(x.reshape({6, 4, 2}), {.padding_mask = padding_mask}).output;
       }},
      {"LSTM",
       [&](const Tensor& x, const Tensor& padding_mask) {
         return modules.lstm(x.reshape({4, 6, 2}), {.padding_mask = padding_mask}).output;
       }},
  };
  for (const auto& [name, function] : cases) {
    CAPTURE(name);
    const auto run = [&, &f = function](const std::vector<Tensor>& in) {
      const Tensor x = in[0].detach().set_requires_grad(), y = f(x, in[1]);
      return std::vector{y.detach(), grad({square(y).sum()}, {x})[0]};
    };
    Recording recording(Device::cuda, nullptr, run);
    for (int64_t call = 1; call < 4; ++call) {
      const Tensor x = spread({48}, static_cast<uint64_t>(call), DType::float32, Device::cpu);
      const Tensor lengths = tensor<int64_t>({6, call, 1, 2}).unsqueeze(1), mask = lt(arange(6), lengths);
      const std::vector<Tensor> expected = run({x.to(Device::cuda), mask.to(Device::cuda)}),
                                actual = recording({x, mask});
      for (size_t i = 0; i < expected.size(); ++i) {
        CHECK(actual[i].to_vector<float>() == expected[i].to_vector<float>());
      }
    }
  }
}

}  // namespace linnet::test
