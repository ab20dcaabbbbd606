#include "support/texts/speakers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>

namespace linnet::examples {
namespace {

/// All speeches of a play, with the place of their first line.
std::vector<LabelledText> speeches_in(const std::filesystem::path& path) {
  const std::string play = linnet::detail::read_file(path);
  std::vector<LabelledText> speeches;
  bool begins = true;  // after an empty line
  int64_t number = 0;
  std::string_view rest = play;
  if (rest.starts_with(linnet::detail::kByteOrderMark)) rest.remove_prefix(linnet::detail::kByteOrderMark.size());
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (begins && line.ends_with(':')) {
      speeches.push_back(
          {"", std::string(line.substr(0, line.size() - 1)), fmt::format("{}, line {}", path.string(), number)});
    } else if (!line.empty() && !speeches.empty()) {
      std::string& text = speeches.back().text;
      if (!text.empty()) text += '\n';
      text += line;
    }
    begins = line.empty();
  }
  return speeches;
}

/// The names of the speakers with the most speeches. Of speakers with equally many, those whose names come first.
std::map<std::string, int64_t> most_frequent(const std::vector<LabelledText>& speeches) {
  constexpr size_t kSpeakers = 10;
  std::map<std::string, int64_t> counts;
  for (const LabelledText& speech : speeches) ++counts[speech.label];
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  sorted.resize(std::min(kSpeakers, sorted.size()));
  return {sorted.begin(), sorted.end()};
}

}  // namespace

TextParts read_speakers(const std::filesystem::path& path) {
  std::vector<LabelledText> speeches = speeches_in(path);
  const std::map<std::string, int64_t> counts = most_frequent(speeches);
  if (counts.size() < 2) {
    throw IoError(
        fmt::format("{} has {} speaker{}: a line with a name and a colon begins each speech, and an empty "
                    "line ends it",
                    path.string(), counts.size(), counts.size() == 1 ? "" : "s"));
  }
  TextParts parts;
  std::map<std::string, int64_t> seen;
  for (LabelledText& speech : speeches) {
    const auto count = counts.find(speech.label);
    if (count == counts.end()) continue;
    const int64_t of_speaker = count->second, tenth = of_speaker / 10, place = seen[speech.label]++;
    if (tenth == 0) {
      throw IoError(fmt::format("{} has {} speeches of {}, where 10 or more are needed", path.string(), of_speaker,
                                speech.label));
    }
    std::vector<LabelledText>& part = place >= of_speaker - tenth       ? parts.test
                                      : place >= of_speaker - 2 * tenth ? parts.dev
                                                                        : parts.train;
    part.push_back(std::move(speech));
  }
  return parts;
}

}  // namespace linnet::examples
