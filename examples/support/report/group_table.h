#pragma once

#include "support/report/runs.h"

namespace linnet::examples {

/// Prints a table for each group, with the seeds, how far each mechanism is from softmax attention at the same seeds,
/// and what a constant answer comes to. Below it are the accuracies of all seeds and the machine that computed; a
/// line on stderr says where it is not the same for all.
void print_groups(const Groups& groups);

}  // namespace linnet::examples
