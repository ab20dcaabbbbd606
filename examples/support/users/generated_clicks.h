#pragma once

#include "support/settings/settings.h"
#include "support/users/clicks.h"

namespace linnet::examples {

/// Clicks drawn from a small model. They depend only on data_seed, users, test_users and items. Every item has a
/// topic and a title of 6 to 12 words, which are typical of the topic or common to all titles. Every user likes two
/// topics: most of their clicks are on items of these, the others on any item, so that no model ranks perfectly. A
/// training impression has 5 candidates, a test impression has 20. One of them was clicked.
ClickSet generated_clicks(const Settings& settings);

}  // namespace linnet::examples
