#include "support/lra/public_set.h"

#include <cstdio>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "support/settings/program.h"

namespace linnet::examples {

std::optional<FoundData> find_public(const Settings& settings, const PublicSet& set) {
  auto found =
      set.is_in != nullptr ? find_data(settings, set.folder, set.is_in) : find_data(settings, set.folder, set.file);
  if (found) return found;
  if (settings.began_with_stand_in) {
    report_stand_in_again(set.name, set.stand_in);
    return std::nullopt;
  }
  const std::string place = settings.data.empty() ? fmt::format("a folder {}/ in {}", set.folder, data_places())
                                                  : fmt::format("{0} or {0}/{1}", settings.data.string(), set.folder);
  const std::string absent = fmt::format("no {} ({}) in {}", set.name, set.files, place);
  if (settings.lra.stand_in) {
    if (set.check_stand_in != nullptr) set.check_stand_in(settings);
    fmt::print(stderr, "{}: taking {} instead\n", absent, set.stand_in);
    return std::nullopt;
  }
  throw IoError(fmt::format("{}; it is {}, and --stand-in goes on with {}", absent, set.source, set.stand_in));
}

void refuse_for_generated(const char* flag, bool is_given) {
  if (!is_given) return;
  throw UsageError(
      fmt::format("{} does not apply to the generated data that stand in for the public set; leave it out", flag));
}

void refuse_data_seed(const Settings& settings, const std::string& data) {
  if (settings.lra.data_seed == LraSettings{}.data_seed) return;
  throw UsageError(fmt::format("--data-seed {} does not apply to {}; leave it out", settings.lra.data_seed, data));
}

void refuse_data_seed(const Settings& settings, const FoundData& data) {
  refuse_data_seed(settings, fmt::format("the published data in {}, which are not generated", data.path.string()));
}

SequenceData named_by_content(const std::string& name, SequenceData data) {
  std::vector<std::span<const std::byte>> parts;
  for (const LabelledSequences* part : {&data.train, &data.dev, &data.test}) {
    for (const auto bytes : {part->first().bytes(), part->second().bytes(), part->labels()}) {
      parts.push_back(std::as_bytes(bytes));
    }
  }
  data.name = name_by_content(parts, name);
  return data;
}

}  // namespace linnet::examples
