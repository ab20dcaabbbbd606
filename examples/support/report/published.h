#pragma once

#include <array>
#include <string>
#include <vector>

/// Published results. `lra --table` and `classify --table` print linnet's results beside them.

namespace linnet::examples {

/// The tasks that have published results, in the order of the papers' tables.
inline const std::array<std::string, 5> kPublishedTasks{"listops", "text", "retrieval", "image", "pathfinder"};

/// A row of a published table.
struct PublishedRow {
  std::string mechanism;
  std::string source;
  std::array<double, 5> values;  ///< of kPublishedTasks
  double average;                ///< as printed in the paper, or else computed
};

/// Accuracies of the test sets in %, of models of one size and one budget.
const std::vector<PublishedRow>& published_accuracies();
/// Accuracies of other models, which were trained in other ways and cannot be ranked with those above.
const std::vector<PublishedRow>& published_apart();
/// The tasks of texts that have published results.
inline const std::array<std::string, 3> kPublishedTexts{"amazon", "imdb", "mind-topics"};

/// A row of a published table of classifiers of texts.
struct PublishedTexts {
  struct Result {
    double accuracy, macro_f;  ///< of the test set, in %
  };
  std::string mechanism;
  std::array<Result, 3> values;  ///< of kPublishedTexts
};

/// Wu et al. 2021, table 4.
const std::vector<PublishedTexts>& published_classifications();

/// Training steps per second on an A5000: Gerami et al. 2024, table 2.
const std::vector<PublishedRow>& published_speeds();

}  // namespace linnet::examples
