#pragma once

#include <vector>

#include "support/users/items.h"
#include "support/users/two_level_model.h"

namespace linnet::examples {

/// The scores of each user's candidates, of which users may have different numbers. Each item that they need goes
/// through the model once, however many have it. A candidate below 0 has no item, and any score.
std::vector<std::vector<double>> scores_of(TwoLevelModel& model, const Lists& items,
                                           const std::vector<UserAndCandidates>& users);

}  // namespace linnet::examples
