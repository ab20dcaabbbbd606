/// Compares byte pairs with Hugging Face's tokenizers; goldens/tokenizer_cases.py made the files and the cases.

#include <linnet/nn/text/byte_pairs.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include <linnet/core/error.h>
#include <linnet/nn/data/text.h>
#include <linnet/nn/text/character_class.h>
#include <linnet/nn/text/pieces.h>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(LINNET_TEST_DATA) / "goldens/tokenizer";

/// Hugging Face's result for some bytes.
struct Case {
  std::string bytes;
  std::vector<size_t> pieces;
  std::vector<int64_t> ids;
};

std::vector<Case> golden_cases() {
  std::vector<Case> cases;
  for (const auto& item : nlohmann::json::parse(read_bytes(kFolder / "cases.json"))) {
    Case& next = cases.emplace_back();
    const auto hex = item.at("bytes").get<std::string>();
    for (size_t i = 0; i < hex.size(); i += 2) {
      next.bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    item.at("pieces").get_to(next.pieces);
    item.at("ids").get_to(next.ids);
  }
  return cases;
}

std::vector<size_t> piece_lengths(std::string_view text) {
  std::vector<size_t> lengths;
  while (!text.empty()) {
    lengths.push_back(detail::piece_length(text));
    text.remove_prefix(lengths.back());
  }
  return lengths;
}

}  // namespace

TEST_CASE("BytePairTokenizer: pieces and ids are Hugging Face's, and decode to the text") {
  const auto tokenizer = nn::BytePairTokenizer::load(kFolder);
  CHECK(tokenizer.size() == 400);
  const std::vector<Case> cases = golden_cases();
  CHECK(cases.size() > 200);
  for (const Case& golden : cases) {
    CAPTURE(golden.bytes);
    CHECK(piece_lengths(golden.bytes) == golden.pieces);
    CHECK(tokenizer.encode(golden.bytes) == golden.ids);
    CHECK(tokenizer.decode(golden.ids) == golden.bytes);
  }
}

TEST_CASE("BytePairTokenizer: every byte string there and back") {
  const auto tokenizer = nn::BytePairTokenizer::load(kFolder);
  std::mt19937 random(1);
  int64_t wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    wrong += tokenizer.decode(tokenizer.encode(bytes)) != bytes;
  }
  CHECK(wrong == 0);
}

TEST_CASE("BytePairTokenizer: special tokens are asked for by name, and never made from text") {
  const auto tokenizer = nn::BytePairTokenizer::load(kFolder);
  CHECK(tokenizer.special_tokens() == std::vector<std::string>{"<|endoftext|>"});
  CHECK(tokenizer.special_token_id("<|endoftext|>") == 399);
  CHECK(tokenizer.decode(std::vector<int64_t>{399, 64, 399}) == "<|endoftext|>a<|endoftext|>");
  const std::vector<int64_t> ids = tokenizer.encode("<|endoftext|>");
  CHECK(ids.size() > 1);
  CHECK(std::ranges::count(ids, 399) == 0);
  CHECK_THROWS_WITH_AS(tokenizer.special_token_id("<pad>"),
                       "'<pad>' is not a special token of this vocabulary; it has <|endoftext|>", ValueError);
  CHECK_THROWS_WITH_AS(tokenizer.special_token_id("a"), doctest::Contains("'a' is not a special token"), ValueError);
  CHECK_THROWS_WITH_AS(nn::BytePairTokenizer::train("", {.vocab_size = 256}).special_token_id("a"),
                       "'a' is not a special token of this vocabulary; it has none", ValueError);
}

TEST_CASE("BytePairTokenizer: an id that is outside the vocabulary is named") {
  const auto tokenizer = nn::BytePairTokenizer::load(kFolder);
  CHECK(tokenizer.decode({}).empty());
  for (const int64_t id : {int64_t{-1}, int64_t{400}, int64_t{1} << 40}) {
    const std::string named =
        "BytePairTokenizer::decode: id " + std::to_string(id) + " is not among the 400 tokens, 0 to 399;";
    CHECK_THROWS_WITH_AS(tokenizer.decode(std::vector<int64_t>{0, id}), doctest::Contains(named.c_str()), IndexError);
  }
}

TEST_CASE("BytePairTokenizer: a long piece, and a piece that comes again, have the ids of the rule") {
  const auto tokenizer = nn::BytePairTokenizer::train("aaaa aaaa aaaa", {.vocab_size = 259});  // aa, aaaa, Ġaaaa
  const std::string run(1'000'001, 'a');  // would take hours if the cost were quadratic
  const std::vector<int64_t> ids = tokenizer.encode(run);
  CHECK(ids.size() == 250'001);
  CHECK(tokenizer.decode(ids) == run);
  const std::vector<int64_t> once = tokenizer.encode(" aaaaa");
  std::vector<int64_t> thrice;
  for (int i = 0; i < 3; ++i) thrice.insert(thrice.end(), once.begin(), once.end());
  CHECK(tokenizer.encode(" aaaaa aaaaa aaaaa") == thrice);
}

TEST_CASE("class_of: how many characters of Unicode 16 are letters, numbers and blanks") {
  std::array<int64_t, 4> counts{};
  for (char32_t code = 0; code <= 0x10FFFF; ++code) ++counts[static_cast<size_t>(detail::class_of(code))];
  CHECK(counts[static_cast<size_t>(detail::CharacterClass::letter)] == 141028);
  CHECK(counts[static_cast<size_t>(detail::CharacterClass::number)] == 1911);
  CHECK(counts[static_cast<size_t>(detail::CharacterClass::blank)] == 25);
}

TEST_CASE("Tokenizer: characters and byte pairs stand behind one interface") {
  const nn::Vocabulary characters("to be");
  const auto pairs = nn::BytePairTokenizer::train("to be to be", {.vocab_size = 300});
  for (const nn::Tokenizer* tokenizer :
       {static_cast<const nn::Tokenizer*>(&characters), static_cast<const nn::Tokenizer*>(&pairs)}) {
    const std::vector<int64_t> ids = tokenizer->encode("to be");
    CHECK(std::ranges::max(ids) < tokenizer->size());
    CHECK(tokenizer->decode(ids) == "to be");
  }
}
