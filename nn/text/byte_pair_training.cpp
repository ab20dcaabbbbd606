#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/text/byte_characters.h>
#include <linnet/nn/text/byte_pairs.h>
#include <linnet/nn/text/pieces.h>

namespace linnet::nn {

namespace {

constexpr int64_t kBytes = 256;

void check_options(const BytePairOptions& options) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t least = kBytes + std::ssize(options.special_tokens);
  if (options.vocab_size < least || options.vocab_size > kMost) {
    throw ValueError(fmt::format("vocab_size {} must be from {}, for the 256 bytes and {} special token{}, to {}",
                                 options.vocab_size, least, least - kBytes, least == kBytes + 1 ? "" : "s", kMost));
  }
  if (options.min_frequency < 1) {
    throw ValueError(fmt::format("min_frequency must be at least 1, not {}", options.min_frequency));
  }
  std::set<std::string> taken;
  for (int byte = 0; byte < kBytes; ++byte) taken.insert(detail::spelled(std::string(1, static_cast<char>(byte))));
  for (const std::string& name : options.special_tokens) {
    if (name.empty()) throw ValueError("a special token is empty; give each a name, such as <|endoftext|>");
    if (detail::utf8_bytes(name) < name.size())
      throw ValueError("a special token is not UTF-8; give each a name, such as <|endoftext|>");
    if (taken.insert(name).second) continue;
    throw ValueError(
        fmt::format("the special token '{}' stands for a byte in the files, or is given twice; give each "
                    "a name of its own, such as <|endoftext|>",
                    detail::shortened(name)));
  }
}

}  // namespace

/// The distinct pieces of a text ("words"), as the tokens that they consist of so far, and the pairs of neighbouring
/// tokens.
///
/// Each pair keeps the words that it was in when it first occurred. The queue keeps the count and place that it had
/// then. Later merges only remove occurrences, since an old pair cannot appear in another word. So a pair's true rank
/// is never before its rank in the queue, and `pop_best` corrects count and place when the pair is at the top.
class BytePairTokenizer::Trainer {
 public:
  Trainer(std::string_view text, const std::array<int32_t, 256>& byte_ids) {
    std::unordered_map<std::string_view, size_t> index;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, detail::piece_length(text));
      text.remove_prefix(piece.size());
      const auto [entry, is_new] = index.try_emplace(piece, words_.size());
      if (is_new) {
        words_.emplace_back();
        for (const char byte : piece) words_.back().tokens.push_back(byte_ids[static_cast<unsigned char>(byte)]);
      }
      ++words_[entry->second].count;
    }
    for (size_t i = 0; i < words_.size(); ++i) count_pairs(i, words_[i].count);
    queue_new_pairs();
  }

  /// Removes the most frequent pair from the queue and returns it with its count; none if no pair is left. Of equally
  /// frequent pairs it takes the one that comes first in the text.
  struct Best {
    uint64_t pair;
    int64_t count;
  };
  std::optional<Best> pop_best() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const Candidate now = candidate_of(top.pair);
      if (now.count > 0 && !(now < top)) return Best{now.pair, now.count};
      if (now.count > 0) queue_.push(now);
    }
    return std::nullopt;
  }

  /// Replaces all occurrences of the pair by one token with the next free id, in each word from left to right.
  void merge(uint64_t pair) {
    const auto result = static_cast<int32_t>(lengths_.size());
    lengths_.push_back(lengths_[pair >> 32] + lengths_[static_cast<uint32_t>(pair)]);
    for (const size_t word : pairs_.at(pair).words) {
      std::vector<int32_t>& tokens = words_[word].tokens;
      count_pairs(word, -words_[word].count);
      size_t size = 0;
      for (size_t i = 0; i < tokens.size(); ++size) {
        const bool is_pair = i + 1 < tokens.size() && pair_of(tokens[i], tokens[i + 1]) == pair;
        tokens[size] = is_pair ? result : tokens[i];
        i += is_pair ? 2 : 1;
      }
      tokens.resize(size);
      count_pairs(word, words_[word].count);
    }
    pairs_.erase(pair);
    queue_new_pairs();
  }

 private:
  struct Word {
    std::vector<int32_t> tokens = {};
    int64_t count = 0;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<size_t> words = {};  // ascending; some may not have the pair any more
    size_t first = 0;                // no word before words[first] has the pair any more
    bool is_queued = false;
  };
  struct Candidate {
    int64_t count;
    size_t word, place;  // of the pair's first occurrence
    uint64_t pair;
    /// Whether `other` is merged before this one.
    bool operator<(const Candidate& other) const {
      return std::tuple(-count, word, place) > std::tuple(-other.count, other.word, other.place);
    }
  };

  /// The number of bytes of the word before the pair's first occurrence; none if it does not occur. (It does not
  /// count tokens, because merges before the pair would reduce their number.)
  std::optional<size_t> place_in(size_t word, uint64_t pair) const {
    const std::vector<int32_t>& tokens = words_[word].tokens;
    size_t place = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (pair_of(tokens[i], tokens[i + 1]) == pair) return place;
      place += lengths_[static_cast<size_t>(tokens[i])];
    }
    return std::nullopt;
  }

  Candidate candidate_of(uint64_t pair) {
    Pair& uses = pairs_.at(pair);
    for (; uses.count > 0; ++uses.first) {
      const size_t word = uses.words[uses.first];
      if (const auto place = place_in(word, pair)) return {uses.count, word, *place, pair};
    }
    return {0, 0, 0, pair};
  }

  /// Adds `count` to the count of each pair of the word. Adds the word to the words of pairs that are not queued yet.
  void count_pairs(size_t word, int64_t count) {
    const std::vector<int32_t>& tokens = words_[word].tokens;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const uint64_t pair = pair_of(tokens[i], tokens[i + 1]);
      Pair& uses = pairs_[pair];
      uses.count += count;
      if (uses.is_queued) continue;
      if (uses.words.empty()) new_pairs_.push_back(pair);
      if (uses.words.empty() || uses.words.back() != word) uses.words.push_back(word);
    }
  }

  void queue_new_pairs() {
    for (const uint64_t pair : new_pairs_) {
      pairs_.at(pair).is_queued = true;
      queue_.push(candidate_of(pair));
    }
    new_pairs_.clear();
  }

  std::vector<size_t> lengths_ = std::vector<size_t>(kBytes, 1);  // of the tokens, in bytes
  std::vector<Word> words_;                                       // in the order of their first occurrence
  std::unordered_map<uint64_t, Pair> pairs_;
  std::vector<uint64_t> new_pairs_;
  std::priority_queue<Candidate> queue_;
};

BytePairTokenizer BytePairTokenizer::train(std::string_view text, const BytePairOptions& options, Where where) {
  const Call call("BytePairTokenizer::train", where);
  check_options(options);
  std::array<int32_t, kBytes> byte_ids{}, bytes{};
  std::iota(bytes.begin(), bytes.end(), 0);
  constexpr auto kCharacters = detail::byte_characters();
  std::ranges::sort(bytes, {}, [&](int32_t byte) { return kCharacters[static_cast<size_t>(byte)]; });
  std::vector<std::string> tokens;
  for (const int32_t byte : bytes) {
    byte_ids[static_cast<size_t>(byte)] = static_cast<int32_t>(tokens.size());
    tokens.emplace_back(1, static_cast<char>(byte));
  }

  std::vector<Merge> merges;
  Trainer trainer(text, byte_ids);
  while (std::ssize(tokens) + std::ssize(options.special_tokens) < options.vocab_size) {
    const auto best = trainer.pop_best();
    if (!best || best->count < options.min_frequency) break;
    const auto left = static_cast<int32_t>(best->pair >> 32), right = static_cast<int32_t>(best->pair);
    std::string token = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
    if (std::ranges::count(options.special_tokens, detail::spelled(token)) > 0) continue;  // text never gives these
    const auto result = static_cast<int32_t>(tokens.size());
    merges.push_back({left, right, result});
    tokens.push_back(std::move(token));
    trainer.merge(best->pair);
  }

  std::vector<int32_t> special_ids;
  for (const std::string& name : options.special_tokens) {
    special_ids.push_back(static_cast<int32_t>(tokens.size()));
    tokens.push_back(name);
  }
  return {std::move(tokens), byte_ids, std::move(merges), std::move(special_ids)};
}

}  // namespace linnet::nn
