#pragma once

#include <vector>

#include "support/users/items.h"
#include "support/users/two_level_model.h"

namespace linnet::examples {

/// The scores of each user's candidates. Users may have different numbers of candidates. The model encodes each item
/// once, even if many users need it. A candidate below 0 has no item, and its score has no meaning.
std::vector<std::vector<double>> scores_of(TwoLevelModel& model, const Lists& items,
                                           const std::vector<UserAndCandidates>& users);

}  // namespace linnet::examples
