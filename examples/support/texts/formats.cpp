#include "support/texts/formats.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>

#include "support/settings/program.h"

namespace linnet::examples {
namespace {

constexpr const char* kAuto = "auto";

/// The index of a column, given its number from 1 on.
size_t column_of(const std::string& flag, const std::string& word) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && number >= 1) return number - 1;
  throw UsageError(fmt::format("{} {}: columns of tables have numbers, from 1 on", flag, word));
}

}  // namespace

const std::vector<TextFormat>& text_formats() {
  static const std::vector<TextFormat> formats{
      {.name = "jsonl", .endings = {".jsonl", ".jsonl.gz", ".json", ".json.gz"}, .read = read_jsonl},
      {.name = "tsv", .endings = {".tsv", ".tsv.gz"}, .read = read_tsv},
      {.name = "csv", .endings = {".csv"}, .read = read_labelled_csv}};
  return formats;
}

std::vector<std::string> text_format_names() {
  std::vector<std::string> names{kAuto};
  for (const TextFormat& format : text_formats()) names.push_back(format.name);
  return names;
}

const TextFormat* text_format_of(const std::filesystem::path& path, const LabelledTextSettings& settings) {
  const std::string name = path.filename().string();
  const auto found = std::ranges::find_if(text_formats(), [&](const TextFormat& format) {
    if (settings.format != kAuto) return settings.format == format.name;
    return std::ranges::any_of(format.endings, [&](const std::string& ending) { return name.ends_with(ending); });
  });
  return found == text_formats().end() ? nullptr : &*found;
}

const char* flag_of_files(const Settings& settings) {
  const LabelledTextSettings published = preset(settings.task, settings.preset).texts, &now = settings.texts;
  if (now.format != published.format) return "--format";
  if (now.text_field != published.text_field) return "--text-field";
  if (now.label_field != published.label_field) return "--label-field";
  return now.strict ? "--strict" : nullptr;
}

std::vector<LabelledText> read_text_file(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                         MalformedLines& malformed) {
  const TextFormat* const format = text_format_of(path, settings);
  if (format == nullptr) {
    throw UsageError(fmt::format("--format {}: {} has an ending that no format has; name one of {}", settings.format,
                                 path.string(), fmt::join(text_format_names(), ", ")));
  }
  std::vector<LabelledText> texts = format->read(path, settings, malformed);
  if (texts.empty()) throw IoError(fmt::format("{} has no text with a label in it", path.string()));
  return texts;
}

std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

TextColumns::TextColumns(const LabelledTextSettings& settings) {
  if (!settings.label_field.empty()) label = column_of("--label-field", settings.label_field);
  if (settings.text_field.empty()) return;
  for (const std::string& word : words_of_list(settings.text_field)) text.push_back(column_of("--text-field", word));
  if (std::ranges::find(text, label) == text.end()) return;
  throw UsageError(fmt::format("--text-field {} contains the label's column {}; name another with --label-field",
                               settings.text_field, label + 1));
}

void TextColumns::add(const std::vector<std::string>& cells, const std::string& place,
                      std::vector<LabelledText>& texts, MalformedLines& malformed) const {
  std::vector<size_t> columns = text;
  if (columns.empty()) {
    columns.resize(std::max<size_t>(cells.size(), 2) - 1);
    std::iota(columns.begin(), columns.end(), size_t{0});
    for (size_t& column : columns) column += column >= label ? 1 : 0;
  }
  const size_t last = std::max(label, std::ranges::max(columns));
  if (last >= cells.size()) {
    malformed.add(place, fmt::format("{} column{}, where {} or more are expected", cells.size(),
                                     cells.size() == 1 ? "" : "s", last + 1));
    return;
  }
  if (cells[label].empty()) {
    malformed.add(place, fmt::format("column {} is empty, where a label is expected", label + 1));
    return;
  }
  std::string joined;
  for (const size_t column : columns) joined += (column == columns.front() ? "" : " ") + cells[column];
  texts.push_back({std::move(joined), cells[label], place});
}

}  // namespace linnet::examples
