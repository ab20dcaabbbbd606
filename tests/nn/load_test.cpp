#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <any>
#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/threads.h"

/// Much work in one process. With LINNET_LOAD set, as much as in the longest runs.

namespace linnet::test {
namespace {

bool whole() { return std::getenv("LINNET_LOAD") != nullptr; }

/// A small language model with a given mechanism, in training.
class Training {
 public:
  Training(const std::string& mechanism, uint64_t seed)
      : rng_(seed),
        model_(rng_, {.vocabulary = 7,
                      .context = 8,
                      .layers = 1,
                      .block = {.attention = {.mechanism = mechanism, .width = 16, .heads = 2}, .dropout = 0.1}}),
        optimizer_(model_.parameters(), {.lr = 1e-3}) {
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<int64_t>(i * i + i / 5) % 7;
  }

  double step() {
    const auto [inputs, targets] = nn::random_windows(text_, 4, 8, {3, step_++});
    const Tensor loss = cross_entropy(model_(inputs), targets);
    backward(loss);
    nn::clip_grad_norm_(model_.parameters(), 1);
    optimizer_.step();
    optimizer_.zero_grad();
    return loss.item<double>();
  }

  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const Tensor& parameter : model_.parameters()) {
      const std::vector<double> values = parameter.to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  std::vector<int64_t> text_ = std::vector<int64_t>(500);
  Generator rng_;
  nn::DecoderLM model_;
  nn::AdamW optimizer_;
  uint64_t step_ = 0;
};

/// Median seconds of processor time, in all threads, of this many steps.
double median_step(Training& training, int64_t steps) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  std::vector<double> seconds(static_cast<size_t>(steps));
  for (double& each : seconds) {
    const double begin = now();
    training.step();
    each = now() - begin;
  }
  const auto middle = seconds.begin() + steps / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

/// Of this process.
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct BothPasses {
  Tensor y;
  double peak;  ///< peak memory without the model and x, in tensors of the size of x
};

BothPasses both_passes(const AttentionModel& model, const Tensor& x) {
  release_cached_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  const Tensor y = (*model.attention)(x);
  backward(mean(square(y)));
  const int64_t bytes = x.numel() * size_of(x.dtype());
  return {y, static_cast<double>(memory_stats().peak - before) / static_cast<double>(bytes)};
}

}  // namespace

TEST_CASE("load: sixteen models that train in sixteen threads come to the bits of each alone") {
  constexpr size_t kModels = 16;
  constexpr int kSteps = 30;
  const std::vector<std::string> mechanisms = nn::causal_mechanisms();
  const auto train = [&](size_t i) {
    Training training(mechanisms[i % mechanisms.size()], i);
    for (int step = 0; step < kSteps; ++step) training.step();
    return training.numbers();
  };
  for (const int pool : {1, 3}) {
    CAPTURE(pool);
    const WithThreads with(pool);
    std::array<std::vector<double>, kModels> together;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kModels; ++i) threads.emplace_back([&, i] { together[i] = train(i); });
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < kModels; ++i) {
      CAPTURE(i);
      CHECK(together[i] == train(i));
    }
  }
}

TEST_CASE("load: small steps take no more memory as they go on, nor, in long.sh, more time") {
  const int64_t steps = whole() ? 200'000 : 2'000, tenth = steps / 10;
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    Training training(mechanism, 1);
    const double first = training.step();
    for (int64_t step = 1; step < tenth; ++step) training.step();
    const MemoryStats before = memory_stats();
    const int64_t resident = resident_bytes(), nodes = live_tape_nodes();
    const double early = median_step(training, tenth);
    for (int64_t step = 2 * tenth; step < steps - tenth; ++step) training.step();
    const double late = median_step(training, tenth);
    const MemoryStats after = memory_stats();
    CHECK(training.step() < 0.9 * first);
    if (whole()) CHECK(late < 1.1 * early);
    CHECK(after.live == before.live);
    CHECK(after.cached == before.cached);
    CHECK(live_tape_nodes() == nodes);
    CHECK(resident_bytes() - resident < int64_t{1} << 20);
  }
}

TEST_CASE("load: long sequences through each linear mechanism, both passes, in linear memory and with their digits") {
  const int64_t tokens = whole() ? 1'000'000 : 100'000;
  constexpr int64_t kWidth = 8;
  for (const std::string mechanism : {"fastmax1", "fastmax2", "fastformer", "linear", "performer"}) {
    for (const bool causal : {false, true}) {
      CAPTURE(mechanism);
      CAPTURE(causal);
      const nn::AttentionConfig config{.mechanism = mechanism, .width = kWidth, .heads = 2, .causal = causal};
      Generator rng(5);
      const AttentionModel model(rng, config, DType::float32);
      const Tensor x = randn({1, tokens, kWidth}, rng);
      const auto [y, peak] = both_passes(model, x);
      CHECK(peak < 24);

      AttentionModel exact(rng, config, DType::float64);
      TensorMap weights = model.state();
      for (auto& [name, tensor] : weights) tensor = tensor.to(DType::float64);
      exact.load_state(weights);
      const Tensor expected = (*exact.attention)(x.to(DType::float64));
      backward(mean(square(expected)));
      const auto relative_error = [](const Tensor& a, const Tensor& b) {
        return norm(a.to(DType::float64) - b).item() / norm(b).item();
      };
      CHECK(relative_error(y.detach(), expected.detach()) < 1e-6);
      const std::vector<Tensor> single = model.parameters(), wide = exact.parameters();
      for (size_t i = 0; i < single.size(); ++i) CHECK(relative_error(single[i].grad(), wide[i].grad()) < 1e-4);
    }
  }
}

TEST_CASE("load: long sequences through windows, blocks, pools, slots and hashes, both passes, in linear memory") {
  const int64_t tokens = whole() ? 1'000'000 : 10'000;
  constexpr int64_t kWidth = 8;
  struct Case {
    std::string mechanism;
    std::any options;
    bool causal;
  };
  for (const auto& [mechanism, options, causal] :
       {Case{"longformer", nn::LongformerConfig{.window = 64}, false},
        {"longformer", nn::LongformerConfig{.window = 64}, true},
        {"bigbird", nn::BigBirdConfig{}, false},
        {"poolingformer", nn::PoolingformerConfig{.window = 64, .window2 = 128}, false},
        {"poolingformer", nn::PoolingformerConfig{.window = 64, .window2 = 128}, true},
        {"linformer", nn::LinformerConfig{.rank = 16}, false},
        {"reformer", nn::ReformerConfig{.hashes = 2}, false},
        {"reformer", nn::ReformerConfig{.hashes = 2}, true}}) {
    CAPTURE(mechanism);
    CAPTURE(causal);
    Generator rng(5);
    const AttentionModel model(rng,
                               {.mechanism = mechanism,
                                .width = kWidth,
                                .heads = 2,
                                .causal = causal,
                                .max_tokens = tokens,
                                .options = options},
                               DType::float32);
    const Tensor x = randn({1, tokens, kWidth}, rng);
    const auto [y, peak] = both_passes(model, x);
    CHECK(peak < (mechanism == "reformer" ? 32 : 20));
    CHECK(all(isfinite(y)).item<bool>());
    for (const Tensor& parameter : model.parameters()) CHECK(all(isfinite(parameter.grad())).item<bool>());
  }
}

}  // namespace linnet::test
