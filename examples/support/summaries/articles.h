#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "support/texts/malformed_lines.h"

/// Articles with summaries, and the formats of their files.

namespace linnet::examples {

/// A text and its summary. Each sentence of the summary is on its own line.
struct Article {
  std::string text, summary;
};

/// Reads a file with one JSON object per line. An object with the field `article_text` is one of PubMed; any other
/// has `article` and `summary`.
///
/// Throws: IoError for a file that cannot be read or has no articles, and with the line's number for a malformed one
/// if strict.
std::vector<Article> read_article_lines(const std::filesystem::path& path, MalformedLines& malformed);

/// The article of an object {"article": "…", "summary": "…"}.
///
/// Throws: ValueError, which says what was expected, for any other object.
Article article_of(const nlohmann::json& object);

/// The article of an object of the PubMed set (Cohan et al. 2018): lists `article_text` and `abstract_text` of
/// sentences. Those of the abstract are enclosed in `<S>` and `</S>`, which are removed.
///
/// Throws: ValueError, which says what was expected, for any other object.
Article pubmed_article_of(const nlohmann::json& object);

/// The files *.story in a folder and in the folders within, in the order of their paths.
///
/// Throws: IoError for a folder that cannot be read.
std::vector<std::filesystem::path> story_files(const std::filesystem::path& folder);
/// Reads files *.story of CNN/DailyMail (Hermann et al. 2015): a text, and then blocks of `@highlight`, an empty line
/// and a sentence of the summary.
///
/// Throws: IoError for a file that cannot be read, and for one without a text or a highlight if strict.
std::vector<Article> read_stories(const std::vector<std::filesystem::path>& files, MalformedLines& malformed);

}  // namespace linnet::examples
