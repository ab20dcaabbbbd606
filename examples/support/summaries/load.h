#pragma once

#include <string>
#include <vector>

#include "support/settings/settings.h"
#include "support/summaries/articles.h"

namespace linnet::examples {

/// The articles of a task.
struct ArticleParts {
  std::string name;  ///< of the data set; "stand-in: …" if generated ones stand in for it
  bool generated = false;
  std::vector<Article> train, dev, test;
};

/// The articles of settings.task. Those of `sort` and `copy` are generated. For the other tasks `--data` names a file
/// that `read_article_lines` takes, a folder with such files for the parts, `train`, one of kValidationNames and
/// `test`, with the ending .jsonl or .txt, or a folder of *.story files, perhaps in folders with the parts' names.
/// Articles without parts are shuffled by settings.lra.data_seed: a tenth is dev, a tenth test.
///
/// Throws: IoError for absent and damaged data; UsageError for a new run's --data-seed if the articles have parts.
ArticleParts load_articles(const Settings& settings);

/// The generated articles of `sort` and `copy`: 10 to 20 letters, of which up to 8 are capitals. The summary is the
/// capitals in the order of the alphabet, or in that of the text. Each depends only on the seed and its number.
ArticleParts generated_articles(bool sorted, uint64_t seed);

}  // namespace linnet::examples
