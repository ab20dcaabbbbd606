#pragma once

#include "support/settings/settings.h"
#include "support/users/clicks.h"

namespace linnet::examples {

/// Clicks drawn from a small model, which depend on data_seed, users, test_users and items alone. Every item has a
/// topic and a title of 6 to 12 words, which are typical of the topic or common to all titles. Every user likes two
/// topics: most of their clicks are on items of these, the others on any item, so that no model ranks perfectly. An
/// impression to learn from has 5 candidates, one to test with has 20, of which one was clicked.
ClickSet generated_clicks(const Settings& settings);

}  // namespace linnet::examples
