#include <algorithm>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>

#include "support/files.h"
#include "support/summaries/articles.h"

namespace linnet::examples {
namespace {

constexpr std::string_view kHighlight = "@highlight";

/// Adds a paragraph on a line of its own.
void add_line(std::string& text, std::string_view line) {
  if (!text.empty()) text += '\n';
  text += line;
}

Article story_of(std::string_view file) {
  Article article;
  bool is_summary = false;
  while (!file.empty()) {
    const size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line == kHighlight) {
      is_summary = true;
    } else if (!line.empty()) {
      add_line(is_summary ? article.summary : article.text, line);
    }
  }
  return article;
}

}  // namespace

std::vector<std::filesystem::path> story_files(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_hidden(entry->path()) && entry->path().extension() == ".story") files.push_back(entry->path());
  }
  if (error) throw IoError(fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
  std::ranges::sort(files);
  return files;
}

std::vector<Article> read_stories(const std::vector<std::filesystem::path>& files, MalformedLines& malformed) {
  std::vector<Article> articles;
  for (const std::filesystem::path& file : files) {
    Article article = story_of(linnet::detail::read_file(file));
    if (article.text.empty() || article.summary.empty()) {
      malformed.add(file.string(),
                    fmt::format("a text is expected, and after it a summary by lines of {}", kHighlight));
    } else {
      articles.push_back(std::move(article));
    }
  }
  return articles;
}

}  // namespace linnet::examples
