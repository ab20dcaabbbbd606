#include <fmt/format.h>

#include "support/format.h"
#include "support/ranks.h"
#include "support/tasks/data_sets.h"
#include "support/tasks/task.h"
#include "support/tasks/text_model.h"

/// A character-level language model on Tiny Shakespeare, a text of your own, or the stand-in.

namespace linnet::examples {
namespace {

/// Loads the text. Throws IoError unless both its training and its validation part have more than `context`
/// characters: a window and the target of its last character.
NamedText text_for(const Settings& s) {
  NamedText source = load_text(s);
  const int64_t train = std::ssize(source.text.train()), validation = std::ssize(source.text.validation());
  if (std::min(train, validation) > s.context) return source;
  constexpr int64_t kParts = 10;  // the last tenth is for validation
  const auto needed = [](int64_t context) { return kParts * context + 1; };
  const int64_t size = train + validation;
  const bool for_any = size < needed(1);
  throw IoError(fmt::format(
      "{} has {} characters, too few for {}: it takes {} or more, since the last tenth is for validation; {}take a "
      "longer text",
      source.path.empty() ? source.name : source.path.string(), format_count(size),
      for_any ? "any context" : fmt::format("--context {}", s.context), format_count(needed(for_any ? 1 : s.context)),
      for_any ? "" : fmt::format("lower --context to {}, or ", (size - 1) / kParts)));
}

class TextTask : public Task {
 public:
  explicit TextTask(const Settings& s)
      : settings_(s),
        source_(text_for(s)),
        rng_(s.seed),
        model_(rng_, text_model_config(s, source_.text.vocabulary().size()), model_dtype(s), device_of(s)) {}

  nn::Module& model() override { return model_; }

  nn::Batch batch(int64_t index) override {
    return nn::random_windows(source_.text.train(), settings_.batch, settings_.context,
                              stream_key(settings_.seed, Stream::train, index));
  }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(model_(batch.inputs), batch.targets); }

  Evaluation evaluate(int64_t batches) override {
    const NoGrad no_grad;
    model_.eval();
    const nn::Windows windows(source_.text.validation(), settings_.context);
    nn::Loader all(windows, {.batch = 64, .shuffle = false});
    const Figures sums = sums_of_batches(batches > 0 ? batches : all.batches_per_epoch(), [&](int64_t i) {
      const nn::Batch batch = batches == 0
                                  ? batch_at(all, i)
                                  : nn::random_windows(source_.text.validation(), settings_.batch, settings_.context,
                                                       stream_key(settings_.seed, Stream::validate, i));
      const nn::Batch there{batch.inputs.to(model_.device()), batch.targets.to(model_.device())};
      const auto size = static_cast<double>(batch.inputs.size(0));
      return Figures{loss(there).item<double>() * size, size};
    });
    model_.train();
    return {.loss = sums[0] / sums[1]};
  }

  std::string test_data() const override { return "all whole windows of the validation text"; }

  int64_t batches_per_epoch() const override {
    return std::ssize(source_.text.train()) / (settings_.batch * settings_.context);
  }
  int64_t tokens_per_batch() const override { return settings_.batch * settings_.context; }
  std::vector<int64_t> lengths() const override { return {settings_.context}; }
  std::string data_name() const override { return source_.name; }
  std::map<std::string, std::string> metadata() const override {
    return vocabulary_metadata(source_.text.vocabulary());
  }

  std::string sample(int64_t tokens) override {
    Generator rng(settings_.seed);
    const nn::Vocabulary& vocabulary = source_.text.vocabulary();
    std::string text;
    generate(model_, vocabulary, {.prompt = default_prompt(vocabulary), .tokens = tokens}, rng,
             [&](const std::string& part) { text += part; });
    return text;
  }

 private:
  Settings settings_;
  NamedText source_;
  Generator rng_;
  nn::DecoderLM model_;
};

}  // namespace

std::unique_ptr<Task> make_text_task(const Settings& settings) { return std::make_unique<TextTask>(settings); }

}  // namespace linnet::examples
