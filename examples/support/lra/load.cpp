#include "support/lra/load.h"

#include <algorithm>

#include <fmt/format.h>

#include "support/lra/documents.h"
#include "support/lra/images.h"
#include "support/lra/listops.h"
#include "support/lra/pathfinder_data.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

constexpr int64_t kByteIds = 257;  // every byte, and padding

}  // namespace

const std::vector<SequenceTask>& sequence_tasks() {
  static const std::vector<SequenceTask> tasks{
      {.name = "listops", .ids = kListOpsIds, .classes = 10, .pairs = false, .load = load_listops},
      {.name = "text", .ids = kByteIds, .classes = 2, .pairs = false, .load = load_reviews},
      {.name = "retrieval", .ids = kByteIds, .classes = 2, .pairs = true, .load = load_retrieval},
      {.name = "image", .ids = kByteIds, .classes = 10, .pairs = false, .load = load_cifar},
      {.name = "pathfinder", .ids = kByteIds, .classes = 2, .pairs = false, .load = load_pathfinder},
      {.name = "digits", .ids = kByteIds, .classes = 10, .pairs = false, .load = load_digits}};
  return tasks;
}

const SequenceTask& sequence_task(const std::string& name) {
  const auto found = std::ranges::find(sequence_tasks(), name, &SequenceTask::name);
  if (found == sequence_tasks().end()) throw UsageError(fmt::format("--task {}: no task of sequences", name));
  return *found;
}

SequenceData load_sequences(const Settings& settings) {
  SequenceData data = sequence_task(settings.task).load(settings);
  int64_t longest = 0;
  for (const LabelledSequences* part : {&data.train, &data.dev, &data.test}) {
    for (const int64_t length : part->lengths()) longest = std::max(longest, length);
  }
  if (longest <= settings.context) return data;
  throw UsageError(
      fmt::format("the sequences of {} have up to {} tokens, more than the {} of the preset {}; choose "
                  "another preset, or a larger --downsample",
                  data.name, longest, settings.context, settings.preset));
}

}  // namespace linnet::examples
