#include <linnet/nn/optim/data_parallel.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <linnet/linnet.h>

#include "tests/support/gpu.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_ranks.h"

using namespace linnet;
using linnet::test::run_ranks;
using linnet::test::same_bits;

namespace {

constexpr int64_t kBatch = 16, kWidth = 5;
constexpr uint64_t kSeed = (uint64_t{1} << 62) + 3;  // a double would round it

/// A model with dropout, a parameter that some shards do not use, and one that none uses.
struct Model : nn::Module {
  explicit Model(Generator& rng, Device device = Device::cpu) : Module(rng, DType::float32, device) {}
  nn::Linear fc1{*this, "fc1", kWidth, 7};
  nn::Dropout dropout{*this, "dropout", 0.5};
  nn::Linear fc2{*this, "fc2", 7, 3};
  nn::Linear sometimes{*this, "sometimes", kWidth, 3};
  nn::Linear never{*this, "never", 2, 2};

  Tensor operator()(const Tensor& x, bool uses_all) {
    Tensor y = fc2(dropout(gelu(fc1(x))));
    return uses_all ? y + sometimes(x) : y;
  }
};

struct Data {
  Tensor inputs, targets;
};

Data data_of(int64_t batch) {
  Generator rng(static_cast<uint64_t>(7 + batch));
  return {randn({kBatch, kWidth}, rng), randint(0, 3, {kBatch}, rng)};
}

struct Run {
  std::vector<double> losses;
  std::vector<Tensor> state;
  uint64_t draws = 0;
};

/// Trains with `ranks` threads, and returns the result of rank 0; the others must have the same.
Run train(int ranks, const nn::DataParallelOptions& options, Device device = Device::cpu) {
  std::vector<Run> runs(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](ProcessGroup& group) {
    Generator rng(kSeed + static_cast<uint64_t>(group.rank()));  // DataParallel copies rank 0's
    Model model(rng, device);
    nn::DataParallel parallel(group, model, options);
    nn::AdamW optimizer(model.parameters(), {.lr = 0.05, .weight_decay = 0.1});
    Run& run = runs[static_cast<size_t>(group.rank())];
    for (int64_t step = 0; step < 4; ++step) {
      run.losses.push_back(parallel.backward([&](const nn::Shard& shard) {
        const Data data = data_of(step * options.accumulate + shard.micro_batch);
        return cross_entropy(model(shard.of(data.inputs).to(device), shard.index % 4 == 1),
                             shard.of(data.targets).to(device));
      }));
      optimizer.step();
      optimizer.zero_grad();
      parallel.check_same();
    }
    for (const auto& [name, tensor] : model.state()) run.state.push_back(tensor.detach().clone());
    run.draws = rng.state().draws;
  });
  for (const Run& run : runs) {
    CHECK(run.losses == runs[0].losses);
    test::check_same_bits(run.state, runs[0].state);
  }
  return runs[0];
}

void check_same_run(const Run& a, const Run& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.draws == b.draws);
  test::check_same_bits(a.state, b.state);
}

}  // namespace

TEST_CASE("DataParallel: 1, 2, 4 and 8 ranks end with the same bits, whatever the buckets") {
  for (const int64_t accumulate : {1, 3}) {
    const Run one = train(1, {.shards = 8, .accumulate = accumulate});
    for (const int ranks : {2, 4, 8}) {
      for (const int64_t bucket_bytes : {1, 100, 1 << 20}) {
        CAPTURE(ranks);
        CAPTURE(bucket_bytes);
        check_same_run(train(ranks, {.shards = 8, .accumulate = accumulate, .bucket_bytes = bucket_bytes}), one);
      }
    }
  }
}

TEST_CASE("gpu: DataParallel: 1, 2 and 4 ranks end with the same bits") {
  if (!test::has_gpu("DataParallel on the GPU")) return;
  const Run one = train(1, {.shards = 4}, Device::cuda);
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    check_same_run(train(ranks, {.shards = 4, .bucket_bytes = 100}, Device::cuda), one);
  }
}

TEST_CASE("DataParallel: one shard of one process is the plain loop, to the bit") {
  Generator rng(kSeed);
  Model model(rng);
  nn::AdamW optimizer(model.parameters(), {.lr = 0.05, .weight_decay = 0.1});
  Run plain;
  for (int64_t step = 0; step < 4; ++step) {
    const Data data = data_of(step);
    const Tensor loss = cross_entropy(model(data.inputs, false), data.targets);
    backward(loss);
    plain.losses.push_back(loss.item<double>());
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& [name, tensor] : model.state()) plain.state.push_back(tensor);
  plain.draws = rng.state().draws;
  check_same_run(train(1, {.shards = 1}), plain);
}

TEST_CASE("DataParallel: a gradient of minus zero is the same whether or not its neighbour is on this rank") {
  struct Scale : nn::Module {
    explicit Scale(Generator& rng) : Module(rng) {}
    Tensor weight = parameter("weight", ones({1}));
  };
  for (const int ranks : {1, 2, 4}) {
    for (const int64_t used_by : {0, 1, 2, 3}) {
      run_ranks(ranks, [&](ProcessGroup& group) {
        Generator rng(3);
        Scale model(rng);
        nn::DataParallel parallel(group, model, {.shards = 4});
        const Tensor other = ones({1}).set_requires_grad();
        parallel.backward([&](const nn::Shard& shard) {
          return shard.index == used_by ? (model.weight * -0.0).sum() : other.sum();
        });
        REQUIRE(same_bits(model.weight.grad(), zeros({1})));
      });
    }
  }
}

TEST_CASE("DataParallel: the mean gradient of all shards is that of the batch") {
  run_ranks(2, [](ProcessGroup& group) {
    Generator rng(3);
    Model model(rng);
    model.eval();
    const Data data = data_of(0);
    const Tensor whole = cross_entropy(model(data.inputs, true), data.targets);
    backward(whole);
    std::vector<Tensor> expected;
    for (const Tensor& parameter : model.parameters()) expected.push_back(parameter.grad());
    for (Tensor parameter : model.parameters()) parameter.set_grad({});
    nn::DataParallel parallel(group, model, {.shards = 4});
    const double loss = parallel.backward([&](const nn::Shard& shard) {
      return cross_entropy(model(shard.of(data.inputs), true), shard.of(data.targets));
    });
    REQUIRE(loss == doctest::Approx(whole.item<double>()).epsilon(1e-6));
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor gradient = model.parameters()[i].grad();
      REQUIRE(gradient.defined() == expected[i].defined());
      if (gradient.defined()) REQUIRE(abs(gradient - expected[i]).max().item<double>() < 1e-6);
    }
  });
}

TEST_CASE("DataParallel: gradients are on their way before the last backward ends") {
  run_ranks(2, [](ProcessGroup& group) {
    Generator rng(3);
    Model model(rng);
    model.never.freeze();  // otherwise parameters before it in the model would wait for its gradient
    nn::DataParallel parallel(group, model, {.shards = 2, .bucket_bytes = 1});
    const Data data = data_of(0);
    const int64_t before = group.bytes_sent();
    int64_t sent = before;
    parallel.backward([&](const nn::Shard& shard) {
      const Tensor x = shard.of(data.inputs);
      Tensor h = model.fc1(x);
      h.register_hook([&](const Tensor&) {  // backward has gone through fc2 and sometimes, but not through fc1
        sent = group.bytes_sent();
        return Tensor();
      });
      return cross_entropy(model.fc2(gelu(h)) + model.sometimes(x), shard.of(data.targets));
    });
    REQUIRE(sent > before);
  });
}

TEST_CASE("DataParallel: a gradient that fills a bucket is summed where it lies") {
  run_ranks(2, [](ProcessGroup& group) {
    const auto bytes = [&] {  // bytes of both ranks, which are threads of this process
      group.barrier();
      const int64_t live = memory_stats().live;
      group.barrier();
      return live;
    };
    Generator rng(3);
    Model model(rng);
    const int64_t before = bytes();
    nn::DataParallel parallel(group, model, {.shards = 2, .bucket_bytes = 1});
    REQUIRE(bytes() == before);
    const Data data = data_of(0);
    const int64_t with_data = bytes();
    parallel.backward([&](const nn::Shard& shard) {
      return cross_entropy(model(shard.of(data.inputs), true), shard.of(data.targets));
    });
    REQUIRE(bytes() > with_data);
    for (Tensor parameter : model.parameters()) parameter.set_grad({});
    REQUIRE(bytes() < with_data + 512);  // zeros for the parameters that have no gradient
  });
}

TEST_CASE("DataParallel: bad shards, gradients that are there already, and ranks that differ are told") {
  Generator rng(3);
  Model model(rng);
  const auto message_of = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  ProcessGroup group;
  for (const int64_t shards : {-1, 0, 3, 6, 1 << 17}) {
    CHECK(has(message_of([&] { nn::DataParallel(group, model, {.shards = shards}); }), "shards"));
  }
  CHECK_NOTHROW(nn::DataParallel(group, model, {.shards = 3, .any_order = true}));
  CHECK_THROWS_AS(nn::DataParallel(group, model, {.accumulate = 0}), ValueError);
  run_ranks(4, [&](ProcessGroup& four) {
    Generator own(3);
    Model of_rank(own);
    REQUIRE(has(message_of([&] { nn::DataParallel(four, of_rank, {.shards = 2}); }),
                "4 ranks do not divide 2 shards; take more shards, or fewer ranks"));
    nn::DataParallel parallel(four, of_rank, {.shards = 4});
    if (four.rank() == 3) own.next();
    REQUIRE(
        has(message_of([&] { parallel.check_same(); }), "the generator of rank 3 differs from that of rank 0; out"));
    if (four.rank() == 2) {
      const NoGrad no_grad;
      Tensor bias = of_rank.fc2.bias();
      bias += 1;
    }
    REQUIRE(has(message_of([&] { parallel.check_same(); }),
                "parameter fc2.bias of rank 2 differs from that of rank 0; ranks need processors with"));
  });
  nn::DataParallel parallel(group, model, {.shards = 2});
  const Tensor x = data_of(0).inputs;
  const auto loss = [&](const nn::Shard& shard) { return model(shard.of(x), true).square().mean(); };
  parallel.backward(loss);
  CHECK(has(message_of([&] { parallel.backward(loss); }), "zero_grad"));
  for (Tensor parameter : model.parameters()) parameter.set_grad({});
  CHECK(has(message_of([&] {
              parallel.backward([&](const nn::Shard& shard) {
                if (shard.index == 1) rng.next();
                return loss(shard);
              });
            }),
            "shard 0 drew 1 times from the model's generator, and shard 1 2 times"));
  CHECK(
      has(message_of([&] { nn::Shard{.index = 0, .count = 3}.of(x); }),
          "3 shards do not divide the rows of a batch of shape [16, 5]; leave out a smaller last batch (.drop_last"));
}

TEST_CASE("DataParallel: all ranks tell of shards that draw a different number of times") {
  for (const int ranks : {1, 2, 4}) {
    for (const int64_t other : {0, 2, 3}) {  // one shard draws more
      CAPTURE(ranks);
      CAPTURE(other);
      run_ranks(ranks, [&](ProcessGroup& group) {
        Generator rng(3);
        Model model(rng);
        nn::DataParallel parallel(group, model, {.shards = 4});
        const uint64_t draws = rng.state().draws;
        const Data data = data_of(0);
        const auto loss = [&](const nn::Shard& shard, bool more) {
          for (int i = 0; more && i < 2; ++i) rng.next();
          return cross_entropy(model(shard.of(data.inputs), true), shard.of(data.targets));
        };
        const int64_t pair = std::max(other, int64_t{1});  // the first shard that differs from the one before it
        REQUIRE_THROWS_WITH_AS(
            parallel.backward([&](const nn::Shard& shard) { return loss(shard, shard.index == other); }),
            doctest::Contains(fmt::format("shard {} drew {} times from the model's generator, and shard {} {} times",
                                          pair - 1, other == 0 ? 3 : 1, pair, other == 0 ? 1 : 3)
                                  .c_str()),
            ValueError);
        REQUIRE(rng.state().draws == draws);
        parallel.backward([&](const nn::Shard& shard) { return loss(shard, true); });
        REQUIRE(rng.state().draws == draws + 3);
      });
    }
  }
}

TEST_CASE("DataParallel: parameters that are frozen later have no gradient, and those unfrozen later are refused") {
  run_ranks(2, [](ProcessGroup& group) {
    Generator rng(3);
    Model model(rng);
    model.fc2.freeze();
    nn::DataParallel parallel(group, model, {.shards = 2});
    const Data data = data_of(0);
    const auto run = [&] {
      parallel.backward([&](const nn::Shard& shard) {
        return cross_entropy(model(shard.of(data.inputs), true), shard.of(data.targets));
      });
    };
    model.sometimes.freeze();
    run();
    REQUIRE_FALSE(model.sometimes.weight().grad().defined());
    REQUIRE_FALSE(model.fc2.weight().grad().defined());
    REQUIRE(model.fc1.weight().grad().defined());
    for (Tensor parameter : model.parameters()) parameter.set_grad({});
    model.sometimes.unfreeze();
    run();
    REQUIRE(model.sometimes.weight().grad().defined());
    for (Tensor parameter : model.parameters()) parameter.set_grad({});
    model.fc2.unfreeze();
    REQUIRE_THROWS_WITH_AS(run(), doctest::Contains("parameter fc2.weight was unfrozen after DataParallel was made"),
                           AutogradError);
    REQUIRE_FALSE(model.fc1.weight().grad().defined());
  });
}

TEST_CASE("DataParallel: an error of a shard leaves ordinary gradients and the generator as they were") {
  run_ranks(1, [](ProcessGroup& group) {
    Generator rng(7);
    Model model(rng);
    nn::DataParallel parallel(group, model, {.shards = 2});
    const Data data = data_of(0);
    const auto loss_of = [&] { return cross_entropy(model(data.inputs, true), data.targets); };
    const auto without_gradients = [&] {
      for (Tensor parameter : model.parameters()) parameter.set_grad({});
    };
    const auto [seed, draws] = rng.state();
    CHECK_THROWS_AS(parallel.backward([&](const nn::Shard& shard) {
      const Tensor loss = loss_of();
      if (shard.index == 1) const Tensor one_draw_more = randn({1}, rng);
      return loss;
    }),
                    ValueError);
    CHECK(rng.state().seed == seed);
    CHECK(rng.state().draws == draws);
    without_gradients();
    Tensor last = loss_of();
    last.register_hook([](const Tensor&) -> Tensor { throw ValueError("of a hook"); });
    CHECK_THROWS_AS(parallel.backward([&](const nn::Shard& shard) { return shard.index == 1 ? last : loss_of(); }),
                    ValueError);
    without_gradients();
    backward(loss_of());
    CHECK(model.parameters()[0].grad().defined());
  });
}

TEST_CASE("DataParallel: sums that were under way at an error do not reach the next step") {
  run_ranks(2, [](ProcessGroup& group) {
    /// fc2 has a bucket of its own, which is full while the gradients before it are still to come.
    struct Net : nn::Module {
      explicit Net(Generator& rng) : Module(rng) {}
      nn::Linear fc1{*this, "fc1", kWidth, 7}, fc2{*this, "fc2", 7, 3};
    };
    Generator rng(7);
    Net model(rng);
    nn::DataParallel parallel(group, model, {.shards = 2, .bucket_bytes = 4 * (7 * 3 + 3)});
    const Data data = data_of(group.rank());
    double factor = 1;
    const auto loss = [&](const nn::Shard&) {
      Tensor hidden = model.fc1(data.inputs) * factor;
      if (factor != 1) hidden.register_hook([](const Tensor&) -> Tensor { throw ValueError("of a hook"); });
      return cross_entropy(model.fc2(hidden) * factor, data.targets);
    };
    const auto gradients = [&] {
      parallel.backward(loss);
      std::vector<double> all;
      for (Tensor parameter : model.parameters()) {
        if (!parameter.grad().defined()) continue;
        for (const double x : parameter.grad().to_vector<double>()) all.push_back(x);
        parameter.set_grad({});
      }
      return all;
    };
    const std::vector<double> expected = gradients();
    factor = 3;
    REQUIRE_THROWS_AS(parallel.backward(loss), ValueError);
    for (Tensor parameter : model.parameters()) parameter.set_grad({});
    factor = 1;
    REQUIRE(gradients() == expected);
  });
}
