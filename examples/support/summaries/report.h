#pragma once

#include <string>

#include "support/run/training.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// A table that compares the run with the first three sentences of each article and with the published results of its
/// task, and names the data of both. Empty for the generated tasks.
std::string summary_table(const Settings& settings, const TrainingResult& result);

}  // namespace linnet::examples
