#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/lra/sequences.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// A task of the Long Range Arena.
struct SequenceTask {
  std::string name;  ///< of --task
  int64_t ids;       ///< the number of ids, including that of padding
  int64_t classes;
  bool pairs;  ///< whether an example is two sequences
  SequenceData (*load)(const Settings& settings);
};

/// All tasks, in the order of the papers' tables.
const std::vector<SequenceTask>& sequence_tasks();
/// The task with this name, which must exist.
const SequenceTask& sequence_task(const std::string& name);

/// The data of settings.task. A public set that is absent is an error; with --stand-in other data are used, with a
/// line on stderr and a name that begins with "stand-in: ".
///
/// Throws: IoError for absent and damaged data; UsageError for settings that do not fit them, such as a `context`
/// that is shorter than the longest sequence; Interrupted after Ctrl-C while data are generated.
SequenceData load_sequences(const Settings& settings);

}  // namespace linnet::examples
