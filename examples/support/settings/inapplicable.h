#pragma once

#include "support/settings/settings.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// Call after parsing: throws UsageError for a flag that does not apply to the data or the model of the settings.
void refuse_inapplicable_flags(const CLI::App& app, const Settings& settings);

}  // namespace linnet::examples
