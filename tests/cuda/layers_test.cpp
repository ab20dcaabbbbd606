#include <algorithm>

#include <linnet/nn/optim/optim.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/fastmax/fastmax.h>
#include <linnet/ops/layers/batch_norm.h>
#include <linnet/ops/layers/convolution.h>
#include <linnet/ops/layers/loss.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/layers/pooling.h>
#include <linnet/ops/layers/recurrent.h>
#include <linnet/ops/layers/short_conv.h>

#include "tests/cuda/agreement.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Bool [batch, tokens]: every fifth token, and the whole of the last sequence, is padding.
Tensor padding(int64_t batch, int64_t tokens, Device device) {
  Tensor padding_mask = ones({batch, tokens}, DType::boolean);
  const auto kept = padding_mask.mutable_data<bool>();
  for (int64_t i = 0; i < batch * tokens; ++i) kept[i] = i % 5 != 3 && i < (batch - 1) * tokens;
  return padding_mask.to(device);
}

/// q [2, 2, queries, width], k and v [2, 2, keys, width]. k and v are transposed, as after a projection.
Inputs heads(int64_t queries, int64_t keys, int64_t width, DType dtype, Device device) {
  return {spread({2, 2, queries, width}, 1, dtype, device),
          spread({2, keys, 2, width}, 2, dtype, device).transpose(1, 2).detach(),
          spread({2, keys, 2, width}, 3, dtype, device).transpose(1, 2).detach()};
}

}  // namespace

TEST_CASE("gpu: normalisation of many rows and of wide ones") {
  if (!has_gpu("normalisation on the GPU")) return;
  for (const Shape& shape : {Shape{700, 33}, Shape{3, 3000}, Shape{20'000, 4}}) {
    for (const auto& [dtype, allowed] : kPrecisions) {
      const Shape width{shape[1]};
      agree("layer_norm", 2 * allowed, [&, dtype = dtype](Device device) {
        return with_gradients(
            {spread(shape, 1, dtype, device), spread(width, 2, dtype, device), spread(width, 3, dtype, device)},
            [](auto& in) { return layer_norm(in[0], in[1], in[2]); });
      });
      agree("rms_norm", 2 * allowed, [&, dtype = dtype](Device device) {
        return with_gradients({spread(shape, 1, dtype, device), spread(width, 2, dtype, device)},
                              [](auto& in) { return rms_norm(in[0], in[1]); });
      });
    }
  }
}

TEST_CASE("gpu: batch norm and group norm of many images, large ones, rows and groups of many channels") {
  if (!has_gpu("batch norm on the GPU")) return;
  struct Sizes {
    Shape x;
    int64_t num_groups;  // 0 for batch_norm
  };
  for (const Sizes& sizes :
       {Sizes{{700, 33}, 0}, Sizes{{40, 70, 2, 3}, 0}, Sizes{{33, 3, 9, 10}, 0}, Sizes{{2, 5, 40, 30}, 0},
        Sizes{{1, 1300, 4}, 0}, Sizes{{3, 200, 3}, 2}, Sizes{{5, 8, 6, 7}, 4}, Sizes{{9, 64}, 8}}) {
    for (const auto& [dtype, allowed] : kPrecisions) {
      const Shape channels{sizes.x[1]};
      for (const bool training : {true, false}) {
        agree("batch_norm or group_norm", 2 * allowed, [&, dtype = dtype](Device device) {
          return with_gradients({spread(sizes.x, 1, dtype, device), spread(channels, 2, dtype, device),
                                 spread(channels, 3, dtype, device)},
                                [&](auto& in) {
                                  if (sizes.num_groups > 0) return group_norm(in[0], sizes.num_groups, in[1], in[2]);
                                  const Tensor mean = spread(channels, 4, dtype, device);
                                  return batch_norm(in[0], mean, full(channels, 2, dtype, device), in[1], in[2],
                                                    training);
                                });
        });
      }
    }
  }
}

TEST_CASE("gpu: convolutions of many images, groups and several ranges of patches") {
  if (!has_gpu("convolutions on the GPU")) return;
  struct Sizes {
    Shape x, weight;
    Conv2dOptions options;
  };
  // The last has 5.2 million patches, more than are in memory at a time.
  for (const Sizes& sizes : {Sizes{{9, 6, 13, 17}, {10, 3, 3, 4}, {.stride = {2, 1}, .padding = {2, 1}, .groups = 2}},
                             Sizes{{3, 5, 30, 20}, {7, 5, 5, 3}, {.padding = "same", .dilation = {2, 3}}},
                             Sizes{{5, 16, 85, 85}, {2, 16, 3, 3}, {.padding = 1}}}) {
    agree("conv2d", 1e-5, [&](Device device) {
      return with_gradients(
          {spread(sizes.x, 1, DType::float32, device), spread(sizes.weight, 2, DType::float32, device),
           spread({sizes.weight[0]}, 3, DType::float32, device)},
          [&](auto& in) { return conv2d(in[0], in[1], in[2], sizes.options); });
    });
  }
  agree("max_pool2d", 1e-6, [&](Device device) {
    return with_gradients({spread({4, 5, 33, 47}, 1, DType::float32, device)},
                          [](auto& in) { return max_pool2d(in[0], 3, {.stride = 2, .padding = 1}); });
  });
}

TEST_CASE("gpu: recurrent layers over several blocks, in both directions, of sequences of different lengths") {
  if (!has_gpu("recurrent layers on the GPU")) return;
  constexpr int64_t kSteps = 7, kBatch = 9, kInput = 11, kWidth = 70;
  for (const auto& [dtype, allowed] : kPrecisions) {
    for (const bool reverse : {false, true}) {
      for (const bool padded : {false, true}) {
        const auto inputs = [&, dtype = dtype](Device device, int64_t gates) {
          return Inputs{spread({kSteps, kBatch, kInput}, 1, dtype, device),
                        spread({kBatch, kWidth}, 2, dtype, device),
                        spread({gates * kWidth, kInput}, 3, dtype, device),
                        spread({gates * kWidth, kWidth}, 4, dtype, device, -0.1, 0.1),
                        spread({gates * kWidth}, 5, dtype, device),
                        spread({gates * kWidth}, 6, dtype, device),
                        spread({kBatch, kWidth}, 7, dtype, device)};
        };
        RecurrentOptions options{.reverse = reverse};
        if (padded) options.lengths = tensor<int64_t>({7, 1, 3, 6, 2, 7, 5, 4, 1});
        agree("gru", 2 * allowed, [&](Device device) {
          return with_gradients(inputs(device, 3), [&](auto& in) {
            const GRUResult result = gru(in[0], in[1], in[2], in[3], in[4], in[5], options);
            return concat({result.output, result.h_n.unsqueeze(0), in[6].unsqueeze(0)}, 0);
          });
        });
        agree("lstm", 2 * allowed, [&](Device device) {
          return with_gradients(inputs(device, 4), [&](auto& in) {
            const LSTMResult result = lstm(in[0], in[1], in[6], in[2], in[3], in[4], in[5], options);
            return concat({result.output, result.h_n.unsqueeze(0), result.c_n.unsqueeze(0)}, 0);
          });
        });
      }
    }
  }
}

TEST_CASE("gpu: a constant row is 0 when it is normalised, and a large offset costs fastmax no digits") {
  if (!has_gpu("normalisation of rows with large means on the GPU")) return;
  for (const int64_t width : {16, 100, 3000}) {
    CAPTURE(width);
    const Tensor row = full({3, width}, 30.3).to(Device::cuda);
    const std::vector<float> y = layer_norm(row, {}, {}, 1e-12).to_vector<float>();
    CHECK(std::all_of(y.begin(), y.end(), [](float v) { return v == 0; }));
  }
  for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
    agree("fastmax", 1e-5, [&](Device device) {
      const auto moved = [&](int seed) { return spread({1, 2, 40, 20}, seed, DType::float32, device, 999, 1001); };
      return with_gradients({moved(1), moved(2), spread({1, 2, 40, 20}, 3, DType::float32, device)},
                            [&](auto& in) { return fastmax(in[0], in[1], in[2], {.form = form}); });
    });
  }
}

TEST_CASE("gpu: cross-entropy of few classes and of many") {
  if (!has_gpu("cross-entropy on the GPU")) return;
  for (const int64_t classes : {10, 65, 5000}) {
    for (const double centre : {0.0, 1e5}) {
      for (const auto& [dtype, allowed] : kPrecisions) {
        agree("cross_entropy", allowed, [&, dtype = dtype](Device device) {
          Generator generator(4);
          const Tensor targets = randint(0, classes, {50}, generator, DType::int64, device);
          return with_gradients({spread({50, classes}, 1, dtype, device, centre - 5, centre + 5)}, [&](auto& in) {
            return cross_entropy(in[0], targets, {.ignore_index = 7, .label_smoothing = 0.1});
          });
        });
      }
    }
  }
}

TEST_CASE("gpu: attention over several tiles of queries, keys and columns") {
  if (!has_gpu("attention on the GPU")) return;
  // Some widths consist of packs and some do not, and some need more than one pack a lane.
  for (const auto& [queries, keys, width] :
       {std::tuple{150, 150, 70}, {64, 64, 64}, {20, 131, 32}, {131, 20, 5}, {9, 12, 130}, {12, 9, 300}}) {
    for (const bool causal : {false, true}) {
      for (const auto& [dtype, allowed] : kPrecisions) {
        const auto inputs = [n = queries, m = keys, d = width, dtype = dtype](Device device) {
          return heads(n, m, d, dtype, device);
        };
        agree("softmax", 4 * allowed, [&](Device device) {
          return with_gradients(inputs(device),
                                [&](auto& in) { return softmax_attention(in[0], in[1], in[2], {.causal = causal}); });
        });
        agree("softmax with padding and dropout", 4 * allowed, [&, m = keys](Device device) {
          return with_gradients(inputs(device), [&](auto& in) {
            Generator generator(6);
            return softmax_attention(
                in[0], in[1], in[2],
                {.causal = causal, .padding_mask = padding(2, m, device), .dropout = 0.3, .generator = &generator});
          });
        });
        agree("fastmax with padding", 20 * allowed, [&, m = keys](Device device) {
          return with_gradients(inputs(device), [&](auto& in) {
            return fastmax(in[0], in[1], in[2],
                           {.scale = FastmaxScale::sqrt, .causal = causal, .padding_mask = padding(2, m, device)});
          });
        });
      }
    }
  }
}

TEST_CASE("gpu: what a query does not see is not read for it") {
  if (!has_gpu("infinities behind masks on the GPU")) return;
  for (const DType dtype : {DType::float32, DType::float64}) {
    std::vector<Tensor> in = heads(70, 70, 8, dtype, Device::cpu);
    const Tensor clean = softmax_attention(in[0], in[1], in[2], {.causal = true}).narrow(2, 0, 60);
    for (Tensor& input : in) input = input.clone();
    in[2].narrow(2, 60, 10).fill_(std::numeric_limits<double>::infinity());
    for (Tensor& input : in) input = input.to(Device::cuda);
    const Tensor seen = softmax_attention(in[0], in[1], in[2], {.causal = true}).narrow(2, 0, 60);
    CHECK(relative_error(seen, clean.to_vector<double>()) < 1e-5);
  }
}

TEST_CASE("gpu: additive pooling over several chunks") {
  if (!has_gpu("additive pooling on the GPU")) return;
  for (const auto& [tokens, width] : {std::pair{300, 40}, {64, 32}, {65, 7}, {1, 3}, {4200, 2}}) {
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        for (const auto& [dtype, allowed] : kPrecisions) {
          agree("attention_pool", 10 * allowed, [&, n = tokens, d = width, dtype = dtype](Device device) {
            return with_gradients(
                {spread({2, 3, n}, 1, dtype, device, -30, 30), spread({2, 3, n, d}, 2, dtype, device)},
                [&](auto& in) {
                  return attention_pool(in[0], in[1], {causal, padded ? padding(2, n, device) : Tensor()});
                });
          });
        }
      }
    }
  }
}

TEST_CASE("gpu: additive attention over several runs of tokens and heads of any width") {
  if (!has_gpu("additive attention on the GPU")) return;
  // Heads in one block and in several, rows that consist of packs or do not, widths larger than a warp.
  struct Size {
    int64_t heads, tokens, width;
  };
  for (const auto& [h, n, d] : {Size{16, 300, 16},
                                {3, 200, 12},
                                {2, 150, 32},
                                {9, 70, 100},
                                {1, 600, 1},
                                {5, 90, 7},
                                {2, 40, 128},
                                {2, 40, 130},
                                {3, 2, 8}}) {
    for (const Interaction interaction : {Interaction::product, Interaction::add}) {
      for (const bool shared : {false, true}) {
        for (const bool padded : {false, true}) {
          for (const auto& [dtype, allowed] : kPrecisions) {
            agree("additive attention", 10 * allowed, [&, h = h, n = n, d = d, dtype = dtype](Device device) {
              Inputs in{spread({2, n, h, d}, 1, dtype, device).transpose(1, 2).detach(),
                        spread({2, h, n, d}, 2, dtype, device), spread({h, d}, 4, dtype, device, -9, 9),
                        spread({h, d}, 5, dtype, device, -9, 9)};
              if (!shared) in.push_back(spread({2, n, h, d}, 3, dtype, device).transpose(1, 2).detach());
              return with_gradients(in, [&](auto& x) {
                Generator generator(6);
                return additive_attention({x[0], x[1], x[shared ? 0 : 4]}, {{x[2]}, {x[3]}},
                                          {.interaction = interaction,
                                           .padding_mask = padded ? padding(2, n, device) : Tensor(),
                                           .dropout = padded ? 0.3 : 0.0,
                                           .generator = &generator});
              });
            });
          }
        }
      }
    }
  }
}

TEST_CASE("gpu: what padding holds reaches no token of additive attention") {
  if (!has_gpu("infinities in the padding of additive attention on the GPU")) return;
  const auto results = [](double in_padding) {
    Inputs in{spread({2, 2, 70, 8}, 1, DType::float32, Device::cpu),
              spread({2, 2, 70, 8}, 2, DType::float32, Device::cpu)};
    for (Tensor& x : in) {
      for (int64_t i = 3; i < 70; i += 5) x.narrow(2, i, 1).fill_(in_padding);
    }
    const Tensor padding_mask = padding(3, 70, Device::cpu).narrow(0, 0, 2).to(Device::cuda);
    const Tensor w = spread({2, 8}, 3, DType::float32, Device::cuda), seen = padding_mask.reshape({2, 1, 70, 1});
    for (Tensor& x : in) x = x.to(Device::cuda).set_requires_grad();
    const Tensor u = additive_attention({in[0], in[1], in[0]}, {{w}, {w}}, {.padding_mask = padding_mask});
    const Tensor cotangent = seen.to(DType::float32).expand(u.shape());
    Inputs all = grad({u}, in, {.grad_outputs = {cotangent}});
    all.push_back(u.detach());
    for (Tensor& x : all) x = where(seen, x, zeros({1}, DType::float32, Device::cuda));
    return all;
  };
  const Inputs clean = results(0), dirty = results(std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < clean.size(); ++i) CHECK(clean[i].to_vector<double>() == dirty[i].to_vector<double>());
}

TEST_CASE("gpu: short convolutions of few taps and of many, over several runs and pieces") {
  if (!has_gpu("short convolutions on the GPU")) return;
  for (const auto& [tokens, taps] : {std::pair{150, 4}, {33, 1}, {47, 5}, {20, 11}, {2, 3}}) {
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        for (const auto& [dtype, allowed] : kPrecisions) {
          agree("short_conv", allowed, [&, n = tokens, w = taps, dtype = dtype](Device device) {
            return with_gradients({spread({3, n, 40}, 1, dtype, device), spread({40, w}, 2, dtype, device)},
                                  [&](auto& in) {
                                    const Tensor padding_mask = padded ? padding(3, n, device) : Tensor();
                                    return short_conv(in[0], in[1], {.causal = causal, .padding_mask = padding_mask});
                                  });
          });
        }
      }
    }
  }
}

TEST_CASE("gpu: neither padding nor, when causal, the future changes a bit of a short convolution") {
  if (!has_gpu("infinities beside a short convolution's tokens on the GPU")) return;
  const auto results = [](double hidden) {
    const Tensor padded = spread({3, 70, 5}, 1, DType::float32, Device::cpu).clone(), prefix = padded.clone();
    for (int64_t i = 3; i < 70; i += 5) padded.narrow(1, i, 1).fill_(hidden);
    prefix.narrow(1, 50, 20).fill_(hidden);
    const Tensor weight = spread({5, 6}, 2, DType::float32, Device::cuda),
                 padding_mask = padding(4, 70, Device::cuda);
    const ShortConvOptions options{.causal = true, .padding_mask = padding_mask.narrow(0, 0, 3)};
    Inputs all = with_gradients({padded.to(Device::cuda), weight},
                                [&](auto& in) { return short_conv(in[0], in[1], options); });
    all[0] = where(options.padding_mask.reshape({3, 70, 1}), all[0], zeros({1}, DType::float32, Device::cuda));
    all.push_back(short_conv(prefix.to(Device::cuda), weight, {.causal = true}).narrow(1, 0, 50));
    return all;
  };
  const Inputs clean = results(0), dirty = results(std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < clean.size(); ++i) CHECK(clean[i].to_vector<double>() == dirty[i].to_vector<double>());
}

TEST_CASE("gpu: a step over many parameters gives the bits of a step over each") {
  if (!has_gpu("an optimizer's many parameters on the GPU")) return;
  const auto make = [] {
    Inputs parameters;
    for (int64_t i = 0; i < 150; ++i) {
      const DType dtype = i % 3 == 0 ? DType::float64 : DType::float32;
      const auto seed = static_cast<uint64_t>(i);
      const Shape shape{i % 7 == 0 ? 2500 + i : i % 7};
      parameters.push_back(spread(shape, seed, dtype, Device::cuda).set_requires_grad());
      parameters.back().set_grad(spread(shape, seed + 1000, dtype, Device::cuda));
    }
    return parameters;
  };
  const Inputs together = make(), apart = make();
  nn::AdamW all(together, {.lr = 0.1, .weight_decay = 0.2});
  for (int step = 0; step < 2; ++step) all.step();
  for (size_t i = 0; i < apart.size(); ++i) {
    CAPTURE(i);
    nn::AdamW one(Inputs{apart[i]}, {.lr = 0.1, .weight_decay = 0.2});
    for (int step = 0; step < 2; ++step) one.step();
    CHECK(together[i].to_vector<double>() == apart[i].to_vector<double>());
  }
}

TEST_CASE("gpu: the norm of many gradients together") {
  if (!has_gpu("the gradients' norm on the GPU")) return;
  const auto clipped = [](Device device, double size) {
    Inputs parameters, results;
    for (int64_t i = 0; i < 400; ++i) {
      const DType dtype = i % 3 == 0 ? DType::float64 : DType::float32;
      const Shape shape{i % 50 == 7 ? 40'000 + i : i % 5, 3};
      parameters.push_back(zeros(shape, dtype, device).set_requires_grad());
      parameters.back().set_grad(spread(shape, static_cast<uint64_t>(i), dtype, device, -size, size));
    }
    results.push_back(nn::clip_grad_norm_(parameters, 1));
    for (const Tensor& parameter : parameters) results.push_back(parameter.grad());
    return results;
  };
  for (const double size : {1.0, 1e20}) {
    agree("clip_grad_norm_", 1e-6, [&](Device device) { return clipped(device, size); });
  }
  CHECK(clipped(Device::cuda, 1)[0].item<double>() == clipped(Device::cuda, 1)[0].item<double>());
}

TEST_CASE("gpu: optimizers") {
  if (!has_gpu("optimizers on the GPU")) return;
  const auto trained = [](auto&& make, DType dtype, Device device) {
    Tensor weight = spread({33, 31}, 1, dtype, device).set_requires_grad();
    auto optimizer = make(Inputs{weight});
    for (uint64_t step = 0; step < 3; ++step) {
      weight.set_grad(spread({33, 31}, 2 + step, dtype, device));
      optimizer.step({.grad_factor = step == 1 ? full({}, 0.7, DType::float32, device) : Tensor()});
    }
    return Inputs{weight.detach()};
  };
  for (const auto& [dtype, allowed] : kPrecisions) {
    agree("AdamW", allowed, [&, dtype = dtype](Device device) {
      return trained([](const Inputs& p) { return nn::AdamW(p); }, dtype, device);
    });
    agree("SGD", allowed, [&, dtype = dtype](Device device) {
      return trained([](const Inputs& p) { return nn::SGD(p, {.lr = 0.1}); }, dtype, device);
    });
    agree("SGD with momentum", allowed, [&, dtype = dtype](Device device) {
      return trained([](const Inputs& p) { return nn::SGD(p, {.lr = 0.1, .momentum = 0.9, .nesterov = true}); },
                     dtype, device);
    });
  }
}

}  // namespace linnet::test
