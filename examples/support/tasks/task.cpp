#include "support/tasks/task.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/settings/program.h"
#include "support/tasks/word_vectors.h"
#include "support/users/conversion_task.h"
#include "support/users/recommendation_task.h"

namespace linnet::examples {

std::unique_ptr<Task> make_task(const Settings& settings) {
  check_word_vectors(settings);
  switch (kind_of(settings.task)) {
    case TaskKind::text: return make_text_task(settings);
    case TaskKind::images: return make_image_task(settings);
    case TaskKind::sequences: return make_sequence_task(settings);
    case TaskKind::labelled_texts: return make_labelled_text_task(settings);
    case TaskKind::users:
      if (settings.task == "conversion") return std::make_unique<ConversionTask>(settings);
      return std::make_unique<RecommendationTask>(settings);
    case TaskKind::summaries: return make_summary_task(settings);
  }
  throw UsageError(fmt::format("task {}", settings.task));
}

std::unique_ptr<Task> make_random_task(const Settings& settings) {
  switch (kind_of(settings.task)) {
    case TaskKind::sequences: return make_random_sequence_task(settings);
    case TaskKind::labelled_texts: return make_random_labelled_text_task(settings);
    default: return make_task(settings);
  }
}

void check_lengths(const Settings& settings, const Task& task) {
  for (const int64_t length : task.lengths()) check_options(settings, length);
}

std::string note_of(const Settings& settings, const Task& task) {
  const nn::Mechanism& mechanism = mechanism_of(settings.attention);
  if (!mechanism.note) return "";
  nn::AttentionConfig config = block_config(settings).attention;
  config.causal = kind_of(settings.task) == TaskKind::text;
  std::vector<std::string> notes;
  for (const int64_t length : task.lengths()) {
    config.max_tokens = length;
    const std::string note = mechanism.note(config);
    if (!note.empty() && std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

nn::Batch batch_at(nn::Loader& loader, int64_t index) {
  const int64_t epoch = index / loader.batches_per_epoch(), batch = index % loader.batches_per_epoch();
  if (loader.position().epoch != epoch || loader.position().batch != batch) loader.seek({epoch, batch});
  return *loader.next();
}

int64_t batches_to_evaluate(const nn::Loader& loader, int64_t batches) {
  const int64_t all = loader.batches_per_epoch();
  return batches > 0 ? std::min(batches, all) : all;
}

}  // namespace linnet::examples
