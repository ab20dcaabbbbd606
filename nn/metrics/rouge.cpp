#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/metrics.h>

namespace linnet::nn {
namespace {

/// Tokens as numbers, which are faster to compare than strings.
using Tokens = std::vector<int64_t>;

/// Tokenizes the texts that are compared with each other.
class RougeTokenizer {
 public:
  explicit RougeTokenizer(const RougeOptions& options) : use_stemmer_(options.use_stemmer) {}

  Tokens operator()(std::string_view text) {
    constexpr std::string_view kKelvin = "\u212A", kDottedI = "\u0130";  // lower-cased: k, and i with a combining dot
    Tokens tokens;
    std::string token;
    const auto end_token = [&] {
      if (!token.empty()) tokens.push_back(number_of(token));
      token.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
        token += c;
      } else if (c >= 'A' && c <= 'Z') {
        token += static_cast<char>(c - 'A' + 'a');
      } else if (text.substr(i).starts_with(kKelvin)) {
        token += 'k';
        i += kKelvin.size() - 1;
      } else {
        if (text.substr(i).starts_with(kDottedI)) token += 'i';
        end_token();
      }
    }
    end_token();
    return tokens;
  }

  /// The tokens of each line that has any.
  std::vector<Tokens> sentences(std::string_view text) {
    std::vector<Tokens> sentences;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      Tokens tokens = (*this)(line);
      if (!tokens.empty()) sentences.push_back(std::move(tokens));
    }
    return sentences;
  }

 private:
  int64_t number_of(const std::string& token) {
    return numbers_.emplace(use_stemmer_ && token.size() > 3 ? porter_stem(token) : token, std::ssize(numbers_))
        .first->second;
  }

  bool use_stemmer_;
  std::unordered_map<std::string, int64_t> numbers_;  // of all tokens so far
};

/// The score if the prediction's `predicted` and the reference's `referenced` tokens or n-grams have `hits` in
/// common.
RougeScore score_of(int64_t hits, int64_t predicted, int64_t referenced) {
  const auto share = [hits](int64_t of) {
    return static_cast<double>(hits) / static_cast<double>(std::max<int64_t>(of, 1));
  };
  RougeScore score{.precision = share(predicted), .recall = share(referenced)};
  if (hits > 0) score.f1 = 2 * score.precision * score.recall / (score.precision + score.recall);
  return score;
}

/// How often each n-gram occurs in the text.
std::map<Tokens, int64_t> n_grams(const Tokens& tokens, int64_t n) {
  std::map<Tokens, int64_t> counts;
  for (int64_t i = 0; i <= std::ssize(tokens) - n; ++i) {
    ++counts[Tokens(tokens.begin() + i, tokens.begin() + i + n)];
  }
  return counts;
}

/// The length of the longest common subsequence of a and b. The table of lengths has a row for each token of a; only
/// one row is kept. If `prefers_left` is given, it gets one bit for each cell of the table: whether the left
/// neighbour is larger than the one above.
int64_t common_length(const Tokens& a, const Tokens& b, std::vector<bool>* prefers_left = nullptr) {
  std::vector<int64_t> lengths(b.size() + 1, 0);
  if (prefers_left != nullptr) prefers_left->assign(a.size() * b.size(), false);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = lengths[j + 1], left = lengths[j];
      lengths[j + 1] = a[i] == b[j] ? diagonal + 1 : std::max(above, left);
      if (prefers_left != nullptr && left > above) (*prefers_left)[i * b.size() + j] = true;
      diagonal = above;
    }
  }
  return lengths.back();
}

/// Adds the positions in the reference of its longest common subsequence with the prediction. If there are several
/// such subsequences, it takes the same one as rouge-score, which goes back from the end.
void add_common_positions(const Tokens& reference, const Tokens& prediction, std::set<size_t>& positions) {
  std::vector<bool> prefers_left;
  common_length(reference, prediction, &prefers_left);
  for (size_t i = reference.size(), j = prediction.size(); i > 0 && j > 0;) {
    if (reference[i - 1] == prediction[j - 1]) {
      positions.insert(i - 1);
      --i, --j;
    } else {
      --(prefers_left[(i - 1) * prediction.size() + j - 1] ? j : i);
    }
  }
}

/// A text's tokens that no hit has used yet.
struct Unused {
  std::unordered_map<int64_t, int64_t> copies;
  int64_t total = 0;

  explicit Unused(const std::vector<Tokens>& sentences) {
    for (const Tokens& sentence : sentences) {
      for (const int64_t token : sentence) ++copies[token];
      total += std::ssize(sentence);
    }
  }
};

/// The `score(reference)` with the best F1.
template <class Score>
RougeScore best_of(const std::vector<std::string>& references, const Score& score) {
  if (references.empty()) throw ValueError("there is no reference to compare with; give at least one");
  RougeScore best = score(references[0]);
  for (size_t i = 1; i < references.size(); ++i) {
    const RougeScore other = score(references[i]);
    if (other.f1 > best.f1) best = other;
  }
  return best;
}

}  // namespace

RougeScore rouge_n(std::string_view prediction, const std::vector<std::string>& references, int64_t n,
                   const RougeOptions& options, Where where) {
  const Call call("rouge_n", where);
  if (n < 1) throw ValueError(fmt::format("n is {}; n-grams have at least 1 token", n));
  const auto total = [](const std::map<Tokens, int64_t>& counts) {
    int64_t sum = 0;
    for (const auto& [gram, count] : counts) sum += count;
    return sum;
  };
  RougeTokenizer tokens(options);
  const std::map<Tokens, int64_t> predicted = n_grams(tokens(prediction), n);
  return best_of(references, [&](const std::string& reference) {
    const std::map<Tokens, int64_t> referenced = n_grams(tokens(reference), n);
    int64_t hits = 0;
    for (const auto& [gram, count] : referenced) {
      const auto found = predicted.find(gram);
      if (found != predicted.end()) hits += std::min(count, found->second);
    }
    return score_of(hits, total(predicted), total(referenced));
  });
}

RougeScore rouge_l(std::string_view prediction, const std::vector<std::string>& references,
                   const RougeOptions& options, Where where) {
  const Call call("rouge_l", where);
  RougeTokenizer tokens(options);
  const Tokens predicted = tokens(prediction);
  return best_of(references, [&](const std::string& reference) {
    const Tokens referenced = tokens(reference);
    return score_of(common_length(referenced, predicted), std::ssize(predicted), std::ssize(referenced));
  });
}

RougeScore rouge_lsum(std::string_view prediction, const std::vector<std::string>& references,
                      const RougeOptions& options, Where where) {
  const Call call("rouge_lsum", where);
  RougeTokenizer tokens(options);
  const std::vector<Tokens> predicted = tokens.sentences(prediction);
  return best_of(references, [&](const std::string& reference) {
    const std::vector<Tokens> referenced = tokens.sentences(reference);
    Unused in_prediction(predicted), in_reference(referenced);
    int64_t hits = 0;
    for (const Tokens& sentence : referenced) {
      std::set<size_t> positions;
      for (const Tokens& other : predicted) add_common_positions(sentence, other, positions);
      for (const size_t position : positions) {
        int64_t& ours = in_prediction.copies[sentence[position]];
        int64_t& theirs = in_reference.copies[sentence[position]];
        if (ours == 0 || theirs == 0) continue;
        --ours, --theirs, ++hits;
      }
    }
    return score_of(hits, in_prediction.total, in_reference.total);
  });
}

RougeScore mean_rouge(const std::vector<RougeScore>& scores, Where where) {
  const Call call("mean_rouge", where);
  if (scores.empty()) throw ValueError("there are no scores to take the mean of");
  RougeScore sum;
  for (const RougeScore& score : scores) {
    sum.precision += score.precision;
    sum.recall += score.recall;
    sum.f1 += score.f1;
  }
  const auto count = static_cast<double>(scores.size());
  return {.precision = sum.precision / count, .recall = sum.recall / count, .f1 = sum.f1 / count};
}

}  // namespace linnet::nn
