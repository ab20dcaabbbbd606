#include <set>

#include <fmt/format.h>
#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>

#include "support/files.h"
#include "support/texts/formats.h"
#include "support/texts/lines.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

/// What a folder holds, sorted by name, without what is hidden.
std::set<fs::path> entries_of(const fs::path& folder) {
  std::set<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!is_hidden(entry.path())) entries.insert(entry.path());
  }
  if (error) throw IoError(fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
  return entries;
}

}  // namespace

std::vector<LabelledText> read_text_folder(const fs::path& folder) {
  std::vector<LabelledText> texts;
  for (const fs::path& of_label : entries_of(folder)) {
    const std::string label = of_label.filename().string();
    if (label == "unsup" || !fs::is_directory(of_label)) continue;
    const size_t before = texts.size();
    for (const fs::path& file : entries_of(of_label)) {
      if (file.extension() != ".txt") continue;
      texts.push_back({linnet::detail::read_file(file), label, file.string()});
      refuse_byte_0(texts.back().text, file.string());
    }
    if (texts.size() == before) {
      throw IoError(fmt::format("{} has no text in *.txt; each label is a folder of them", of_label.string()));
    }
  }
  if (texts.empty()) throw IoError(fmt::format("{} has no folder of texts for any label", folder.string()));
  return texts;
}

}  // namespace linnet::examples
