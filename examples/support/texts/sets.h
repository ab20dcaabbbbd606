#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/lra/public_set.h"
#include "support/settings/settings.h"
#include "support/texts/parts.h"

namespace linnet::examples {

/// A set of texts with labels. To add one, add a row in text_sets(), and a file if its format is not one of
/// text_formats().
struct TextSet {
  std::string task;                ///< of --task
  PublicSet files;                 ///< empty: the set has none, and --data names a user's own
  std::vector<std::string> names;  ///< of the file or folder to read; the first one that exists counts
  TextParts (*read)(const std::filesystem::path& path, const Settings& settings, MalformedLines& malformed);
  TextParts (*stand_in)(const Settings& settings);  ///< null if there is none
};

const std::vector<TextSet>& text_sets();

/// The texts of a task.
struct NamedTexts {
  std::string name;  ///< of the data set; "stand-in: …" if other data stand in for it
  TextParts parts;
};

/// The texts of settings.task: of the file that --data names, or of the set in the data folders. A set that is absent
/// is an error; with --stand-in generated texts are used, with a line on stderr.
///
/// Throws: IoError for absent and damaged data; UsageError for settings that do not fit them.
NamedTexts load_labelled_texts(const Settings& settings);

}  // namespace linnet::examples
