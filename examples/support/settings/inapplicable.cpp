#include "support/settings/inapplicable.h"

#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/settings/program.h"

/// Flags that do not apply to some data or models. (`check_options` checks the mechanisms' own options.)

namespace linnet::examples {
namespace {

/// Flags, when they do not apply, and to what.
struct Inapplicable {
  std::vector<const char*> flags;
  bool (*is_so)(const Settings& settings);
  const char* to;
};

bool has_users(const Settings& s) { return is_of(TaskKind::users, s) && !s.data.empty(); }
bool has_encoder(const Settings& s, UserEncoder encoder) {
  return is_of(TaskKind::users, s) && user_encoder_of(s) == encoder;
}

const std::vector<Inapplicable> kInapplicable{
    {{"--users", "--test-users", "--items", "--sharpness"}, has_users, "--data, whose users are not generated"},
    {{"--data-seed"},
     [](const Settings& s) {
       std::error_code ignored;
       return has_users(s) && (s.task == "recommendation" || std::filesystem::is_directory(s.data, ignored));
     },
     "--data with parts of its own"},
    {{"--strict"},
     [](const Settings& s) { return is_of(TaskKind::users, s) && s.data.empty(); },
     "generated data, which have no lines"},
    {{"--format", "--text-field", "--label-field", "--strict"},
     [](const Settings& s) { return s.task == "speakers"; },
     "--task speakers, which reads a play"},
    {{"--data-seed"},
     [](const Settings& s) { return s.task == "speakers" && !s.lra.stand_in; },
     "--task speakers without --stand-in, whose parts are always the same"},
    {{"--stand-in"},
     [](const Settings& s) { return s.task == "own-texts"; },
     "--task own-texts, for whose texts nothing stands in"},
    {{"--attention", "--layers", "--dropout", "--positions", "--short-conv", "--attention-dropout", "--share",
      "--heads"},
     [](const Settings& s) { return has_encoder(s, UserEncoder::mean); },
     "--encoder mean, which has no layers"},
    {{"--attention", "--layers", "--positions", "--share"},
     [](const Settings& s) { return has_encoder(s, UserEncoder::nrms); },
     "--encoder nrms, which is one softmax attention without positions"}};

}  // namespace

void refuse_inapplicable_flags(const CLI::App& app, const Settings& settings) {
  for (const Inapplicable& each : kInapplicable) {
    if (!each.is_so(settings)) continue;
    for (const char* const flag : each.flags) {
      const CLI::Option* const option = app.get_option_no_throw(flag);
      if (option == nullptr || option->count() == 0) continue;
      throw UsageError(fmt::format("{} does not apply to {}; leave it out", flag, each.to));
    }
  }
}

}  // namespace linnet::examples
