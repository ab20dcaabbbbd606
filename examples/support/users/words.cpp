#include "support/users/words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace linnet::examples {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool is_of_word(char c) { return is_digit(c) || is_letter(c); }
bool is_visible(char c) { return c > ' ' && c < 0x7f; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// A lower-cased text, read word by word.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) { std::ranges::transform(text_, text_.begin(), lower); }

  std::vector<std::string> read() {
    while (at_ < text_.size()) {
      if (is_of_word(text_[at_])) {
        read_word();
      } else {
        if (is_visible(text_[at_])) words_.emplace_back(1, text_[at_]);
        ++at_;
      }
    }
    return std::move(words_);
  }

 private:
  /// The character at `i`; 0 outside of the text.
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  /// Whether the character at `i`, which is none of a word's, stands inside of a word all the same.
  bool joins(size_t i) const {
    if (text_[i] == '-') return is_letter(at(i - 1)) && is_letter(at(i + 1));
    return (text_[i] == '.' || text_[i] == ',') && is_digit(at(i - 1)) && is_digit(at(i + 1));
  }
  bool stands_at(size_t i, std::string_view ending) const {
    return std::string_view(text_).substr(i).starts_with(ending) && !is_of_word(at(i + ending.size()));
  }

  void read_word() {
    size_t end = at_ + 1;
    while (end < text_.size() && (is_of_word(text_[end]) || joins(end))) ++end;
    if (text_[end - 1] == 'n' && stands_at(end, "'t")) {
      if (end - 1 > at_) words_.push_back(text_.substr(at_, end - 1 - at_));
      words_.emplace_back("n't");
      at_ = end + 2;
      return;
    }
    words_.push_back(text_.substr(at_, end - at_));
    at_ = end;
    constexpr std::array<std::string_view, 6> kEndings{"'s", "'re", "'ve", "'ll", "'d", "'m"};
    for (const std::string_view ending : kEndings) {
      if (!stands_at(at_, ending)) continue;
      words_.emplace_back(ending);
      at_ += ending.size();
      return;
    }
  }

  std::string text_;
  size_t at_ = 0;
  std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> words_of(std::string_view text) { return WordReader(text).read(); }

WordIds::WordIds(const std::vector<std::string>& texts, int64_t min_count, int64_t most) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string& text : texts) {
    for (std::string& word : words_of(text)) ++counts[std::move(word)];
  }
  std::vector<std::pair<int64_t, std::string>> kept;  // minus the count, so that the order is that of the ids
  for (const auto& [word, count] : counts) {
    if (count >= min_count) kept.emplace_back(-count, word);
  }
  std::ranges::sort(kept);
  kept.resize(std::min(kept.size(), static_cast<size_t>(most)));
  for (const auto& [count, word] : kept) ids_.emplace(word, static_cast<int32_t>(size()));
}

std::vector<int32_t> WordIds::ids_of(std::string_view text, int64_t most) const {
  std::vector<int32_t> ids;
  for (const std::string& word : words_of(text)) {
    if (std::ssize(ids) == most) break;
    const auto found = ids_.find(word);
    ids.push_back(found != ids_.end() ? found->second : static_cast<int32_t>(kUnknown));
  }
  if (ids.empty()) ids.push_back(kUnknown);
  return ids;
}

}  // namespace linnet::examples
