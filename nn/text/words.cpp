#include <linnet/nn/text/words.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>

namespace linnet::nn {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) > 0x7F;
}
bool is_of_word(char c) { return is_digit(c) || is_letter(c); }
bool is_visible(char c) { return c > ' ' && c != 0x7F; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Cuts a text into words.
class WordCutter {
 public:
  explicit WordCutter(std::string_view text) : text_(text) {}

  std::vector<std::string> words() {
    for (size_t at = 0; at < text_.size();) {
      if (is_of_word(text_[at])) {
        at = cut_word(at);
      } else {
        if (is_visible(text_[at])) add(at, at + 1);
        ++at;
      }
    }
    return std::move(words_);
  }

 private:
  char at(size_t place) const { return place < text_.size() ? text_[place] : ' '; }

  /// Whether the mark at `place` belongs to the word around it: a hyphen between letters, or a point or comma between
  /// digits.
  bool joins(size_t place) const {
    const char mark = at(place), before = at(place - 1), after = at(place + 1);
    if (mark == '-') return is_letter(before) && is_letter(after);
    return (mark == '.' || mark == ',') && is_digit(before) && is_digit(after);
  }

  /// The position after the ending that begins at `place`, such as `'s`; `place` itself if there is none.
  size_t end_of_ending(size_t place) const {
    constexpr std::array<std::string_view, 7> kEndings{"n't", "'s", "'re", "'ve", "'ll", "'d", "'m"};
    for (const std::string_view ending : kEndings) {
      const size_t end = place + ending.size();
      const bool is_it =
          end <= text_.size() && std::ranges::equal(text_.substr(place, ending.size()), ending, {}, lower);
      if (is_it && !is_of_word(at(end))) return end;
    }
    return place;
  }

  /// Adds the word that begins at `begin`, and its endings. Returns the place after them.
  size_t cut_word(size_t begin) {
    size_t end = begin;
    while (is_of_word(at(end)) || joins(end)) ++end;
    if (end_of_ending(end - 1) > end) --end;  // the n of n't
    if (end > begin) add(begin, end);
    for (size_t next = end_of_ending(end); next > end; next = end_of_ending(end)) {
      add(end, next);
      end = next;
    }
    return end;
  }

  void add(size_t begin, size_t end) {
    std::string& word = words_.emplace_back(text_.substr(begin, end - begin));
    std::ranges::transform(word, word.begin(), lower);
  }

  std::string_view text_;
  std::vector<std::string> words_;
};

constexpr std::array<const char*, 2> kSpecialWords{"<pad>", "<unk>"};  // the names of padding and of unknown words

/// A word that a vocabulary cannot have.
struct WrongWord {
  size_t id;
  std::string why;
};

/// The first wrong word, if there is one.
std::optional<WrongWord> wrong_word(const std::vector<std::string>& words) {
  for (size_t id = 0; id < kSpecialWords.size(); ++id) {
    const bool is_end = id == words.size();
    if (!is_end && words[id] == kSpecialWords[id]) continue;
    const std::string there = is_end ? "the end" : fmt::format("'{}'", detail::shortened(words[id]));
    return WrongWord{id, fmt::format("{} where '{}' belongs", there, kSpecialWords[id])};
  }
  std::unordered_set<std::string_view> seen;
  for (size_t id = 0; id < words.size(); ++id) {
    const std::string& word = words[id];
    if (word.empty()) return WrongWord{id, "a word is empty"};
    if (word.find_first_of("\r\n") != std::string::npos) {
      return WrongWord{id, fmt::format("'{}' has a line end", detail::shortened(word))};
    }
    if (!seen.insert(word).second) return WrongWord{id, fmt::format("'{}' is there twice", detail::shortened(word))};
  }
  return std::nullopt;
}

/// The lines of a text without their ends.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  lines.reserve(static_cast<size_t>(std::ranges::count(text, '\n')) + 1);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

std::vector<std::string> word_tokenize(std::string_view text) { return WordCutter(text).words(); }

WordVocabulary::WordVocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  for (int64_t id = kUnknown + 1; id < size(); ++id) ids_.emplace(words_[static_cast<size_t>(id)], id);
}

WordVocabulary WordVocabulary::build(std::span<const std::string> texts, const WordVocabularyOptions& options,
                                     Where where) {
  const Call call("WordVocabulary::build", where);
  if (options.min_freq < 1) throw ValueError(fmt::format("min_freq is {}; it must be at least 1", options.min_freq));
  if (options.max_tokens != 0 && options.max_tokens < 3) {
    throw ValueError(
        fmt::format("max_tokens is {}; it must be at least 3, for padding, unknown words and a word, or 0 "
                    "for no limit",
                    options.max_tokens));
  }
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string& text : texts) {
    for (std::string& word : word_tokenize(text)) ++counts[std::move(word)];
  }
  std::erase_if(counts, [&](const auto& counted) { return counted.second < options.min_freq; });
  std::vector<std::pair<int64_t, std::string>> sorted;
  sorted.reserve(counts.size());
  for (const auto& [word, count] : counts) sorted.emplace_back(-count, word);
  std::ranges::sort(sorted);
  std::vector<std::string> words(kSpecialWords.begin(), kSpecialWords.end());
  for (auto& [count, word] : sorted) {
    if (std::ssize(words) == options.max_tokens) break;
    words.push_back(std::move(word));
  }
  return WordVocabulary(std::move(words));
}

WordVocabulary WordVocabulary::from_words(std::vector<std::string> words, Where where) {
  const Call call("WordVocabulary::from_words", where);
  if (const auto wrong = wrong_word(words)) {
    throw ValueError(fmt::format("word {}: {}; give the words() of a vocabulary", wrong->id, wrong->why));
  }
  return WordVocabulary(std::move(words));
}

WordVocabulary WordVocabulary::load(const std::filesystem::path& path, Where where) {
  const Call call("WordVocabulary::load", where);
  const auto fail = [&](size_t line, const std::string& why) {
    throw IoError(
        fmt::format("{}, line {}: {}; the file must be whole, and one that save() wrote", path.string(), line, why));
  };
  const std::string text = detail::read_file(path);
  std::vector<std::string> words = lines_of(text);
  if (const auto wrong = wrong_word(words)) fail(wrong->id + 1, wrong->why);
  if (!text.ends_with('\n')) fail(words.size(), "the line has no end");
  return WordVocabulary(std::move(words));
}

void WordVocabulary::save(const std::filesystem::path& path, Where where) const {
  const Call call("WordVocabulary::save", where);
  const std::string text = fmt::format("{}\n", fmt::join(words_, "\n"));
  AtomicFile file(path);
  file.write(text.data(), std::ssize(text));
  file.commit();
}

int64_t WordVocabulary::id(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnknown : found->second;
}

std::vector<int64_t> WordVocabulary::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  for (const std::string& word : word_tokenize(text)) ids.push_back(id(word));
  return ids;
}

std::string WordVocabulary::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size()) {
      throw IndexError(
          fmt::format("WordVocabulary: id {} is not in the vocabulary of {} words, 0 to {}", id, size(), size() - 1));
    }
    text += words_[static_cast<size_t>(id)] + ' ';
  }
  return text;
}

}  // namespace linnet::nn
