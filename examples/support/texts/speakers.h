#pragma once

#include <filesystem>

#include "support/texts/parts.h"

namespace linnet::examples {

/// The speeches of the ten speakers with the most speeches in a play that has the form of Tiny Shakespeare: a line
/// with a name and a colon, the speech, an empty line. The label is the speaker. The first 80 % of each speaker's
/// speeches train, the next 10 % are dev, and the last 10 % test; each part is in the order of the file. (A division
/// of the whole file would train on some plays and test on others, with other speakers.)
///
/// Throws: IoError for a file that cannot be read, with fewer than two speakers, or with a speaker among these ten
/// who has fewer than 10 speeches.
TextParts read_speakers(const std::filesystem::path& path);

}  // namespace linnet::examples
