#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace linnet::examples {

/// The words of a text. ASCII letters become lower case. A word is a run of letters, digits and bytes beyond ASCII,
/// with
/// `-` between letters, and `.` and `,` between digits. The endings n't, 's, 're, 've, 'll, 'd and 'm are words of
/// their own, and so is every other visible character of ASCII.
std::vector<std::string> words_of(std::string_view text);

/// The ids of words: 0 for padding, 1 for words that it does not have, and from 2 on the words, the most frequent
/// first.
class WordIds {
 public:
  static constexpr int64_t kUnknown = 1, kFirst = 2;

  /// Of texts to learn from. It has the words that stand in them at least `min_count` times, and at most `most` of
  /// them; of equally frequent words those that come first by their bytes.
  explicit WordIds(const std::vector<std::string>& texts, int64_t min_count = 2, int64_t most = 50'000);

  int64_t size() const { return kFirst + std::ssize(ids_); }  ///< the number of ids
  /// The ids of a text's first `most` words; that of an unknown word for a text without words.
  std::vector<int32_t> ids_of(std::string_view text, int64_t most) const;

 private:
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace linnet::examples
