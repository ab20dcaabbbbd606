#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "tests/support/allocation_failure.h"
#include "tests/support/files.h"
#include "tests/support/threads.h"

/// Every allocation of a training step, of loading, saving and generating text fails once. Each time an error is
/// thrown, nothing leaks, nothing is half done, and the same objects can then do the same work with bit-identical
/// results.

namespace linnet::test {
namespace {

/// A small model in training, with the whole state on which its next step depends.
template <class Model>
class Training {
 public:
  template <class Config>
  Training(const Config& config, Tensor targets)
      : targets_(std::move(targets)),
        model_(rng_, config),
        parameters_(model_.parameters()),
        optimizer_(nn::decay_matrices_only(parameters_, 0.1)) {
    step();
    remember();
  }

  Model& model() { return model_; }
  nn::AdamW& optimizer() { return optimizer_; }

  double step() {
    const Tensor loss = cross_entropy(model_(inputs_), targets_);
    backward(loss);
    const Tensor norm = nn::grad_norm(parameters_);
    optimizer_.step(
        {.grad_factor = nn::clip_factor(norm, 1), .apply = lt(norm, std::numeric_limits<double>::infinity())});
    optimizer_.zero_grad();
    return loss.item<double>();
  }

  void remember() {
    model_state_.clear();
    for (const auto& [name, tensor] : model_.state()) model_state_[name] = tensor.clone();
    optimizer_state_.clear();
    for (const auto& [name, tensor] : optimizer_.state()) optimizer_state_[name] = tensor.clone();
    rng_state_ = rng_.state();
  }
  void go_back() {
    optimizer_.zero_grad();
    model_.load_state(model_state_);
    optimizer_.load_state(optimizer_state_);
    rng_.set_state(rng_state_);
  }

  /// All numbers of the training's state.
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const auto& states : {model_.state(), optimizer_.state()}) {
      for (const auto& [name, tensor] : states) {
        const std::vector<double> values = tensor.template to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

 private:
  Tensor inputs_ = tensor({{0, 1, 2, 3, 4, 0, 1, 2}, {4, 3, 2, 1, 0, 4, 3, 2}}, DType::int64);
  Tensor targets_;
  Generator rng_{1};
  Model model_;
  std::vector<Tensor> parameters_;
  nn::AdamW optimizer_;
  TensorMap model_state_, optimizer_state_;
  Generator::State rng_state_{};
};

nn::BlockConfig block_with(const std::string& mechanism) {
  nn::BlockConfig block{.attention = {.mechanism = mechanism, .width = 8, .heads = 2, .dropout = 0.1},
                        .dropout = 0.1};
  // With 8 tokens the defaults would be full attention.
  if (mechanism == "bigbird") block.attention.options = nn::BigBirdConfig{.block = 1};
  if (mechanism == "informer") block.attention.options = nn::InformerConfig{.queries = 2};
  if (mechanism == "linformer") block.attention.options = nn::LinformerConfig{.rank = 2};
  return block;
}

Training<nn::DecoderLM> language_model(const std::string& mechanism) {
  return {nn::DecoderConfig{.vocabulary = 5, .context = 8, .layers = 1, .block = block_with(mechanism)},
          tensor({{1, 2, 3, 4, 0, 1, 2, 3}, {3, 2, 1, 0, 4, 3, 2, 1}}, DType::int64)};
}

Training<nn::SequenceClassifier> classifier(const std::string& mechanism) {
  return {nn::SequenceClassifierConfig{.vocabulary = 5, .max_tokens = 8, .block = block_with(mechanism)},
          tensor({0, 1}, DType::int64)};
}

template <class Model>
void fail_each_request_of_a_step(Training<Model>&& training) {
  const double loss = training.step();
  const std::vector<double> numbers = training.numbers();
  training.go_back();
  const int64_t calls = fail_each_request([&] { training.step(); },
                                          [&](bool) {
                                            training.go_back();
                                            REQUIRE(training.step() == loss);
                                            REQUIRE(training.numbers() == numbers);
                                            training.go_back();
                                          });
  CHECK(calls > 100);
}

}  // namespace

TEST_CASE("memory: a training step in which any request fails throws, leaks nothing, and can be made again") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  const std::vector<std::string> causal = nn::causal_mechanisms();
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    if (std::ranges::count(causal, mechanism) > 0) {
      fail_each_request_of_a_step(language_model(mechanism));
    } else {
      fail_each_request_of_a_step(classifier(mechanism));
    }
  }
}

TEST_CASE("memory: an optimizer's first step in which any request fails can be made again") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  Tensor x = ones({100}).set_requires_grad();
  x.set_grad(ones({100}));
  std::optional<nn::AdamW> optimizer;
  const auto restart = [&] {
    x.detach().fill_(1);
    optimizer.emplace(std::vector{x}, nn::AdamWConfig{.lr = 0.1, .weight_decay = 0});
  };
  restart();
  const int64_t calls = fail_each_request([&] { optimizer->step(); },
                                          [&](bool failed) {
                                            if (failed) optimizer->step();
                                            REQUIRE(max(abs(x.detach() - 0.9)).item<double>() < 1e-6);
                                            restart();
                                          });
  CHECK(calls > 2);
}

TEST_CASE("memory: a model that could not be loaded for want of memory is what it was") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  const TemporaryFolder folder;
  auto saved = language_model("softmax");
  saved.model().save(folder / "model.safetensors");
  const std::vector<double> there = saved.numbers();
  auto training = language_model("softmax");
  training.step();
  training.remember();
  const std::vector<double> before = training.numbers();
  REQUIRE(before != there);
  fail_each_request([&] { training.model().load(folder / "model.safetensors"); },
                    [&](bool failed) {
                      if (failed) REQUIRE(training.numbers() == before);
                      training.go_back();
                    });
}

TEST_CASE("memory: an optimizer that could not be loaded for want of memory is what it was") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  auto saved = language_model("softmax");
  const TensorMap there = saved.optimizer().state();
  auto training = language_model("softmax");
  training.step();
  training.optimizer().set_lr(0.5);
  training.remember();
  const std::vector<double> before = training.numbers();
  fail_each_request([&] { training.optimizer().load_state(there); },
                    [&](bool failed) {
                      if (failed) REQUIRE(training.numbers() == before);
                      training.go_back();
                    });
  // An optimizer without a step has no moments to copy to.
  std::unique_ptr<nn::AdamW> fresh;
  fail_each_request(
      [&] {
        fresh = std::make_unique<nn::AdamW>(nn::decay_matrices_only(training.model().parameters(), 0.1));
        fresh->load_state(there);
      },
      [&](bool failed) {
        if (fresh) REQUIRE(fresh->state().size() == (failed ? 3 : there.size()));  // lr, weight_decay and steps
        if (fresh && failed) REQUIRE(fresh->state().at("steps").sum().item() == 0);
        fresh.reset();
      });
}

TEST_CASE("memory: a file that could not be saved for want of memory is the old one, and nothing is left beside it") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  const TemporaryFolder folder;
  auto training = language_model("fastformer");
  training.model().save(folder / "model.safetensors");
  const std::string old = read_bytes(folder / "model.safetensors");
  training.step();
  training.model().save(folder / "new.safetensors");
  const std::string wanted = read_bytes(folder / "new.safetensors");
  std::filesystem::remove(folder / "new.safetensors");
  fail_each_request([&] { training.model().save(folder / "model.safetensors"); },
                    [&](bool failed) {
                      REQUIRE(folder.file_count() == 1);
                      REQUIRE(read_bytes(folder / "model.safetensors") == (failed ? old : wanted));
                      write_bytes(folder / "model.safetensors", old);
                    });
}

TEST_CASE("memory: text that could not be generated for want of memory is generated afterwards") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  const std::vector<int64_t> prompt{1, 2};
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    auto training = language_model(mechanism);
    const auto generate = [&] {
      Generator rng(7);
      return nn::generate(training.model(), prompt, rng, {.max_new_tokens = 3});
    };
    const std::vector<int64_t> text = generate();
    fail_each_request([&] { generate(); },
                      [&](bool) {
                        REQUIRE(training.model().training());
                        REQUIRE(generate() == text);
                      });
  }
}

}  // namespace linnet::test
