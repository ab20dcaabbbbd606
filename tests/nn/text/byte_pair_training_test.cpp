/// Compares training with a plain reference, which counts all pairs of the whole text again for every merge.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include <linnet/core/error.h>
#include <linnet/nn/text/byte_pairs.h>
#include <linnet/nn/text/pieces.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

using Pair = std::pair<std::string, std::string>;

struct Merged {
  std::vector<Pair> merges;                      ///< in their order, as bytes
  std::vector<std::vector<std::string>> pieces;  ///< of the text, after all merges
};

/// Merges the most frequent pairs. Of equally frequent pairs, it takes the first in the text.
Merged slow_merges(std::string_view text, size_t count, int64_t min_frequency) {
  std::vector<std::vector<std::string>> pieces;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, detail::piece_length(text));
    text.remove_prefix(piece.size());
    pieces.emplace_back();
    for (const char byte : piece) pieces.back().emplace_back(1, byte);
  }
  std::vector<Pair> merges;
  while (merges.size() < count) {
    std::map<Pair, int64_t> counts;
    std::vector<Pair> order;
    for (const auto& piece : pieces) {
      for (size_t i = 0; i + 1 < piece.size(); ++i) {
        if (counts[{piece[i], piece[i + 1]}]++ == 0) order.emplace_back(piece[i], piece[i + 1]);
      }
    }
    const auto best = std::ranges::max_element(order, {}, [&](const Pair& pair) { return counts[pair]; });
    if (best == order.end() || counts[*best] < min_frequency) break;
    const auto [left, right] = *best;
    merges.emplace_back(left, right);
    for (auto& piece : pieces) {
      std::vector<std::string> merged;
      for (size_t i = 0; i < piece.size(); ++i) {
        const bool is_pair = i + 1 < piece.size() && piece[i] == left && piece[i + 1] == right;
        merged.push_back(is_pair ? left + right : piece[i]);
        i += is_pair ? 1 : 0;
      }
      piece = merged;
    }
  }
  return {merges, pieces};
}

/// Checks that tokens from 256 on are those of the reference's merges, and that they encode the text as the
/// reference's final pieces.
void check_training(const std::string& text, size_t merges, int64_t min_frequency) {
  const nn::BytePairOptions options{.vocab_size = 256 + static_cast<int64_t>(merges), .min_frequency = min_frequency};
  const auto tokenizer = nn::BytePairTokenizer::train(text, options);
  std::vector<std::string> expected, found;
  const Merged reference = slow_merges(text, merges, min_frequency);
  for (const auto& [left, right] : reference.merges) expected.push_back(left + right);
  for (int64_t id = 256; id < tokenizer.size(); ++id) found.push_back(tokenizer.decode({&id, 1}));
  CHECK(found == expected);

  std::vector<std::string> tokens, encoded;
  for (const auto& piece : reference.pieces) tokens.insert(tokens.end(), piece.begin(), piece.end());
  for (const int64_t id : tokenizer.encode(text)) encoded.push_back(tokenizer.decode({&id, 1}));
  CHECK(encoded == tokens);
}

std::string start_of(const std::filesystem::path& path, size_t bytes) { return read_bytes(path).substr(0, bytes); }

}  // namespace

TEST_CASE("BytePairTokenizer::train: the merges of a plain reference") {
  check_training(start_of(LINNET_SOURCE_DIR "/README.md", 20'000), 300, 2);
  check_training(start_of(LINNET_SOURCE_DIR "/LICENSE", 2'000), 1'000'000, 1);  // until no pair is left
  check_training(start_of(LINNET_SOURCE_DIR "/LICENSE", 2'000), 1'000'000, 3);
  check_training("", 10, 1);
  check_training("aaaa", 10, 1);
}

TEST_CASE("BytePairTokenizer::train: ties, overlaps and runs, on a hundred texts of few letters") {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const size_t letters = 1 + random() % 3;
    std::string text(random() % 300, ' ');
    for (char& c : text) c = random() % 6 == 0 ? ' ' : static_cast<char>('a' + random() % letters);
    CAPTURE(text);
    check_training(text, 60, 1 + static_cast<int64_t>(random() % 3));
  }
}

TEST_CASE("BytePairTokenizer::train: of equally frequent pairs, the one that the text has first") {
  const auto tokenizer = nn::BytePairTokenizer::train("zy ab zy ab", {.vocab_size = 258});
  CHECK(tokenizer.decode(std::vector<int64_t>{256, 257}) ==
        "zy a");  // zy before Ġa, ab and Ġz; " zy" is another word
}

TEST_CASE("BytePairTokenizer::train: the same text gives the same files") {
  const TemporaryFolder folder;
  const std::string text = start_of(LINNET_SOURCE_DIR "/README.md", 20'000);
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(folder / name);
    nn::BytePairTokenizer::train(text, {.vocab_size = 600, .special_tokens = {"<s>", "</s>"}}).save(folder / name);
  }
  for (const std::string file : {"vocab.json", "merges.txt"}) {
    CHECK(read_bytes(folder / ("a/" + file)) == read_bytes(folder / ("b/" + file)));
  }
}

TEST_CASE("BytePairTokenizer::train: sizes, and special tokens that no merge makes") {
  const auto tokenizer =
      nn::BytePairTokenizer::train("abab abab", {.vocab_size = 260, .special_tokens = {"ab", "é!"}});
  CHECK(tokenizer.size() == 260);
  CHECK(tokenizer.special_token_id("ab") == 258);
  CHECK(tokenizer.special_token_id("é!") == 259);
  for (const int64_t id : tokenizer.encode("abab é!")) CHECK(id < 258);
  for (const int64_t id : {256, 257}) CHECK(tokenizer.decode({&id, 1}) != "ab");
  CHECK(tokenizer.decode(tokenizer.encode("abab é!")) == "abab é!");
  CHECK(nn::BytePairTokenizer::train("", {.vocab_size = 256}).size() == 256);
  CHECK(nn::BytePairTokenizer::train("ab", {.min_frequency = 1, .special_tokens = {"<s>"}}).size() == 258);
  CHECK(nn::BytePairTokenizer::train("ab", {}).size() == 256);
}

TEST_CASE("BytePairTokenizer::train: options that are refused") {
  const auto refused = [](const nn::BytePairOptions& options, const std::string& part) {
    CHECK_THROWS_WITH_AS(nn::BytePairTokenizer::train("text", options), doctest::Contains(part.c_str()), ValueError);
  };
  refused({.vocab_size = 255},
          "vocab_size 255 must be from 256, for the 256 bytes and 0 special tokens, to 2147483647");
  refused({.vocab_size = 256, .special_tokens = {"<s>"}},
          "vocab_size 256 must be from 257, for the 256 bytes and 1 special token, ");
  refused({.vocab_size = int64_t{1} << 31}, "vocab_size 2147483648 must be from 256");
  refused({.min_frequency = 0}, "min_frequency must be at least 1, not 0");
  refused({.special_tokens = {""}}, "a special token is empty");
  refused({.special_tokens = {"\xFF"}}, "a special token is not UTF-8");
  refused({.special_tokens = {"<s>", "<s>"}},
          "the special token '<s>' stands for a byte in the files, or is given twice");
  refused({.special_tokens = {"Ġ"}}, "the special token 'Ġ' stands for a byte");
}
