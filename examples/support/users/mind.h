#pragma once

#include <filesystem>
#include <vector>

#include "support/settings/settings.h"
#include "support/users/clicks.h"

namespace linnet::examples {

/// Reads MIND (Wu et al. 2020) from settings.data: folders train/ and dev/, each with news.tsv and behaviors.tsv.
/// Only the columns with id, title, impression, history and candidates are read. The vocabulary is that of the titles
/// in train/. Titles are cut to their first settings.of_users.title_words words, histories to their last
/// settings.of_users.history news. If news.tsv lacks some news, they are left out of histories, and such candidates
/// become Impression::kUnknown; a line on stderr counts both. The embeddings are those of --glove.
///
/// Throws: IoError for absent files; as RecordReader for malformed lines, and as word_vectors.
ClickSet load_mind(const Settings& settings);

/// The impressions that predictions are made for: those of test/, which have no labels, or those of dev/ if there
/// is no test/.
struct PredictedClicks {
  std::filesystem::path folder;
  Lists items;
  std::vector<Impression> impressions;
};
PredictedClicks load_mind_to_predict(const Settings& settings);

}  // namespace linnet::examples
