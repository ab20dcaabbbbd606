#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/settings/settings.h"
#include "support/users/items.h"

namespace linnet::examples {

/// A user who clicked an ad. Behaviours and ad are numbers of items.
struct Conversion {
  std::vector<int32_t> behaviours;  ///< searches and pages, the oldest first
  int32_t ad = 0;
  bool label = false;      ///< whether the click led to a conversion
  double probability = 0;  ///< of a conversion, in generated data
};

/// Users to train on and to test with.
struct ConversionSet {
  std::string name;
  int64_t vocabulary = 0;  ///< number of ids of words
  bool is_generated = false;
  Lists items;  ///< the words of each text
  std::vector<Conversion> train, dev, test;
};

/// Reads lines of JSON, {"behaviours": ["text", …], "ad": "text", "label": 0}, from settings.data, which is a
/// folder with train.jsonl, dev.jsonl and test.jsonl, or one file. data_seed divides the lines of one file: 8 of 10
/// are the training part, 1 of 10 is dev and 1 of 10 test. A text may also be a list of whole numbers, which are then
/// its words. The vocabulary is that of the training part. Texts are cut to their first settings.of_users.title_words
/// words, users to their last settings.of_users.history behaviours.
///
/// Throws: IoError for absent files, for a part without users, and as RecordReader for malformed lines.
ConversionSet load_conversions(const Settings& settings);

/// Users drawn from a small model. They depend only on data_seed, users, test_users and sharpness. A user likes 2 of
/// 20 topics, and 4 of 5 behaviours are of these. An ad has one topic. In half of the cases the user likes this
/// topic. A conversion has the probability σ(sharpness · (−3 + 6·share + recent)), where `share` is that of the ad's
/// topic in the last 10 behaviours, and `recent` is 1 if there is a search of that topic among the last 3.
ConversionSet generated_conversions(const Settings& settings);

}  // namespace linnet::examples
