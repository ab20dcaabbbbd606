#include "support/lra/load.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "support/lra/documents.h"
#include "support/lra/images.h"
#include "support/lra/listops.h"
#include "support/lra/pathfinder_data.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

constexpr int64_t kByteIds = 257;  // every byte, and padding

/// The largest of some bytes; 0 if there are none.
uint8_t largest(std::span<const uint8_t> bytes) { return bytes.empty() ? uint8_t{0} : std::ranges::max(bytes); }

/// Throws IoError for a part that no model of the task can learn from.
void check_part(const LabelledSequences& part, const std::string& where, const SequenceTask& task) {
  if (part.size() == 0) throw IoError(where + " has no examples; get or make the data again");
  const int64_t label = largest(part.labels());
  if (label >= task.classes) {
    throw IoError(fmt::format("{} has the label {}, and those of {} are 0 to {}; get or make the data again", where,
                              label, task.name, task.classes - 1));
  }
  const int64_t byte = std::max(largest(part.first().bytes()), largest(part.second().bytes()));
  const int64_t id = byte + (part.ids() == Ids::byte_plus_one ? 1 : 0);
  if (id >= task.ids) {
    throw IoError(fmt::format("{} has the id {}, and those of {} are 0 to {}; get or make the data again", where, id,
                              task.name, task.ids - 1));
  }
}

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
  const SequenceTask& task = sequence_task(settings.task);
  SequenceData data = task.load(settings);
  int64_t longest = 0;
  for (const auto& [part, name] :
       {std::pair(&data.train, "train"), std::pair(&data.dev, "dev"), std::pair(&data.test, "test")}) {
    check_part(*part, fmt::format("{}: the part {}", data.name, name), task);
    for (const int64_t length : part->lengths()) longest = std::max(longest, length);
  }
  if (longest <= settings.context) return data;
  throw UsageError(
      fmt::format("the sequences of {} have up to {} tokens, more than the {} of the preset {}; choose "
                  "another preset, or a larger --downsample",
                  data.name, longest, settings.context, settings.preset));
}

}  // namespace linnet::examples
