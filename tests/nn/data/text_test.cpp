#include <sys/stat.h>

#include <linnet/nn/data/text.h>

#include <doctest/doctest.h>

#include <type_traits>

#include <set>

#include <linnet/core/error.h>
#include <linnet/core/files/utf8.h>

#include "tests/support/allocation_count.h"
#include "tests/support/files.h"
#include "tests/support/real_data.h"

using namespace linnet;
using namespace linnet::test;

namespace {

std::vector<int64_t> row(const Tensor& t, int64_t index) {
  const auto values =
      t.data<int64_t>().subspan(static_cast<size_t>(index * t.size(1)), static_cast<size_t>(t.size(1)));
  return {values.begin(), values.end()};
}

std::vector<int64_t> counting(int64_t from, int64_t to) {
  std::vector<int64_t> ids;
  for (int64_t i = from; i < to; ++i) ids.push_back(i);
  return ids;
}

std::string whole(const nn::CharText& text) {
  return text.vocabulary().decode(text.train()) + text.vocabulary().decode(text.validation());
}

}  // namespace

TEST_CASE("utf8: every code point of Unicode there and back; surrogates, overlong forms and loose bytes are none") {
  int64_t wrong = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    std::string bytes;
    detail::append_code_point(bytes, code);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    const size_t length = detail::code_point_length(bytes + "x");
    wrong += surrogate ? length != 0 : length != bytes.size() || detail::code_point(bytes) != code;
  }
  CHECK(wrong == 0);
  for (const std::string bytes : {"", "\x80", "\xC1\x81", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                                  "\xE2\x82", "\xC3\x28", "\xFF"}) {
    CAPTURE(bytes);
    CHECK(detail::code_point_length(bytes) == 0);
  }
}

TEST_CASE("Vocabulary: code points in their order, there and back") {
  const nn::Vocabulary vocabulary("Größe 山 θ😀 ö\n");
  CHECK(vocabulary.size() == 10);
  CHECK(vocabulary.decode(counting(0, 10)) ==
        "\n Gerßö"
        "θ山😀");
  CHECK(vocabulary.encode("山Gö") == std::vector<int64_t>{8, 2, 6});
  CHECK(vocabulary.decode(vocabulary.encode("θß😀\n")) == "θß😀\n");
  CHECK(vocabulary.codes()[8] == U'山');
  CHECK(vocabulary.encode("").empty());
  CHECK(nn::Vocabulary("").size() == 0);
}

TEST_CASE("Vocabulary: characters from all over Unicode have their own ids") {
  std::string text, others;
  for (char32_t code = 1; code <= 0x10FFFF; code += 255) {  // in most pages one, in some two
    if (code >= 0xD800 && code < 0xE000) continue;          // surrogates
    detail::append_code_point(text, code);
    detail::append_code_point(others, code + 1);
  }
  const nn::Vocabulary vocabulary(text);
  CHECK(vocabulary.encode(text) == counting(0, vocabulary.size()));
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  for (size_t at = 0; at < others.size();) {
    const std::string other = others.substr(at, detail::code_point_length(std::string_view(others).substr(at)));
    CHECK_THROWS_AS(vocabulary.encode(other), ValueError);
    at += other.size();
  }
  const nn::Vocabulary last("\U0010FFFF");
  CHECK(last.encode("\U0010FFFF") == std::vector<int64_t>{0});
  CHECK_THROWS_AS(last.encode("a"), ValueError);
}

TEST_CASE("Vocabulary: a short text takes little memory, whatever the characters") {
  if (!allocations_are_counted("the memory of a vocabulary")) return;
  const nn::Vocabulary vocabulary("abc😀");
  const MemoryUse use;
  CHECK(vocabulary.encode("abc").size() == 3);
  CHECK(use.peak() < 1 << 10);
}

TEST_CASE("Vocabulary: bytes in their order, there and back") {
  const nn::Vocabulary vocabulary("to be,\nor not to be\xC3\xA9", nn::Characters::bytes);
  CHECK(vocabulary.size() == 11);
  CHECK(vocabulary.decode(counting(0, 11)) == "\n ,benort\xA9\xC3");
  CHECK(vocabulary.encode("to") == std::vector<int64_t>{8, 6});
  CHECK(vocabulary.decode(vocabulary.encode("not \xC3\xA9\n")) == "not \xC3\xA9\n");
}

TEST_CASE("Vocabulary: an unseen character or id is named") {
  const nn::Vocabulary vocabulary("abc"), bytes("abc", nn::Characters::bytes);
  CHECK_THROWS_WITH_AS(vocabulary.encode("abx"), "the character 'x' is not among the 3 that the model has seen",
                       ValueError);
  CHECK_THROWS_WITH_AS(vocabulary.encode("aß"), doctest::Contains("the character 'ß' is not among the 3"),
                       ValueError);
  CHECK_THROWS_WITH_AS(vocabulary.encode("a\n"), doctest::Contains("with code 10"), ValueError);
  CHECK_THROWS_WITH_AS(vocabulary.encode("ab\xFF"), "byte 0xff at offset 2 is not UTF-8", ValueError);
  CHECK_THROWS_WITH_AS(nn::Vocabulary("ßx\xC3"), "byte 0xc3 at offset 3 is not UTF-8", ValueError);
  CHECK_THROWS_WITH_AS(bytes.encode("\xFF"), doctest::Contains("with code 255"), ValueError);
  for (const int64_t id : {int64_t{3}, int64_t{-1}}) {
    CHECK_THROWS_WITH_AS(vocabulary.decode(std::vector<int64_t>{0, id}),
                         doctest::Contains(std::to_string(id).c_str()), IndexError);
  }
}

TEST_CASE("CharText: nine tenths to train on, the rest to validate") {
  const nn::CharText text("0123456789ABCDEFGHIJ!");
  CHECK(text.vocabulary().decode(text.train()) == "0123456789ABCDEFGH");
  CHECK(text.vocabulary().decode(text.validation()) == "IJ!");
  const nn::CharText one("x");
  CHECK(one.train().empty());
  CHECK(one.validation().size() == 1);
  const nn::CharText letters("äöüßäöüßäöüßäöüßäöüß");
  CHECK(letters.train().size() == 18);  // characters, not bytes
  CHECK(letters.vocabulary().decode(letters.validation()) == "üß");
}

TEST_CASE("CharText: reads a file whole; an empty, missing or unreadable one is refused") {
  const TemporaryFolder folder;
  const std::string bytes("a\r\nb\0c\xE2\x80\x94 d", 11);
  write_bytes(folder / "text", bytes);
  CHECK(whole(nn::CharText::read(folder / "text")) == bytes);
  CHECK(nn::CharText::read(folder / "text").vocabulary().size() == 9);
  const nn::TextOptions as_bytes{.characters = nn::Characters::bytes};
  CHECK(whole(nn::CharText::read(folder / "text", as_bytes)) == bytes);
  CHECK(nn::CharText::read(folder / "text", as_bytes).vocabulary().size() == 11);

  CHECK_THROWS_AS(nn::CharText::read(folder / std::string(300, 'a')), IoError);
  write_bytes(folder / "empty", "");
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder / "empty"), doctest::Contains("empty is empty"), IoError);
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder / "none"),
                       ("cannot read '" + (folder / "none").string() +
                        "': No such file or directory; check that the file exists and that you may read it")
                           .c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(nn::CharText::read("/dev/zero"), doctest::Contains("/dev/zero is a device, not a text"),
                       IoError);
  CHECK_THROWS_WITH_AS(nn::CharText(""), doctest::Contains("the text is empty"), ValueError);
}

TEST_CASE("CharText: a file that is not UTF-8 is refused with the byte's offset and what to do") {
  const TemporaryFolder folder;
  write_bytes(folder / "latin",
              "gr\xF6\xDF"
              "er");
  CHECK_THROWS_WITH_AS(
      nn::CharText::read(folder / "latin"),
      doctest::Contains("latin: byte 0xf6 at offset 2 is not UTF-8; convert the file (such as by iconv "
                        "-f LATIN1 -t UTF-8), or take each byte for a character (--bytes; in C++ "
                        "Characters::bytes)"),
      IoError);
  CHECK(nn::CharText::read(folder / "latin", {.characters = nn::Characters::bytes}).vocabulary().size() == 5);
  write_bytes(folder / "utf16", std::string("\xFF\xFE"
                                            "a\0",
                                            4));
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder / "utf16"), doctest::Contains("iconv -f UTF-16 -t UTF-8"), IoError);
}

TEST_CASE("CharText: a byte order mark is dropped, unless characters are bytes") {
  const TemporaryFolder folder;
  write_bytes(folder / "marked", "\xEF\xBB\xBFto be\xEF\xBB\xBF");
  const nn::CharText text = nn::CharText::read(folder / "marked");
  CHECK(whole(text) == "to be\xEF\xBB\xBF");  // within the text it is a character
  CHECK(text.dropped_marks() == 1);
  const nn::CharText bytes = nn::CharText::read(folder / "marked", {.characters = nn::Characters::bytes});
  CHECK(whole(bytes) == "\xEF\xBB\xBFto be\xEF\xBB\xBF");
  CHECK(bytes.dropped_marks() == 0);
  write_bytes(folder / "only", "\xEF\xBB\xBF");
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder / "only"), doctest::Contains("only is empty"), IoError);
}

TEST_CASE("CharText: newlines stay as they are, or become LF") {
  const std::string text = "a\r\nb\rc\n\r\n\r";
  CHECK(whole(nn::CharText(text)) == text);
  CHECK(whole(nn::CharText(text, {.normalise_newlines = true})) == "a\nb\nc\n\n\n");
}

TEST_CASE("CharText: of a folder, all .txt files in the order of their names, each from a line of its own") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder.path()), doctest::Contains("no name in it ends in .txt"), IoError);
  write_bytes(folder / "b.txt", "\xEF\xBB\xBFsecond");
  write_bytes(folder / "a.txt", "first\n");
  write_bytes(folder / "c.txt", "third");
  write_bytes(folder / "d.md", "not this");
  std::filesystem::create_directories(folder / "e.txt");
  write_bytes(folder / "._a.txt", "\x01\xff");             // macOS writes such files beside a.txt
  REQUIRE(mkfifo((folder / "f.txt").c_str(), 0600) == 0);  // no process writes to it
  const nn::CharText text = nn::CharText::read(folder.path());
  CHECK(whole(text) == "first\nsecond\nthird");
  CHECK(text.dropped_marks() == 1);
  write_bytes(folder / "b.txt", "sec\xFFond");
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder.path()), doctest::Contains("b.txt: byte 0xff at offset 3"), IoError);
}

TEST_CASE("CharText: the stand-in is the library's own sources") {
  const nn::CharText text = nn::CharText::of_this_project();
  CHECK(text.train().size() > 100'000);
  const std::string begin = text.vocabulary().decode(text.train().subspan(0, 20'000));
  CHECK(begin.find("#pragma once") != std::string::npos);
  CHECK(begin.find("namespace linnet") != std::string::npos);
}

TEST_CASE("random_windows: targets are one ahead, every start is drawn, and the key decides alone") {
  const std::vector<int64_t> ids = counting(0, 12);
  const nn::Batch batch = nn::random_windows(ids, 300, 4, {1, 2});
  CHECK(batch.inputs.shape() == Shape{300, 4});
  CHECK(batch.targets.shape() == Shape{300, 4});
  std::set<int64_t> starts;
  for (int64_t b = 0; b < 300; ++b) {
    const int64_t start = row(batch.inputs, b)[0];
    starts.insert(start);
    CHECK(row(batch.inputs, b) == counting(start, start + 4));
    CHECK(row(batch.targets, b) == counting(start + 1, start + 5));
  }
  CHECK(starts == std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});

  const auto inputs = [&](RandomKey key) {
    const Tensor t = nn::random_windows(ids, 300, 4, key).inputs;
    return std::vector<int64_t>(t.data<int64_t>().begin(), t.data<int64_t>().end());
  };
  CHECK(inputs({1, 2}) == inputs({1, 2}));
  CHECK(inputs({1, 2}) != inputs({1, 3}));
  CHECK(inputs({1, 2}) != inputs({2, 2}));
}

TEST_CASE("Windows: follow each other without overlap, and what is left over is dropped") {
  const std::vector<int64_t> ids = counting(0, 12);
  const nn::Windows windows(ids, 4);
  CHECK(windows.size() == 2);  // the last target of a third window is missing
  const std::vector<int64_t> both{1, 0};
  const nn::Batch batch = windows.collate(both, {});
  CHECK(row(batch.inputs, 0) == counting(4, 8));
  CHECK(row(batch.targets, 0) == counting(5, 9));
  CHECK(row(batch.inputs, 1) == counting(0, 4));
  CHECK(nn::Windows(ids, 11).size() == 1);
  CHECK_THROWS_WITH_AS(windows.collate(std::vector<int64_t>{2}, {}), doctest::Contains("window 2 of 2"), IndexError);
  CHECK_THROWS_WITH_AS(windows.collate(std::vector<int64_t>{-1}, {}), doctest::Contains("window -1 of 2"),
                       IndexError);
}

TEST_CASE("windows: a text shorter than the context is refused with both numbers") {
  const std::vector<int64_t> ids = counting(0, 12);
  CHECK_NOTHROW(nn::random_windows(ids, 1, 11, {1, 2}));
  CHECK_THROWS_WITH_AS(
      nn::random_windows(ids, 1, 12, {1, 2}),
      doctest::Contains("a text of 12 characters is too short for context 12: it must have at least 13"), ValueError);
  CHECK_THROWS_WITH_AS(nn::random_windows({}, 1, 1, {1, 2}), doctest::Contains("a text of 0 characters"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Windows(ids, 12), doctest::Contains("Windows: a text of 12 characters"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Windows(ids, 0), doctest::Contains("context must be at least 1, not 0"), ValueError);
  CHECK_THROWS_WITH_AS(nn::random_windows(ids, 0, 4, {1, 2}), doctest::Contains("batch must be at least 1, not 0"),
                       ValueError);
}

TEST_CASE("Tiny Shakespeare as published: 65 characters, 1,003,854 to train and 111,540 to validate") {
  const auto path = real_data("tinyshakespeare/input.txt");
  if (!path) return;
  const nn::CharText text = nn::CharText::read(*path);
  CHECK(text.vocabulary().size() == 65);
  CHECK(text.train().size() == 1'003'854);
  CHECK(text.validation().size() == 111'540);
  CHECK(text.vocabulary().decode(text.train().subspan(0, 14)) == "First Citizen:");
}

static_assert(!std::is_constructible_v<nn::Windows, std::vector<int64_t>, int64_t>);  // they would not outlive it
static_assert(std::is_constructible_v<nn::Windows, const std::vector<int64_t>&, int64_t>);
