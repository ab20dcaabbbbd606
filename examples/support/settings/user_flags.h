#pragma once

#include "support/settings/settings.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// Adds --data and the other flags for the data of tasks of users, with help texts for the task.
void add_user_flags(CLI::App& app, Settings& settings);

}  // namespace linnet::examples
