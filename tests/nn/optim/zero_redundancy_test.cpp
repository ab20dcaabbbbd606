/// ZeroRedundancyOptimizer: each rank keeps its part of the state, and no bit changes.

#include <linnet/nn/optim/zero_redundancy.h>

#include <doctest/doctest.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <linnet/linnet.h>

#include "tests/support/disk/file_calls.h"
#include "tests/support/files.h"
#include "tests/support/gpu.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::bytes_of;
using linnet::test::read_bytes;
using linnet::test::run_ranks;
using linnet::test::same_bits;
using linnet::test::TemporaryFolder;

namespace {

/// Layers of different sizes. One is frozen, one is trained only in some steps, and one is never used.
struct Layers : nn::Module {
  Layers(Generator& rng, Device device) : Module(rng, DType::float32, device) { frozen.freeze(); }
  nn::Linear frozen{*this, "frozen", 6, 9};
  nn::Linear fc1{*this, "fc1", 9, 7};
  nn::Linear fc2{*this, "fc2", 7, 3};
  nn::Linear sometimes{*this, "sometimes", 6, 3};
  nn::Linear never{*this, "never", 2, 2};

  Tensor operator()(const Tensor& x, bool uses_all) {
    Tensor y = fc2(gelu(fc1(frozen(x))));
    return uses_all ? y + sometimes(x) : y;
  }
};

using Make = std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>& parameters)>;

std::vector<Tensor> matrices_of(const std::vector<Tensor>& parameters) {
  return nn::decay_matrices_only(parameters, 0)[0].parameters;
}

/// All optimizers, with the options that give them the most state.
const std::vector<std::pair<std::string, Make>>& optimizers() {
  static const std::vector<std::pair<std::string, Make>> all{
      {"SGD", [](const auto& p) { return std::make_unique<nn::SGD>(p, nn::SgdConfig{.lr = 0.1}); }},
      {"SGD with momentum",
       [](const auto& p) {
         return std::make_unique<nn::SGD>(p, nn::SgdConfig{.lr = 0.1, .momentum = 0.9, .nesterov = true});
       }},
      {"Adam", [](const auto& p) { return std::make_unique<nn::Adam>(p, nn::AdamConfig{.weight_decay = 0.1}); }},
      {"AdamW",
       [](const auto& p) {
         return std::make_unique<nn::AdamW>(nn::decay_matrices_only(p, 0.1), nn::AdamWConfig{.lr = 0.05});
       }},
      {"RMSprop",
       [](const auto& p) {
         return std::make_unique<nn::RMSprop>(p, nn::RmsPropConfig{.momentum = 0.9, .centered = true});
       }},
      {"Lion", [](const auto& p) { return std::make_unique<nn::Lion>(p, nn::LionConfig{.weight_decay = 0.1}); }},
      {"Muon", [](const auto& p) { return std::make_unique<nn::Muon>(matrices_of(p)); }},
  };
  return all;
}

/// A rank in training. All ranks compute the gradients of all data, so that any number of ranks can be tested.
struct Training {
  Training(ProcessGroup& group, const Make& make, const std::filesystem::path& path, uint64_t seed = 3,
           Device device = Device::cpu)
      : rng(seed),
        model(rng, device),
        optimizer(make(model.parameters())),
        divided(group, *optimizer),
        checkpoint(path) {
    checkpoint.add("model", model).add("optimizer", divided).add("step", step);
  }

  void backward() {
    Generator draws(static_cast<uint64_t>(100 + step));
    const Tensor x = randn({8, 6}, draws), targets = randint(0, 3, {8}, draws);
    const Device device = model.device();
    linnet::backward(cross_entropy(model(x.to(device), step % 2 == 1), targets.to(device)));
  }
  /// Trains as the trainers do: with a rate for each step, and gradients clipped by their norm.
  void run(int64_t steps) {
    for (; step < steps; ++step) {
      optimizer->set_lr(0.02 / static_cast<double>(1 + step));
      backward();
      const Tensor norm = nn::grad_norm(model.parameters());
      divided.step({.grad_factor = nn::clip_factor(norm, 0.5), .apply = lt(norm, INFINITY)});
      for (Tensor parameter : model.parameters()) parameter.set_grad({});
    }
  }
  std::vector<Tensor> weights() const {
    std::vector<Tensor> result;
    for (const Tensor& parameter : model.parameters()) result.push_back(parameter.detach().clone());
    return result;
  }

  Generator rng;
  Layers model;
  std::unique_ptr<nn::Optimizer> optimizer;
  nn::ZeroRedundancyOptimizer divided;
  int64_t step = 0;
  nn::Checkpoint checkpoint;
};

/// The same without ranks, with the plain optimizer. Writes checkpoints of steps 3 and 6, and returns the weights
/// then.
std::vector<Tensor> train_alone(const Make& make, const TemporaryFolder& folder) {
  ProcessGroup group;
  Training alone(group, make, folder / "unused");
  for (const int64_t steps : {3, 6}) {
    for (; alone.step < steps; ++alone.step) {
      alone.optimizer->set_lr(0.02 / static_cast<double>(1 + alone.step));
      alone.backward();
      const Tensor norm = nn::grad_norm(alone.model.parameters());
      alone.optimizer->step({.grad_factor = nn::clip_factor(norm, 0.5)});
      for (Tensor parameter : alone.model.parameters()) parameter.set_grad({});
    }
    nn::Checkpoint checkpoint(folder / (std::to_string(steps) + "-alone"));
    checkpoint.add("model", alone.model).add("optimizer", *alone.optimizer).add("step", alone.step).save();
  }
  return alone.weights();
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("ZeroRedundancyOptimizer: any number of ranks has the bits and the checkpoint of the optimizer alone") {
  for (const auto& named : optimizers()) {
    CAPTURE(named.first);
    const auto& make = named.second;
    const TemporaryFolder folder;
    const std::vector<Tensor> expected = train_alone(make, folder);
    for (const int ranks : {1, 2, 3, 4, 16}) {
      CAPTURE(ranks);
      std::vector<std::vector<Tensor>> weights(static_cast<size_t>(ranks));
      run_ranks(ranks, [&](ProcessGroup& group) {
        Training training(group, make, folder / "6");
        training.run(6);
        training.checkpoint.save(group);
        weights[static_cast<size_t>(group.rank())] = training.weights();
      });
      for (const std::vector<Tensor>& of_rank : weights) test::check_same_bits(of_rank, expected);
      CHECK(read_bytes(folder / "6") == read_bytes(folder / "6-alone"));
    }
  }
}

TEST_CASE("gpu: ZeroRedundancyOptimizer: ranks with GPUs have the bits and the checkpoint of one") {
  if (!test::has_gpu("ZeroRedundancyOptimizer on the GPU")) return;
  const auto& make = optimizers()[3].second;
  const TemporaryFolder folder;
  std::vector<Tensor> expected;
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    run_ranks(ranks, [&](ProcessGroup& group) {
      Training training(group, make, folder / std::to_string(ranks), 3, Device::cuda);
      training.run(3);
      training.checkpoint.save(group);
      if (ranks == 1) expected = training.weights();
      const std::vector<Tensor> weights = training.weights();
      for (size_t i = 0; i < weights.size(); ++i)
        REQUIRE(same_bits(weights[i].to(Device::cpu), expected[i].to(Device::cpu)));
    });
  }
  CHECK(read_bytes(folder / "1") == read_bytes(folder / "2"));
}

TEST_CASE("ZeroRedundancyOptimizer: a run goes on with another number of ranks, and alone, to the same bits") {
  for (const auto& named : optimizers()) {
    CAPTURE(named.first);
    const auto& make = named.second;
    const TemporaryFolder folder;
    const std::vector<Tensor> expected = train_alone(make, folder);
    for (const int first : {1, 2, 4}) {
      CAPTURE(first);
      run_ranks(first, [&](ProcessGroup& group) {
        Training training(group, make, folder / "3");
        training.run(3);
        training.checkpoint.save(group);
      });
      CHECK(read_bytes(folder / "3") == read_bytes(folder / "3-alone"));
      for (const int second : {1, 2, 4}) {
        CAPTURE(second);
        run_ranks(second, [&](ProcessGroup& group) {
          Training training(group, make, folder / "3", 99);  // other weights
          training.run(1);                                   // and moments that the checkpoint replaces
          training.checkpoint.load();
          REQUIRE(training.step == 3);
          training.run(6);
          const std::vector<Tensor> weights = training.weights();
          for (size_t i = 0; i < weights.size(); ++i) REQUIRE(same_bits(weights[i], expected[i]));
        });
      }
    }
  }
}

TEST_CASE("ZeroRedundancyOptimizer: ranks together take the memory of one state") {
  constexpr int64_t kWidth = 256, kMatrix = kWidth * kWidth * 4;  // bytes
  const auto live_after_a_step = [&](int ranks, bool divides) {
    std::vector<int64_t> own(static_cast<size_t>(ranks));
    int64_t before = 0, after = 0;
    run_ranks(ranks, [&](ProcessGroup& group) {
      std::vector<Tensor> parameters;
      for (int i = 0; i < 8; ++i) {
        parameters.push_back(zeros({kWidth, kWidth}).set_requires_grad());
        parameters.back().set_grad(ones({kWidth, kWidth}));
      }
      nn::AdamW adamw(parameters);
      ProcessGroup alone;
      nn::ZeroRedundancyOptimizer optimizer(divides ? group : alone, adamw);
      group.barrier();
      if (group.rank() == 0) before = memory_stats().live;
      group.barrier();
      optimizer.step();
      own[static_cast<size_t>(group.rank())] = optimizer.state_bytes();
      group.barrier();
      if (group.rank() == 0) after = memory_stats().live;
      group.barrier();
    });
    for (const int64_t bytes : own) CHECK(bytes == 16 * kMatrix / (divides ? ranks : 1));
    return after - before;
  };
  CHECK(live_after_a_step(4, false) == 4 * 16 * kMatrix);
  for (const int ranks : {1, 2, 4}) CHECK(live_after_a_step(ranks, true) == 16 * kMatrix);
}

TEST_CASE("ZeroRedundancyOptimizer: saving and loading take a few tensors more, not a state") {
  constexpr int64_t kWidth = 256, kMatrix = kWidth * kWidth * 4, kCount = 16;
  const TemporaryFolder folder;
  int64_t peak_of_save = 0, peak_of_load = 0;
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < kCount; ++i) {
      parameters.push_back(zeros({kWidth, kWidth}).set_requires_grad());
      parameters.back().set_grad(ones({kWidth, kWidth}));
    }
    nn::AdamW adamw(parameters);
    nn::ZeroRedundancyOptimizer optimizer(group, adamw);
    optimizer.step();
    nn::Checkpoint checkpoint(folder / "state");
    checkpoint.add("optimizer", optimizer);
    const auto peak_of = [&](const std::function<void()>& call) {
      group.barrier();
      if (group.rank() == 0) reset_peak_memory();
      const int64_t before = memory_stats().live;
      group.barrier();
      call();
      group.barrier();
      const int64_t peak = memory_stats().peak - before;
      group.barrier();
      return peak;
    };
    const int64_t of_save = peak_of([&] { checkpoint.save(group); });
    const int64_t of_load = peak_of([&] { checkpoint.load(); });
    if (group.rank() == 0) std::tie(peak_of_save, peak_of_load) = std::pair(of_save, of_load);
  });
  CHECK(peak_of_save < 4 * kMatrix);                 // two ranks, with a margin
  CHECK(peak_of_load < (2 * kCount + 4) * kMatrix);  // each rank reads only its half of the moments
}

TEST_CASE(
    "ZeroRedundancyOptimizer: the largest parameters are owned by different ranks, and frozen ones do not count") {
  std::vector<Tensor> parameters;
  for (const int64_t size : {1, 10, 7, 100, 6, 2}) parameters.push_back(zeros({size}).set_requires_grad());
  parameters[3].set_requires_grad(false);
  run_ranks(2, [&](ProcessGroup& group) {
    nn::AdamW adamw(
        {{.parameters = {parameters[0], parameters[1]}}, {.parameters = {parameters.begin() + 2, parameters.end()}}});
    const nn::ZeroRedundancyOptimizer optimizer(group, adamw);
    // 10 + 2 + 1 and 7 + 6 numbers
    REQUIRE(optimizer.owners() == std::vector<int>{0, 0, 1, 0, 1, 0});
    REQUIRE(optimizer.needs("lr"));
    REQUIRE(optimizer.needs("2.moment1") == (group.rank() == 1));
    REQUIRE(optimizer.needs("6.moment1"));  // belongs to no parameter, so load_state refuses it
  });
}

TEST_CASE("ZeroRedundancyOptimizer: gradients stay after a step, and an optimizer of one's own is divided too") {
  struct SignSGD : nn::Optimizer {
    explicit SignSGD(std::vector<Tensor> parameters)
        : Optimizer({{.parameters = std::move(parameters)}}, 0.5, /*weight_decay=*/0, /*moments=*/0) {}
    void update(const std::vector<Update>& updates) override {
      for (const Update& u : updates) u.slot->parameter -= sign(u.grad) * u.lr;
    }
  };
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 3; ++i) {
      parameters.push_back(zeros({2}).set_requires_grad());
      parameters.back().set_grad(full({2}, i + 1));
    }
    SignSGD optimizer(parameters);
    nn::ZeroRedundancyOptimizer divided(group, optimizer);
    divided.step();
    REQUIRE(has(message_of([&] { divided.step({.grad_factor = ones({2})}); }), "grad_factor must have one element"));
    for (int i = 0; i < 3; ++i) {
      REQUIRE(same_bits(parameters[static_cast<size_t>(i)].grad(), full({2}, i + 1)));
      REQUIRE(same_bits(parameters[static_cast<size_t>(i)].detach(), full({2}, -0.5)));
    }
    divided.step({.apply = scalar(0, DType::boolean)});
    REQUIRE(same_bits(parameters[0].detach(), full({2}, -0.5)));
    REQUIRE(divided.state_bytes() == 0);
    REQUIRE(divided.state().at("steps").to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
  });
}

TEST_CASE("ZeroRedundancyOptimizer: mistakes are told on all ranks, and change nothing") {
  const TemporaryFolder folder;
  const Make& adamw = optimizers()[3].second;
  const Make& lion = optimizers()[5].second;
  run_ranks(2, [&](ProcessGroup& group) {
    Training training(group, adamw, folder / "a");
    REQUIRE(has(message_of([&] { training.divided.step(); }), "step: no parameter has a gradient"));
    training.run(2);
    REQUIRE(has(message_of([&] { nn::ZeroRedundancyOptimizer(group, *training.optimizer); }),
                "the optimizer has made steps on all parameters; make a new one, and load_state() its state here"));
    training.checkpoint.save(group);
    const std::vector<Tensor> weights = training.weights();
    const TensorMap state = training.divided.state();
    const std::string saved = read_bytes(folder / "a");

    Training other(group, lion, folder / "a");
    REQUIRE(has(message_of([&] { other.checkpoint.load(); }), "a is of another run: optimizer: the state does not"));

    Training lost(group, adamw, folder / "none/a");
    const std::string message = message_of([&] { lost.checkpoint.save(group); });
    REQUIRE(has(message, "none"));
    REQUIRE(has(message, "rank 0: ") == (group.rank() == 1));

    {
      std::optional<test::FileCalls> calls;  // the disk fails when all tensors are ready
      if (group.rank() == 0) calls.emplace(folder.path()).fail({"fsync", folder / ".a.tmp"}, ENOSPC);
      const std::string full = message_of([&] { training.checkpoint.save(group); });
      REQUIRE(has(full, std::strerror(ENOSPC)));
      REQUIRE(has(full, "rank 0: ") == (group.rank() == 1));
    }
    REQUIRE(read_bytes(folder / "a") == saved);

    training.checkpoint.load();
    test::check_same_bits(training.weights(), weights);
    const TensorMap after = training.divided.state();
    for (const auto& [name, tensor] : state) REQUIRE(bytes_of(after.at(name)) == bytes_of(tensor));
  });
}
