#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "support/draws.h"
#include "support/lra/load.h"
#include "support/tasks/sequence_classification.h"

/// The tasks of the Long Range Arena.

namespace linnet::examples {
namespace {

/// Random sequences, each as long as the task's longest.
LabelledSequences random_sequences(const Settings& s) {
  const SequenceTask& task = sequence_task(s.task);
  Draws draws({s.seed, 0});
  ByteSequences first, second;
  std::vector<uint8_t> labels;
  for (int64_t i = 0; i < s.batch; ++i) {
    for (ByteSequences* sequences : {&first, &second}) {
      if (sequences == &second && !task.pairs) continue;
      std::vector<uint8_t> bytes(static_cast<size_t>(s.context));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draws.below(task.ids - 1));
      sequences->append(bytes);
    }
    labels.push_back(static_cast<uint8_t>(draws.below(task.classes)));
  }
  return {std::move(first), std::move(labels), std::move(second)};
}

SequencePart part_of(LabelledSequences sequences) {
  std::vector<int64_t> lengths = sequences.lengths();
  return {std::make_unique<LabelledSequences>(std::move(sequences)), std::move(lengths)};
}

/// The share of `test` that has the most common label of `train`.
double accuracy_of_commonest(std::span<const uint8_t> train, std::span<const uint8_t> test) {
  std::array<int64_t, 256> counts{};
  for (const uint8_t label : train) ++counts[label];
  const auto commonest = static_cast<uint8_t>(std::ranges::max_element(counts) - counts.begin());
  return static_cast<double>(std::ranges::count(test, commonest)) / static_cast<double>(test.size());
}

std::unique_ptr<Task> classification(const Settings& s, SequenceData data) {
  const auto tokens = std::ssize(data.train.first().bytes()) + std::ssize(data.train.second().bytes());
  const int64_t mean = tokens / data.train.size();
  const double constant_accuracy = accuracy_of_commonest(data.train.labels(), data.test.labels());
  return make_sequence_classification(s,
                                      {.name = std::move(data.name),
                                       .train = part_of(std::move(data.train)),
                                       .dev = part_of(std::move(data.dev)),
                                       .test = part_of(std::move(data.test)),
                                       .constant_accuracy = constant_accuracy},
                                      {.model = sequence_model_config(s), .measures = {.tokens_per_example = mean}});
}

}  // namespace

nn::SequenceClassifierConfig sequence_model_config(const Settings& s) {
  const SequenceTask& task = sequence_task(s.task);
  return {.vocabulary = task.ids,
          .classes = task.classes,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .max_tokens = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(s.context))),
          .block = block_config(s),
          .positions = positions_of(s),
          .pooling = pool_of(s),
          .pairs = task.pairs};
}

std::unique_ptr<Task> make_sequence_task(const Settings& s) {
  check_options(s, sequence_model_config(s).max_tokens);
  return classification(s, load_sequences(s));
}

std::unique_ptr<Task> make_random_sequence_task(const Settings& s) {
  check_options(s, sequence_model_config(s).max_tokens);
  const LabelledSequences data = random_sequences(s);
  return classification(s, SequenceData{"random tokens", data, data, data});
}

}  // namespace linnet::examples
