#include <linnet/core/autograd/recording.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/gpu.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

const nn::CharText& text() {
  static const nn::CharText instance("to be, or not to be: that is the question. Whether 'tis nobler in the mind");
  return instance;
}

nn::Batch batch(int64_t step) { return nn::random_windows(text().train(), 2, 6, {1, static_cast<uint64_t>(step)}); }

/// A small language model in training, with all parts of a step.
class Training {
 public:
  Training(const std::string& mechanism, Device device, bool recorded)
      : model_(rng_,
               {.vocabulary = text().vocabulary().size(),
                .context = 6,
                .layers = 1,
                .block = {.attention = {.mechanism = mechanism, .width = 8, .heads = 2, .dropout = 0.2},
                          .dropout = 0.1}},
               DType::float32, device),
        optimizer_(nn::decay_matrices_only(model_.parameters(), 0.1)),
        recorded_(recorded),
        recording_(device, &rng_, [this](const std::vector<Tensor>& inputs) { return run(inputs); }) {}

  /// Returns the loss and the gradients' norm.
  std::vector<double> step(int64_t number) {
    optimizer_.set_lr(0.01 / static_cast<double>(1 + number));
    const auto [inputs, targets] = batch(number);
    const std::vector<Tensor> results =
        recorded_ ? recording_({inputs, targets}) : run({inputs.to(model_.device()), targets.to(model_.device())});
    return {results[0].item<double>(), results[1].item<double>()};
  }

  /// Everything that a checkpoint stores.
  std::map<std::string, std::vector<double>> state() const {
    std::map<std::string, std::vector<double>> numbers;
    for (const auto& [name, tensor] : model_.state()) numbers[name] = tensor.to_vector<double>();
    for (const auto& [name, tensor] : optimizer_.state()) numbers["optimizer." + name] = tensor.to_vector<double>();
    numbers["draws"] = {static_cast<double>(rng_.state().draws)};
    return numbers;
  }

  void go_on_from(const Training& other) {
    model_.load_state(other.model_.state());
    optimizer_.load_state(other.optimizer_.state());
    rng_.set_state(other.rng_.state());
  }

  /// The factor of the gradients, in memory of the device.
  Tensor& scale() { return scale_; }

 private:
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    const Tensor loss = cross_entropy(model_(inputs[0]), inputs[1]);
    backward(loss * scale_);
    const Tensor norm = nn::grad_norm(model_.parameters());
    optimizer_.step(
        {.grad_factor = nn::clip_factor(norm, 0.5), .apply = lt(norm, std::numeric_limits<double>::infinity())});
    optimizer_.zero_grad();
    return {loss, norm};
  }

  Generator rng_{1};
  nn::DecoderLM model_;
  nn::AdamW optimizer_;
  Tensor scale_ = ones({}, DType::float32, model_.device());
  bool recorded_;
  Recording recording_;
};

void give_the_same_bits(Device device) {
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(name_of(device));
    CAPTURE(mechanism);
    Training plain(mechanism, device, false), recorded(mechanism, device, true);
    for (int64_t i = 0; i < 5; ++i) {
      CHECK(recorded.step(i) == plain.step(i));
      CHECK(recorded.state() == plain.state());
    }
  }
}

/// The losses of an image classifier in training.
std::vector<double> losses_of_images(const std::string& mechanism, Device device, bool recorded) {
  Generator rng(1);
  nn::AttentionConfig attention{.mechanism = mechanism, .width = 8, .heads = 2, .dropout = 0.2};
  if (mechanism == "informer") attention.options = nn::InformerConfig{.queries = 3};
  if (mechanism == "bigbird") attention.options = nn::BigBirdConfig{.block = 2};  // not all tokens see all
  nn::PatchClassifier model(rng, {.side = 6, .patch = 1, .classes = 3, .block = {.attention = attention}},
                            DType::float32, device);
  nn::AdamW optimizer(model.parameters(), {.lr = 0.01});
  const auto run = [&](const std::vector<Tensor>& inputs) {
    const Tensor loss = cross_entropy(model(inputs[0]), inputs[1]);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    return std::vector{loss};
  };
  Recording recording(device, &rng, run);
  std::vector<double> losses;
  for (uint64_t i = 0; i < 5; ++i) {
    const Tensor images = uniform({2, 36}, i).to(DType::float32), labels = tensor({0, 2}, DType::int64);
    losses.push_back(
        (recorded ? recording({images, labels}) : run({images.to(device), labels.to(device)}))[0].item());
  }
  return losses;
}

void give_the_same_bits_without_a_causal_form(Device device) {
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    if (mechanism.causal) continue;
    CAPTURE(mechanism.name);
    CHECK(losses_of_images(mechanism.name, device, true) == losses_of_images(mechanism.name, device, false));
  }
}

void share_no_memory(Device device) {
  Training plain("softmax", device, false), recorded("softmax", device, true);
  for (int64_t i = 0; i < 4; ++i) {
    Training other("fastmax2", device, false);  // takes any memory that is free
    other.step(i);
    const auto before = other.state();
    CHECK(recorded.step(i) == plain.step(i));
    CHECK(other.state() == before);
  }
  CHECK(recorded.state() == plain.state());
}

void go_on_from_a_checkpoint(Device device) {
  Training plain("softmax", device, false), fresh("softmax", device, true), warm("softmax", device, true);
  for (int64_t i = 7; i < 10; ++i) warm.step(i);
  for (int64_t i = 0; i < 2; ++i) plain.step(i);
  fresh.go_on_from(plain);
  warm.go_on_from(plain);
  for (int64_t i = 2; i < 5; ++i) {
    const std::vector<double> expected = plain.step(i);
    CHECK(fresh.step(i) == expected);
    CHECK(warm.step(i) == expected);
  }
  CHECK(fresh.state() == plain.state());
  CHECK(warm.state() == plain.state());
}

void refuse_infinite_gradients(Device device) {
  Training plain("softmax", device, false), recorded("softmax", device, true);
  for (Training* each : {&plain, &recorded}) {
    for (int64_t i = 0; i < 3; ++i) each->step(i);
    const auto weights = [&] {
      auto state = each->state();
      state.erase("draws");
      state.erase("optimizer.lr");
      return state;
    };
    const auto before = weights();
    each->scale().fill_(NAN);
    CHECK(std::isnan(each->step(3)[1]));
    CHECK(weights() == before);
    each->scale().fill_(1);
    each->step(4);
    CHECK(weights() != before);
  }
  CHECK(recorded.state() == plain.state());
}

/// Profiles steps before the recording, and between replays.
void run_for_a_profile(Device device) {
  Training plain("fastmax2", device, false), recorded("fastmax2", device, true);
  for (int64_t i = 0; i < 7; ++i) {
    std::optional<Profile> profile;
    if (i == 1 || i == 4) profile.emplace();
    const std::vector<double> results = recorded.step(i);
    if (profile) {
      const auto multiplies = [](const KernelCall& call) { return call.kernel == "gemm" && call.backward; };
      CHECK(std::ranges::any_of(profile->calls(), multiplies));
    }
    profile.reset();
    CHECK(results == plain.step(i));
  }
  CHECK(recorded.state() == plain.state());
}

void take_other_shapes(Device device) {
  Tensor weight = ones({3}, DType::float32, device).set_requires_grad();
  Recording twice(device, nullptr, [&](const std::vector<Tensor>& in) { return std::vector{in[0] * weight * 2}; });
  for (const int64_t rows : {2, 2, 1, 2, 5, 2}) {
    const Tensor x = uniform({rows, 3}, static_cast<uint64_t>(rows)).to(DType::float32);
    const Tensor y = twice({x})[0];
    CHECK_FALSE(y.requires_grad());
    CHECK(y.to_vector<float>() == mul(x, 2).to_vector<float>());
  }
}

void note_edits(Device device) {
  Tensor weight = ones({2}, DType::float32, device).set_requires_grad();
  nn::SGD optimizer({weight}, {.lr = 0.5});
  Recording step(device, nullptr, [&](const std::vector<Tensor>& in) {
    backward(sum(weight * in[0]));
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{};
  });
  for (int call = 0; call < 4; ++call) {
    const Tensor before = sum(square(weight));
    step({ones({2})});
    CHECK_THROWS_AS(backward(before), AutogradError);
  }
  CHECK(weight.to_vector<float>() == std::vector<float>{-1, -1});
}

void check_indices(Device device) {
  const Tensor table = uniform({4, 2}, 1).to(device);
  Recording look_up(device, nullptr, [&](const std::vector<Tensor>& in) {
    return std::vector{embedding(table, in[0].narrow(0, 1, 2))};
  });
  const auto index = [](double last) { return tensor({9, 1, last}, DType::int64); };
  for (const double last : {3, 2, 0, 3}) {
    CHECK(look_up({index(last)})[0].to_vector<double>() ==
          embedding(table, tensor({1, last}, DType::int64).to(device)).to_vector<double>());
    CHECK_THROWS_WITH_AS(look_up({index(4)}), doctest::Contains("embedding: ids[1] is 4, outside [0, 4)"),
                         IndexError);
  }
}

void make_masks_and_indices(Device device) {
  const Tensor scores = uniform({2, 4}, 1).to(device).set_requires_grad();
  const Tensor rotations = uniform({1, 1, 2, 2}, 9).to(device) - 0.5;
  const Tensor random_blocks = bigbird_random_blocks(8, 1, 1, 1, {1, 2});
  const auto run = [&](const std::vector<Tensor>& in) {
    const Tensor best = topk(scores * in[0], 2).values;
    const Tensor heads = in[0].reshape({1, 1, 4, 2});
    const Tensor tokens = in[0].reshape({1, 1, 8, 1}), padding_mask = gt(in[0].reshape({1, 8}), 0.2);
    const Tensor hashed =
        lsh_attention(tokens, tokens, lsh_buckets(tokens, rotations), {.chunk = 2, .padding_mask = padding_mask});
    const Tensor in_blocks = bigbird_attention(
        tokens, tokens, tokens, {.block = 1, .random_blocks = random_blocks, .padding_mask = padding_mask});
    return std::vector{grad({sum(best)}, {scores})[0], softmax_attention_weights(heads, heads, {.causal = true}),
                       hashed, in_blocks};
  };
  Recording recorded(device, nullptr, run);
  for (uint64_t call = 2; call < 5; ++call) {
    const Tensor x = uniform({2, 4}, call);
    const std::vector<Tensor> expected = run({x.to(device)}), actual = recorded({x});
    for (size_t i = 0; i < expected.size(); ++i)
      CHECK(actual[i].to_vector<double>() == expected[i].to_vector<double>());
  }
}

}  // namespace

TEST_CASE("recording: a training step gives the bits that it gives without one") { give_the_same_bits(Device::cpu); }

TEST_CASE("gpu: recording: a training step gives the bits that it gives without one") {
  if (has_gpu("recordings: a training step gives the bits that it gives without one"))
    give_the_same_bits(Device::cuda);
}

TEST_CASE("recording: a training step of mechanisms without a causal form, which draw and sort in it") {
  give_the_same_bits_without_a_causal_form(Device::cpu);
}

TEST_CASE("gpu: recording: a training step of mechanisms without a causal form, which draw and sort in it") {
  if (has_gpu("recordings: a training step of mechanisms without a causal form")) {
    give_the_same_bits_without_a_causal_form(Device::cuda);
  }
}

TEST_CASE("recording: what goes on between calls is not seen in them") { share_no_memory(Device::cpu); }

TEST_CASE("gpu: recording: what goes on between calls is not seen in them") {
  if (has_gpu("recordings: what goes on between calls is not seen in them")) share_no_memory(Device::cuda);
}

TEST_CASE("recording: goes on from a checkpoint, before it was recorded and after") {
  go_on_from_a_checkpoint(Device::cpu);
}

TEST_CASE("gpu: recording: goes on from a checkpoint, before it was recorded and after") {
  if (has_gpu("recordings: goes on from a checkpoint")) go_on_from_a_checkpoint(Device::cuda);
}

TEST_CASE("recording: gradients that are not finite change nothing, and the next step goes on") {
  refuse_infinite_gradients(Device::cpu);
}

TEST_CASE("gpu: recording: gradients that are not finite change nothing, and the next step goes on") {
  if (has_gpu("recordings: gradients that are not finite change nothing")) refuse_infinite_gradients(Device::cuda);
}

TEST_CASE("recording: a profile sees the kernels, and changes no bits") { run_for_a_profile(Device::cpu); }

TEST_CASE("gpu: recording: a profile sees the kernels, and changes no bits") {
  if (has_gpu("recordings: a profile sees the kernels")) run_for_a_profile(Device::cuda);
}

TEST_CASE("recording: inputs of another shape, and outputs without history") { take_other_shapes(Device::cpu); }

TEST_CASE("gpu: recording: inputs of another shape, and outputs without history") {
  if (has_gpu("recordings: inputs of another shape")) take_other_shapes(Device::cuda);
}

TEST_CASE("recording: backward notices what was edited since") { note_edits(Device::cpu); }

TEST_CASE("gpu: recording: backward notices what was edited since") {
  if (has_gpu("recordings: backward notices what was edited since")) note_edits(Device::cuda);
}

TEST_CASE("recording: an index out of range is refused in the words of the op, before anything is run") {
  check_indices(Device::cpu);
}

TEST_CASE("gpu: recording: an index out of range is refused in the words of the op, before anything is run") {
  if (has_gpu("recordings: an index out of range is refused in the words of the op")) check_indices(Device::cuda);
}

TEST_CASE("recording: ops may make masks and indices of their own") { make_masks_and_indices(Device::cpu); }

TEST_CASE("gpu: recording: ops may make masks and indices of their own") {
  if (has_gpu("recordings: ops make masks and indices of their own")) make_masks_and_indices(Device::cuda);
}

TEST_CASE("gpu: what a recorded function may not do is said, and all stays usable") {
  if (!has_gpu("refusals of recordings on the GPU")) return;
  const Tensor weight = ones({2}, DType::float32, Device::cuda);
  Generator known(1), other(2);
  nn::SGD optimizer({ones({2}, DType::float32, Device::cuda).set_requires_grad()});
  nn::Adam adam({ones({2}, DType::float32, Device::cuda).set_requires_grad()});
  const nn::Windows windows(text().train(), 6);
  nn::Loader batches(windows, {.batch = 2});
  using Function = std::function<void(const Tensor&)>;
  const std::vector<std::pair<Function, std::string>> cases = {
      {[](const Tensor& x) { sum(x).item<float>(); }, "item: a recorded function cannot read"},
      {[](const Tensor& x) { to_string(x); }, "a recorded function cannot read"},
      {[](const Tensor& x) { tensor({1, 2}).to(x.device()); }, "to: a recorded function cannot copy"},
      {[&](const Tensor&) { optimizer.set_lr(1); }, "set_lr: a recorded function cannot copy"},
      {[&](const Tensor&) { adam.set_beta1(0.8); }, "set_beta1: a recorded step keeps"},
      {[&](const Tensor&) { optimizer.set_momentum(0); }, "set_momentum: a recorded step keeps"},
      {[&](const Tensor&) { rand({2}, other, DType::float32, Device::cuda); }, "only from the generator that"},
      {[&](const Tensor&) { batches.next(); }, "a recorded function cannot take a batch"},
      {[](const Tensor& x) { gather(x, 0, argmax(x, 0, true)); }, "must each be a view of one of its inputs"},
  };
  for (const auto& [function, message] : cases) {
    CAPTURE(message);
    Recording recording(Device::cuda, &known, [&, &function = function](const std::vector<Tensor>& in) {
      const Tensor random = rand({2}, known, DType::float32, Device::cuda);
      function(in[0]);
      return std::vector{in[0] + random};
    });
    recording({tensor({1, 2})});
    for (int time = 0; time < 2; ++time) {
      if (waits_for_kernels()) {
        CHECK_NOTHROW(recording({tensor({1, 2})}));
        continue;
      }
      const uint64_t draws = known.state().draws;
      CHECK_THROWS_WITH_AS(recording({tensor({1, 2})}), doctest::Contains(message.c_str()), Error);
      CHECK(known.state().draws == draws);
      CHECK(add(weight, 1).to_vector<float>() == std::vector<float>{2, 2});
    }
  }
}

TEST_CASE("gpu: what another thread copies to the GPU is not recorded") {
  if (!has_gpu("copies beside a recording")) return;
  for (const int64_t n : {1000, 10'000, 600'000}) {  // a copy that is short, long, and in two pieces
    CAPTURE(n);
    std::future<Tensor> copy;
    Recording twice(Device::cuda, nullptr, [&](const std::vector<Tensor>& in) {
      const Tensor y = in[0] * 2 + 0;  // the product's memory is free again, but belongs to this recording
      copy = std::async(std::launch::async, [n] { return uniform({n}, 1).to(Device::cuda); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return std::vector{y};
    });
    Tensor copied;
    for (int call = 0; call < 4; ++call) {
      CHECK(twice({uniform({n}, 2)})[0].to_vector<double>() == mul(uniform({n}, 2), 2).to_vector<double>());
      if (call < 2) copied = copy.get();
      CHECK(copied.to_vector<double>() == uniform({n}, 1).to_vector<double>());
    }
  }
}

TEST_CASE("gpu: a recording's memory is its own, and given back with it") {
  if (!has_gpu("memory of recordings on the GPU")) return;
  const MemoryStats start = memory_stats(Device::cuda);
  Tensor result;
  {
    Recording square_sum(Device::cuda, nullptr,
                         [](const std::vector<Tensor>& in) { return std::vector{sum(square(in[0]))}; });
    for (int call = 0; call < 3; ++call) result = square_sum({ones({1000})})[0];
    CHECK(memory_stats(Device::cuda).live >= start.live + (waits_for_kernels() ? 0 : 4000));
    const Tensor noise = full({1000}, 7, DType::float32, Device::cuda);
    CHECK(square_sum({full({1000}, 2)})[0].item<float>() == 4000);
    CHECK(noise.to_vector<float>() == std::vector<float>(1000, 7));
  }
  CHECK(result.item<float>() == (waits_for_kernels() ? 1000 : 4000));  // a replay writes over it
  result = {};
  CHECK(memory_stats(Device::cuda).live == start.live);
}

TEST_CASE("gpu: a recorded function that finds no memory says so, and all goes on") {
  if (!has_gpu("recordings without memory")) return;
  bool takes_too_much = false;
  Recording twice(Device::cuda, nullptr, [&](const std::vector<Tensor>& in) {
    const Tensor y = in[0] * 2;
    if (takes_too_much) Tensor::empty({int64_t{1} << 50}, DType::boolean, Device::cuda);
    return std::vector{y + y};
  });
  int64_t warm = 0;
  for (int call = 0; call < 6; ++call) {
    takes_too_much = call == 1 || call == 2;
    if (takes_too_much) {
      CHECK_THROWS_WITH_AS(twice({ones({1000})}), doctest::Contains("empty: out of memory in asking for 11258"),
                           MemoryError);
      CHECK(memory_stats(Device::cuda).live == warm);
    } else {
      CHECK(twice({ones({1000})})[0].to_vector<float>() == std::vector<float>(1000, 4));
    }
    CHECK(add(ones({2}, DType::float32, Device::cuda), 1).to_vector<float>() == std::vector<float>{2, 2});
    if (call == 0) warm = memory_stats(Device::cuda).live;
  }
}

}  // namespace linnet::test
