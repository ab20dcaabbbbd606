#include <linnet/nn/text/byte_pairs.h>

#include <algorithm>
#include <queue>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/text/pieces.h>

namespace linnet::nn {

/// Encodes pieces, one after the other.
class BytePairTokenizer::PieceEncoder {
 public:
  explicit PieceEncoder(const BytePairTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Appends the ids of `piece`. Until no merge applies, it merges the pair of neighbours whose merge comes first in
  /// the list; of equal pairs, the leftmost.
  void append(std::string_view piece, std::vector<int64_t>& ids) {
    const auto size = static_cast<int64_t>(piece.size());
    tokens_.clear();
    for (int64_t i = 0; i < size; ++i) {
      const auto byte = static_cast<unsigned char>(piece[static_cast<size_t>(i)]);
      tokens_.push_back({tokenizer_.byte_ids_[byte], i - 1, i + 1 < size ? i + 1 : kNone});
    }
    for (int64_t i = 0; i < size; ++i) add_candidate(i);
    while (!candidates_.empty()) {
      const auto [rank, place] = candidates_.top();
      candidates_.pop();
      if (rank_at(place) == rank) merge(place, tokenizer_.merges_[static_cast<size_t>(rank)].result);
    }
    for (int64_t i = 0; i != kNone; i = at(i).next) ids.push_back(at(i).id);
  }

 private:
  static constexpr int64_t kNone = -1;
  static constexpr int32_t kMerged = -1, kNoRank = -1;  // kMerged: an id for tokens merged into the one before

  struct Token {
    int32_t id;
    int64_t previous, next;  // places in tokens_, or kNone
  };
  using Candidate = std::pair<int32_t, int64_t>;  // a merge's rank, and the place of its left token

  Token& at(int64_t place) { return tokens_[static_cast<size_t>(place)]; }

  /// The rank of the merge of the tokens at `place` and after it; kNoRank if there is none.
  int32_t rank_at(int64_t place) {
    const Token& left = at(place);
    if (left.id == kMerged || left.next == kNone) return kNoRank;
    const auto found = tokenizer_.ranks_.find(pair_of(left.id, at(left.next).id));
    return found == tokenizer_.ranks_.end() ? kNoRank : found->second;
  }

  void add_candidate(int64_t place) {
    if (const int32_t rank = rank_at(place); rank != kNoRank) candidates_.emplace(rank, place);
  }

  void merge(int64_t place, int32_t result) {
    Token &left = at(place), &right = at(left.next);
    left = {result, left.previous, right.next};
    right.id = kMerged;
    if (left.next != kNone) at(left.next).previous = place;
    add_candidate(place);
    if (left.previous != kNone) add_candidate(left.previous);
  }

  const BytePairTokenizer& tokenizer_;
  std::vector<Token> tokens_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

BytePairTokenizer::BytePairTokenizer(std::vector<std::string> tokens, const std::array<int32_t, 256>& byte_ids,
                                     std::vector<Merge> merges, std::vector<int32_t> special_ids)
    : tokens_(std::move(tokens)),
      byte_ids_(byte_ids),
      merges_(std::move(merges)),
      special_ids_(std::move(special_ids)) {
  ranks_.reserve(merges_.size());
  for (const Merge& merge : merges_) ranks_.emplace(pair_of(merge.left, merge.right), std::ssize(ranks_));
}

std::vector<int64_t> BytePairTokenizer::encode(std::string_view text) const {
  struct Ids {
    size_t begin, end;
  };
  std::vector<int64_t> ids;
  std::unordered_map<std::string_view, Ids> seen;  // the range of `ids` with the ids of each piece so far
  PieceEncoder encoder(*this);
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, detail::piece_length(text));
    text.remove_prefix(piece.size());
    const auto [entry, is_new] = seen.try_emplace(piece);
    auto& [begin, end] = entry->second;
    if (is_new) {
      begin = ids.size();
      encoder.append(piece, ids);
      end = ids.size();
    } else {
      for (size_t i = begin; i < end; ++i) ids.push_back(ids[i]);
    }
  }
  return ids;
}

std::string BytePairTokenizer::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size()) {
      throw IndexError(fmt::format(
          "BytePairTokenizer::decode: id {} is not among the {} tokens, 0 to {}; was it made by another tokenizer?",
          id, size(), size() - 1));
    }
    text += tokens_[static_cast<size_t>(id)];
  }
  return text;
}

std::vector<std::string> BytePairTokenizer::special_tokens() const {
  std::vector<std::string> names;
  names.reserve(special_ids_.size());
  for (const int32_t id : special_ids_) names.push_back(tokens_[static_cast<size_t>(id)]);
  return names;
}

int64_t BytePairTokenizer::special_token_id(std::string_view name) const {
  for (const int32_t id : special_ids_) {
    if (tokens_[static_cast<size_t>(id)] == name) return id;
  }
  throw ValueError(fmt::format(
      "'{}' is not a special token of this vocabulary; {}", detail::shortened(name),
      special_ids_.empty()
          ? "it has none"
          : fmt::format("it has {}", detail::shortened(fmt::to_string(fmt::join(special_tokens(), ", "))))));
}

}  // namespace linnet::nn
