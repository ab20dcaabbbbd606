/// Files of texts and vectors, cut off at every byte.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/nn/text/byte_pairs.h>
#include <linnet/nn/text/glove.h>

#include "tests/support/cut_file.h"

using namespace linnet;
using namespace linnet::test;
namespace fs = std::filesystem;

namespace {

/// Writes a small vocab.json and merges.txt.
void save_tokenizer(const fs::path& folder) {
  const std::string text = "the rain in Spain stays mainly in the plain, and the \u00e9tude in the train";
  nn::BytePairTokenizer::train(text, {.vocab_size = 275, .special_tokens = {"<|end|>"}}).save(folder);
}

/// The files that BytePairTokenizer::save writes for these lines of merges.txt.
std::string as_saved(const std::string& lines) {
  const std::string merges = lines.substr(std::min(lines.find('\n'), lines.size() - 1) + 1);
  return "#version: 0.2\n" + merges + (merges.empty() || merges.ends_with('\n') ? "" : "\n");
}

using Rows = std::vector<std::vector<float>>;

/// The numbers of the lines "word number number …"; nothing if some are not numbers, or if lines differ in width.
std::optional<Rows> numbers_in(const std::string& text) {
  Rows rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field;
    fields >> field;
    std::vector<float>& row = rows.emplace_back();
    while (fields >> field) {
      char* end = nullptr;
      row.push_back(std::strtof(field.c_str(), &end));
      if (*end != '\0') return std::nullopt;
    }
    if (row.empty() || row.size() != rows[0].size()) return std::nullopt;
  }
  return rows.empty() ? std::nullopt : std::optional(rows);
}

}  // namespace

TEST_CASE("truncation: a vocab.json cut off at any byte is refused") {
  const TemporaryFolder folder;
  save_tokenizer(folder.path());
  cut_everywhere(
      folder / "vocab.json", [&] { return nn::BytePairTokenizer::load(folder.path()).size(); },
      [](const std::string&, const auto& content) { CHECK_FALSE(content.has_value()); });
}

TEST_CASE("truncation: a merges.txt cut off at any byte is refused, or has fewer merges where a line ends") {
  const TemporaryFolder folder, saved;
  save_tokenizer(folder.path());
  const auto read = [&] {
    nn::BytePairTokenizer::load(folder.path()).save(saved.path());
    return read_bytes(saved / "merges.txt");
  };
  int64_t refused = 0, shorter = 0;
  cut_everywhere(folder / "merges.txt", read, [&](const std::string& part, const auto& merges) {
    if (!part.starts_with("#version")) CHECK_FALSE(merges.has_value());
    if (part.ends_with('\n')) CHECK(merges.has_value());
    if (merges) CHECK(*merges == as_saved(part));
    ++(merges ? shorter : refused);
  });
  CHECK(refused > 20);
  CHECK(shorter > 10);
}

TEST_CASE("truncation: a file of words cut off at any byte is refused, or has fewer words where a line ends") {
  const TemporaryFolder folder;
  const fs::path path = folder / "words.txt";
  nn::WordVocabulary::build(std::vector<std::string>{"to be, or not to be"}).save(path);
  int64_t shorter = 0;
  cut_everywhere(
      path, [&] { return nn::WordVocabulary::load(path).size(); },
      [&](const std::string& part, const std::optional<int64_t>& size) {
        const int64_t lines = std::ranges::count(part, '\n');
        CHECK(size.has_value() == (part.ends_with('\n') && lines >= 2));
        if (size) CHECK(*size == lines);
        shorter += size ? 1 : 0;
      });
  CHECK(shorter == 5);
}

TEST_CASE("truncation: a file of word vectors cut off at any byte is refused, or read where a number may end") {
  const TemporaryFolder folder;
  const fs::path path = folder / "vectors.txt";
  write_bytes(path, "the 0.25 -1.5e-2 3\nof 1e+1 -0.5 -12.75\nand -4 5 0.0625\n");
  const auto words = nn::WordVocabulary::build(std::vector<std::string>{"the the the of of and"});
  const auto read = [&] {
    Generator rng(1);
    const nn::WordVectors glove = nn::read_glove(path, words, rng);
    Rows rows;
    for (int64_t i = 0; i < glove.found; ++i) rows.push_back(glove.vectors[2 + i].to_vector<float>());
    return rows;
  };
  cut_everywhere(path, read, [](const std::string& part, const std::optional<Rows>& rows) {
    CAPTURE(part);
    CHECK((rows == numbers_in(part)));
  });
}
