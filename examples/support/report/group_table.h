#pragma once

#include "support/report/runs.h"

namespace linnet::examples {

/// Prints a table for each group, with the seeds, each mechanism's difference from softmax attention at the same
/// seeds, and the result of a constant answer. Below it are the accuracies of all seeds and the machine that computed
/// them. A line on stderr says if the machines differ.
void print_groups(const Groups& groups);

}  // namespace linnet::examples
