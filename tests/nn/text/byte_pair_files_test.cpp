/// vocab.json and merges.txt: written as Hugging Face writes them, and damaged.

#include <doctest/doctest.h>

#include <linnet/core/error.h>
#include <linnet/nn/text/byte_pairs.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(LINNET_TEST_DATA) / "goldens/tokenizer";

/// A folder with Hugging Face's two files, for damage.
struct Files : TemporaryFolder {
  Files() { restore(); }
  void restore() const {
    for (const char* name : {"vocab.json", "merges.txt"}) write_bytes(*this / name, read_bytes(kFolder / name));
  }
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = read_bytes(*this / name);
    REQUIRE(text.find(from) != text.npos);
    write_bytes(*this / name, text.replace(text.find(from), from.size(), to));
  }
  void refused(const std::string& part) const {
    CAPTURE(part);
    CHECK_THROWS_WITH_AS(nn::BytePairTokenizer::load(path()), doctest::Contains(part.c_str()), IoError);
    restore();
  }
  /// The same with a part of a file replaced.
  void refused(const std::string& name, const std::string& from, const std::string& to,
               const std::string& part) const {
    replace(name, from, to);
    refused(part);
  }
};

}  // namespace

TEST_CASE("BytePairTokenizer: files that are loaded and saved are the same to the byte") {
  const TemporaryFolder folder;
  nn::BytePairTokenizer::load(kFolder).save(folder.path());
  CHECK(read_bytes(folder / "vocab.json") == read_bytes(kFolder / "vocab.json"));
  CHECK(read_bytes(folder / "merges.txt") == read_bytes(kFolder / "merges.txt"));
  CHECK(folder.file_count() == 2);
}

TEST_CASE("BytePairTokenizer: what was trained is the same after it is saved and loaded") {
  const TemporaryFolder folder;
  const std::string text = read_bytes(LINNET_SOURCE_DIR "/README.md");
  const auto trained =
      nn::BytePairTokenizer::train(text, {.vocab_size = 500, .special_tokens = {"<|a b|>", "<\"é\\>"}});
  trained.save(folder.path());
  const auto loaded = nn::BytePairTokenizer::load(folder.path());
  CHECK(loaded.size() == 500);
  CHECK(loaded.special_tokens() == trained.special_tokens());
  CHECK(loaded.special_token_id("<\"é\\>") == 499);
  CHECK(loaded.encode(text) == trained.encode(text));
}

TEST_CASE("BytePairTokenizer::load: files of other writers") {
  const Files files;
  const auto expected = nn::BytePairTokenizer::load(kFolder).encode("First Citizen: é 😀");
  const auto same = [&] {
    CHECK(nn::BytePairTokenizer::load(files.path()).encode("First Citizen: é 😀") == expected);
  };
  files.replace("vocab.json", ",\"B\"", " ,\r\n\t\"\\u0042\" ");  // blanks and escapes
  files.replace("merges.txt", "#version: 0.2\n", "");
  same();
  std::string lines = read_bytes(kFolder / "merges.txt"), returns;
  for (const char c : lines) returns += c == '\n' ? "\r\n" : std::string(1, c);
  write_bytes(files / "merges.txt", returns);
  same();
  lines.pop_back();  // no new line at the end
  write_bytes(files / "merges.txt", lines);
  same();
}

TEST_CASE("BytePairTokenizer::load: missing and damaged files, with file and line") {
  const Files files;
  const std::string remedy = "; vocab.json and merges.txt must be whole, and of one tokenizer";
  for (const std::string name : {"vocab.json", "merges.txt"}) {
    fs::remove(files / name);
    files.refused("cannot read '" + (files / name).string() +
                  "': No such file or directory; check that the file exists");
  }
  const auto vocabulary = [&](const std::string& from, const std::string& to, const std::string& part) {
    files.refused("vocab.json", from, to, (files / "vocab.json").string() + part);
  };
  vocabulary("{\"!\"", "[\"!\"", ", line 1: '[\"!\":0,");
  vocabulary("{\"!\":0", "{\n\n\"!\"0", ", line 3: '0,\"\\\"\":1,");
  vocabulary("\"!\":0", "\"!\":\"0\"", ", line 1: '\"0\",");
  vocabulary("\"!\":0", "\"!\":\n-7", ", line 2: '-7,");
  vocabulary("\"!\":0", "\"!\":99999999999999999999", ", line 1: '99999999999999999999,");
  vocabulary("\"!\":0", "\"!\":0.5", ", line 1: '.5,");
  vocabulary("\"!\":0", "!:0", ", line 1: '!:0,");
  vocabulary("\"!\":0", "\"\\x\":0", ", line 1: \"\\x\" is not a string of JSON" + remedy);
  vocabulary("\"!\":0", "\"\xFF\":0", ", line 1: \"\xFF\" is not a string of JSON" + remedy);
  vocabulary("\"!\":0", "\"\":0", ", line 1: a token is empty" + remedy);
  vocabulary("\"!\":0,", "\"!\":0,\n\"!\":400,", ", line 2: the token '!' is here twice" + remedy);
  vocabulary("\"!\":0,", "\"!\":1,\n", ", line 2: the id 1 of '\"' is also that of '!'" + remedy);
  vocabulary("\"!\":0,", "\n\"!\":400,",
             ", line 2: the id 400 of '!' is not below the number of tokens, 400" + remedy);
  vocabulary("\"!\":0", "\"!!\":0", " lacks the token '!' of the byte 0x21; a byte-level vocabulary has all 256");
  vocabulary(":399}", ":399", ", line 1: the end where '}' belongs" + remedy);
  vocabulary(":399}", ":399,}", ", line 1: '}' where a token in quotes belongs" + remedy);
  vocabulary(":399}", ":399}\n{", ", line 2: text follows the object of tokens and ids" + remedy);
  vocabulary(":399}", ":399,\"a", ", line 1: a token has no quote at its end" + remedy);
  vocabulary(":399}", ":399,\"a\\", ", line 1: a token has no quote at its end" + remedy);
  write_bytes(files / "vocab.json", "");
  files.refused(", line 1: the end where '{' belongs" + remedy);
  write_bytes(files / "vocab.json", "{}");
  files.refused(" lacks the token 'Ā' of the byte 0x00");

  const std::string merges = read_bytes(kFolder / "merges.txt");
  const std::string first = merges.substr(14, merges.find('\n', 14) - 14);  // the line after the version
  const auto merge = [&](const std::string& line, const std::string& part) {
    files.refused("merges.txt", first, line, (files / "merges.txt").string() + ", line 2: " + part + remedy);
  };
  for (const std::string line : {"", "a", "a ", " a", "a b c", "a  b", " "}) {
    merge(line, "'" + line + "' is not two tokens with a blank between them");
  }
  merge("a ☃", "'☃' is not in vocab.json");
  merge("☃ a", "'☃' is not in vocab.json");
  merge("~ ~", "'~~' is not in vocab.json");
  merge("<|endoftext|> a", "'<|endoftext|>' is neither a byte nor made by an earlier line");
  write_bytes(files / "merges.txt", "");
  files.refused((files / "merges.txt").string() + ", line 1: the file is empty" + remedy);
  files.refused("merges.txt", first, first + "\n" + first, ", line 3: '" + first + "' is on line 2 too" + remedy);
}

TEST_CASE("BytePairTokenizer::save: a folder that is missing") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(nn::BytePairTokenizer::load(kFolder).save(folder / "none"), IoError);
}
