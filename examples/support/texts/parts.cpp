#include "support/texts/parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/error.h>

#include "support/draws.h"
#include "support/lra/public_set.h"
#include "support/settings/program.h"
#include "support/tasks/data_sets.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kParts = 10;

/// Moves the texts from `begin` on into a list of their own.
std::vector<LabelledText> taken_from(std::vector<LabelledText>& texts, int64_t begin) {
  std::vector<LabelledText> rest(std::make_move_iterator(texts.begin() + begin),
                                 std::make_move_iterator(texts.end()));
  texts.resize(static_cast<size_t>(begin));
  return rest;
}

/// The file or folder of a part in the folder; empty if there is none.
fs::path find_part(const fs::path& folder, const std::string& name, const LabelledTextSettings& settings) {
  if (fs::is_directory(folder / name)) return folder / name;
  for (const TextFormat& format : text_formats()) {
    for (const std::string& ending : format.endings) {
      const fs::path file = folder / (name + ending);
      if (fs::exists(file) && text_format_of(file, settings) == &format) return file;
    }
  }
  return {};
}

std::vector<LabelledText> read_part(const fs::path& path, const LabelledTextSettings& settings,
                                    MalformedLines& malformed) {
  return fs::is_directory(path) ? read_text_folder(path) : read_text_file(path, settings, malformed);
}

/// Throws UsageError for flags that say how files with many texts are read, if each part is a folder of *.txt.
void refuse_flags_of_files(const Settings& settings, const std::vector<fs::path>& parts) {
  const char* const flag = flag_of_files(settings);
  const auto has_lines = [](const fs::path& part) { return !part.empty() && !fs::is_directory(part); };
  if (flag == nullptr || std::ranges::any_of(parts, has_lines)) return;
  throw UsageError(fmt::format("{} does not apply to {}, whose texts are one file *.txt each; leave it out", flag,
                               parts.front().parent_path().string()));
}

TextParts read_folder_of_parts(const fs::path& folder, const Settings& settings, MalformedLines& malformed) {
  const auto find = [&](const std::string& name) { return find_part(folder, name, settings.texts); };
  const fs::path train = find("train"), test = find("test");
  fs::path dev;
  for (const char* const name : kValidationNames) {
    if (dev.empty()) dev = find(name);
  }
  if (train.empty() || test.empty()) {
    throw IoError(
        fmt::format("{} has no {}: a folder train/ with a folder of *.txt for each label is expected, or a "
                    "file such as train.jsonl, and the same for test",
                    folder.string(), train.empty() ? "train" : "test"));
  }
  if (!settings.resume) {  // a run of an older version may have begun with such flags
    refuse_flags_of_files(settings, {train, dev, test});
    if (!dev.empty()) refuse_data_seed(settings, folder.string() + ", which has the parts train, dev and test");
  }
  TextParts parts{.train = read_part(train, settings.texts, malformed),
                  .dev = {},
                  .test = read_part(test, settings.texts, malformed)};
  if (!dev.empty()) {
    parts.dev = read_part(dev, settings.texts, malformed);
    return parts;
  }
  const int64_t count = std::ssize(parts.train);
  if (count < kParts) {
    throw IoError(fmt::format("{} has {} texts, and a tenth of them is for dev; give it 10 or more, or a part dev",
                              train.string(), count));
  }
  parts.train = shuffled(std::move(parts.train), settings.lra.data_seed);
  parts.dev = taken_from(parts.train, count - count / kParts);
  return parts;
}

}  // namespace

TextParts divided(std::vector<LabelledText> texts, const std::string& what) {
  const int64_t count = std::ssize(texts), tenth = count / kParts;
  if (tenth == 0) {
    throw IoError(fmt::format("{}: {} texts, and a tenth of them is for dev and another to test; give 10 or more",
                              what, count));
  }
  TextParts parts;
  parts.test = taken_from(texts, count - tenth);
  parts.dev = taken_from(texts, count - 2 * tenth);
  parts.train = std::move(texts);
  return parts;
}

std::vector<LabelledText> shuffled(std::vector<LabelledText> texts, uint64_t seed) {
  Draws draws({seed, 0});
  for (int64_t left = std::ssize(texts); left > 1; --left) {  // Fisher & Yates
    std::swap(texts[static_cast<size_t>(left - 1)], texts[static_cast<size_t>(draws.below(left))]);
  }
  return texts;
}

TextParts read_text_parts(const fs::path& path, const Settings& settings, MalformedLines& malformed, int64_t most) {
  if (fs::is_directory(path)) return read_folder_of_parts(path, settings, malformed);
  std::vector<LabelledText> texts = shuffled(read_text_file(path, settings.texts, malformed), settings.lra.data_seed);
  if (most > 0 && std::ssize(texts) > most) texts.resize(static_cast<size_t>(most));
  return divided(std::move(texts), path.string());
}

}  // namespace linnet::examples
