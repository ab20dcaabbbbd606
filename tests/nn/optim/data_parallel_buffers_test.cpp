/// DataParallel with models that have buffers, such as the running statistics of batch norm.

#include <linnet/nn/optim/data_parallel.h>

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include <linnet/core/device/kernel_access.h>
#include <linnet/linnet.h>

#include "tests/support/gpu.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_ranks.h"

using namespace linnet;
using linnet::test::run_ranks;
using linnet::test::same_bits;

namespace {

constexpr int64_t kRows = 32, kFeatures = 5, kTokens = 4;

/// A model with batch norms, one of which only some shards use and one of which none uses, and a Performer.
struct BufferModel : nn::Module {
  explicit BufferModel(Generator& rng, Device device = Device::cpu) : Module(rng, DType::float32, device) {}
  nn::Linear fc{*this, "fc", kFeatures, 8};
  nn::BatchNorm1d norm{*this, "norm", 8};
  nn::BatchNorm1d average{*this, "average", 8, {.momentum = std::nullopt}};
  nn::BatchNorm1d sometimes{*this, "sometimes", 8};
  nn::BatchNorm1d never{*this, "never", 8};
  nn::PerformerAttention attention{
      *this,
      "attention",
      {.mechanism = "performer", .width = 8, .heads = 2, .options = nn::PerformerConfig{.redraw = 2}}};
  nn::Dropout dropout{*this, "dropout", 0.5};
  nn::Linear out{*this, "out", 8, 3};

  /// Shapes: x [N, kFeatures] → [N, 3], N being a multiple of kTokens.
  Tensor operator()(const Tensor& x, bool uses_all) {
    Tensor y = average(gelu(norm(fc(x))));
    if (uses_all) y = y + sometimes(y);
    return out(dropout(attention(y.reshape({-1, kTokens, 8})).reshape(y.shape())));
  }
};

Tensor rows_of(int64_t batch) {
  Generator rng(static_cast<uint64_t>(70 + batch));
  return randn({kRows, kFeatures}, rng) * 3 + 1;
}

/// The losses and the states after each of some steps.
struct BufferRun {
  std::vector<double> losses;
  std::vector<Tensor> states;
};

/// Trains with `ranks` threads, and returns the result of rank 0; the others must have the same.
BufferRun train_with_buffers(int ranks, const nn::DataParallelOptions& options, Device device = Device::cpu) {
  std::vector<BufferRun> runs(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](ProcessGroup& group) {
    Generator rng(5 + static_cast<uint64_t>(group.rank()));
    BufferModel model(rng, device);
    nn::DataParallel parallel(group, model, options);
    nn::AdamW optimizer(model.parameters(), {.lr = 0.05});
    BufferRun& run = runs[static_cast<size_t>(group.rank())];
    for (int64_t step = 0; step < 4; ++step) {
      model.begin_step(step);
      run.losses.push_back(parallel.backward([&](const nn::Shard& shard) {
        const Tensor x = shard.of(rows_of(step * options.accumulate + shard.micro_batch)).to(device);
        return model(x, shard.index % 4 == 1).square().mean();
      }));
      optimizer.step();
      optimizer.zero_grad();
      parallel.check_same();
      for (const auto& [name, tensor] : model.state()) run.states.push_back(tensor.detach().clone());
    }
  });
  for (const BufferRun& run : runs) {
    CHECK(run.losses == runs[0].losses);
    test::check_same_bits(run.states, runs[0].states);
  }
  return runs[0];
}

void check_ranks_with_buffers(Device device) {
  for (const int64_t accumulate : {1, 3}) {
    const nn::DataParallelOptions options{.shards = 8, .accumulate = accumulate};
    const BufferRun one = train_with_buffers(1, options, device);
    for (const int ranks : {2, 4, 8}) {
      CAPTURE(ranks);
      const BufferRun many = train_with_buffers(ranks, options, device);
      CHECK(many.losses == one.losses);
      test::check_same_bits(many.states, one.states);
    }
  }
}

}  // namespace

TEST_CASE("DataParallel: 1, 2, 4 and 8 ranks have the same buffers") { check_ranks_with_buffers(Device::cpu); }

TEST_CASE("gpu: DataParallel: 1, 2, 4 and 8 ranks have the same buffers") {
  if (!test::has_gpu("buffers of DataParallel on the GPU")) return;
  check_ranks_with_buffers(Device::cuda);
}

TEST_CASE("DataParallel: one shard of one process has the buffers of the plain loop") {
  Generator rng(5);
  BufferModel model(rng);
  nn::AdamW optimizer(model.parameters(), {.lr = 0.05});
  std::vector<Tensor> states;
  for (int64_t step = 0; step < 4; ++step) {
    model.begin_step(step);
    backward(model(rows_of(step), false).square().mean());
    optimizer.step();
    optimizer.zero_grad();
    for (const auto& [name, tensor] : model.state()) states.push_back(tensor.detach().clone());
  }
  test::check_same_bits(train_with_buffers(1, {.shards = 1}).states, states);
}

TEST_CASE("DataParallel: a buffer is the mean over the shards that changed it, each of which begins with the same") {
  constexpr int64_t kShards = 4, kAccumulate = 2;
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    run_ranks(ranks, [&](ProcessGroup& group) {
      Generator rng(5);
      BufferModel model(rng);
      // The buffers that each shard alone makes.
      std::vector<TensorMap> of_shards;
      for (int64_t i = 0; i < kShards; ++i) {
        Generator same(5);
        BufferModel alone(same);
        for (int64_t micro_batch = 0; micro_batch < kAccumulate; ++micro_batch) {
          alone(nn::Shard{.index = i, .count = kShards}.of(rows_of(micro_batch)), i == 1);
        }
        of_shards.push_back(alone.state());
      }
      nn::DataParallel parallel(group, model, {.shards = kShards, .accumulate = kAccumulate});
      const uint64_t version = detail::version(model.never.running_mean());
      parallel.backward([&](const nn::Shard& shard) {
        return model(shard.of(rows_of(shard.micro_batch)), shard.index == 1).square().mean();
      });
      TensorMap state = model.state();
      for (const std::string norm : {"norm", "average"}) {
        for (const std::string& name : {norm + ".running_mean", norm + ".running_var"}) {
          Tensor sum = zeros({8}, DType::float64);
          for (const TensorMap& of_shard : of_shards) sum += of_shard.at(name).to(DType::float64);
          REQUIRE(abs(state.at(name).to(DType::float64) - sum / kShards).max().item() < 1e-6);
          REQUIRE_FALSE(same_bits(state.at(name), of_shards[0].at(name)));
        }
        REQUIRE(state.at(norm + ".num_batches_tracked").item() == kAccumulate);
      }
      REQUIRE(same_bits(state.at("sometimes.running_var"), of_shards[1].at("sometimes.running_var")));
      REQUIRE(state.at("sometimes.num_batches_tracked").item() == kAccumulate);
      REQUIRE(state.at("never.num_batches_tracked").item() == 0);
      REQUIRE(detail::version(model.never.running_mean()) == version);
    });
  }
}

TEST_CASE(
    "DataParallel: features of a Performer, drawn in begin_step, are the same on all ranks and stay for a step") {
  run_ranks(4, [](ProcessGroup& group) {
    Generator rng(5 + static_cast<uint64_t>(group.rank()));
    BufferModel model(rng);
    nn::DataParallel parallel(group, model, {.shards = 4});
    const Tensor omega = model.state().at("attention.omega");
    const Tensor first = omega.clone();
    for (int64_t step = 0; step < 5; ++step) {
      const Tensor before = omega.clone();
      model.begin_step(step);
      REQUIRE(same_bits(omega, before) == (step % 2 != 0 || step == 0));
      const Tensor drawn = omega.clone();
      parallel.backward([&](const nn::Shard& shard) { return model(shard.of(rows_of(0)), false).square().mean(); });
      REQUIRE(same_bits(omega, drawn));
      for (Tensor parameter : model.parameters()) parameter.set_grad({});
      parallel.check_same();
    }
    REQUIRE_FALSE(same_bits(omega, first));
  });
}

TEST_CASE("DataParallel: an error leaves buffers as they were, and check_same names one that differs") {
  run_ranks(2, [](ProcessGroup& group) {
    Generator rng(5);
    BufferModel model(rng);
    nn::DataParallel parallel(group, model, {.shards = 4});
    std::vector<Tensor> before;
    for (const auto& [name, tensor] : model.named_buffers()) before.push_back(tensor.clone());
    const auto is_as_before = [&] {
      const std::vector<nn::NamedTensor> buffers = model.named_buffers();
      for (size_t i = 0; i < before.size(); ++i) {
        if (!same_bits(buffers[i].tensor, before[i])) return false;
      }
      return true;
    };
    const auto loss = [&](const nn::Shard& shard) { return model(shard.of(rows_of(0)), true).square().mean(); };
    REQUIRE_THROWS_AS(parallel.backward([&](const nn::Shard& shard) -> Tensor {
      const Tensor of_shard = loss(shard);
      if (shard.index % 2 == 1) throw ValueError("of a shard");
      return of_shard;
    }),
                      ValueError);
    REQUIRE(is_as_before());
    for (Tensor parameter : model.parameters()) parameter.set_grad({});
    REQUIRE_THROWS_AS(parallel.backward([&](const nn::Shard& shard) {
      if (shard.index == 3) rng.next();
      return loss(shard);
    }),
                      ValueError);
    REQUIRE(is_as_before());
    parallel.backward(loss);
    REQUIRE_FALSE(is_as_before());
    parallel.check_same();
    if (group.rank() == 1) model(rows_of(0), true);  // a rank calls it alone, in training
    REQUIRE_THROWS_WITH_AS(
        parallel.check_same(),
        doctest::Contains("buffer norm.running_mean of rank 1 differs from that of rank 0; outside"), ValueError);
  });
}
