#pragma once

#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/settings/settings.h"
#include "support/tasks/sequence_classification.h"
#include "support/texts/sets.h"

namespace linnet::examples {

/// Texts as the ids of their words, and their labels as classes. A text is one sequence or, with --levels sentence,
/// one sequence for each sentence.
struct TextData {
  std::vector<std::string>
      classes;                    ///< the labels of the training part: numbers by their value, then others by bytes
  nn::WordVocabulary vocabulary;  ///< of the training part
  ClassifierData data;
};

/// The ids of the first `context` words of each text, or of the first words of its first sentences (`cut`); a text
/// without words is one unknown word. A line on stderr says how many texts are cut.
///
/// Throws: IoError, with the line, for a label that the training part does not have, and for a training part with
/// fewer than two labels.
TextData text_data(const NamedTexts& texts, const Settings& settings);

}  // namespace linnet::examples
