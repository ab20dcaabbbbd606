#include "support/users/conversion_task.h"

#include <algorithm>

#include <fmt/format.h>

#include "support/bench/timing.h"
#include "support/format.h"
#include "support/settings/program.h"
#include "support/users/scores.h"

namespace linnet::examples {
namespace {

/// Throws as the constructor of ConversionTask.
ConversionSet conversions_for(const Settings& s) {
  check_options(s, s.of_users.title_words);
  check_options(s, s.of_users.history);
  ConversionSet data = s.data.empty() ? generated_conversions(s) : load_conversions(s);
  if (s.batch <= std::ssize(data.train)) return data;
  throw UsageError(fmt::format("--batch {}: there are {} users to learn from; lower it", s.batch,
                               format_count(std::ssize(data.train))));
}

/// Whether AUC and average precision are defined.
bool has_both(const std::vector<bool>& labels) {
  return std::ranges::count(labels, true) > 0 && std::ranges::count(labels, false) > 0;
}

}  // namespace

nn::Batch ConversionUsers::collate(std::span<const int64_t> indices, RandomKey) const {
  std::vector<UserAndCandidates> users;
  std::vector<float> targets;
  for (const int64_t index : indices) {
    if (index < 0 || index >= size()) throw IndexError(fmt::format("user {} of {}", index, size()));
    const Conversion& user = users_[static_cast<size_t>(index)];
    users.push_back({user.behaviours, {user.ad}});
    targets.push_back(user.label ? 1 : 0);
  }
  return user_batch(items_, users, tensor(targets));
}

ConversionTask::ConversionTask(const Settings& s)
    : settings_(s),
      data_(conversions_for(s)),
      train_(data_.items, data_.train),
      rng_(s.seed),
      model_(rng_, s, data_.vocabulary, true),
      loader_(train_, {.batch = s.batch, .seed = s.seed, .drop_last = true}),
      words_per_batch_(words_per_batch(train_, {.batch = s.batch, .seed = s.seed, .drop_last = true})) {}

Task::Evaluation ConversionTask::evaluate(int64_t batches) { return evaluate(data_.dev, batches); }

Task::Evaluation ConversionTask::evaluate(const std::vector<Conversion>& users, int64_t batches) {
  const int64_t all = std::ssize(users), count = batches > 0 ? std::min(all, batches * settings_.batch) : all;
  std::vector<UserAndCandidates> chosen;
  std::vector<bool> labels;
  for (int64_t i = 0; i < count; ++i) {
    const Conversion& user = users[static_cast<size_t>(i * all / count)];
    chosen.push_back({user.behaviours, {user.ad}});
    labels.push_back(user.label);
  }
  std::vector<double> scores;
  for (const std::vector<double>& score : scores_of(model_, data_.items, chosen)) scores.push_back(score[0]);
  const Tensor of = tensor(scores), targets = tensor(labels);
  Evaluation evaluation{.loss = binary_cross_entropy_with_logits(of, targets.to(DType::float64)).item<double>()};
  if (has_both(labels)) {
    evaluation.measures = {{"AUC", nn::roc_auc(of, targets)}, {"AP", nn::average_precision(of, targets)}};
  }
  return evaluation;
}

std::optional<double> ConversionTask::best_auc() const {
  std::vector<double> probabilities;
  std::vector<bool> labels;
  for (const Conversion& user : data_.test) {
    probabilities.push_back(user.probability);
    labels.push_back(user.label);
  }
  if (!data_.is_generated || !has_both(labels)) return std::nullopt;
  return nn::roc_auc(tensor(probabilities), tensor(labels));
}

ConversionTask::Latency ConversionTask::latency() {
  constexpr size_t kWarmUp = 20, kTimed = 200;
  const NoGrad no_grad;
  model_.eval();
  std::vector<double> times;
  for (size_t i = 0; i < kWarmUp + kTimed; ++i) {
    const Conversion& user = data_.test[i % data_.test.size()];
    const Clock::time_point begin = Clock::now();
    nn::Batch batch = user_batch(data_.items, {{user.behaviours, {user.ad}}}, {});
    batch.inputs = batch.inputs.to(model_.device());
    for (Tensor& other : batch.others) other = other.to(model_.device());
    model_(batch).item<double>();
    if (i >= kWarmUp) times.push_back(milliseconds_since(begin));
  }
  model_.train();
  std::ranges::sort(times);
  return {.median = median(times), .percentile_99 = times[kTimed * 99 / 100 - 1]};
}

}  // namespace linnet::examples
