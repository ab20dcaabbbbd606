#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "support/settings/settings.h"
#include "support/texts/formats.h"

namespace linnet::examples {

/// The texts for training, for choosing weights, and for testing.
struct TextParts {
  std::vector<LabelledText> train, dev, test;
};

/// Divides texts that have no parts: a tenth is dev, a tenth is test, and the rest is train. They keep their order,
/// and the first ones are train.
///
/// Throws: IoError for fewer than 10 texts, which `what` names.
TextParts divided(std::vector<LabelledText> texts, const std::string& what);

/// The texts in another order, which depends only on the seed.
std::vector<LabelledText> shuffled(std::vector<LabelledText> texts, uint64_t seed);

/// The texts of a file, shuffled by settings.lra.data_seed and divided; at most `most` of them, if it is not 0. A
/// folder has them as `train`, one of kValidationNames and `test`, either folders of `read_text_folder`, or files of
/// one of the formats. If there is no validation part, it is a tenth of train.
///
/// Throws: as read_text_file; IoError for a folder that has neither; UsageError for a new run's flags that do not
/// apply to the folder.
TextParts read_text_parts(const std::filesystem::path& path, const Settings& settings, MalformedLines& malformed,
                          int64_t most = 0);

}  // namespace linnet::examples
