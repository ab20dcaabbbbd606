#include <linnet/nn/data/text.h>

#include <doctest/doctest.h>

#include <set>

#include <linnet/core/error.h>

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

}  // namespace

TEST_CASE("Vocabulary: bytes in their order, there and back") {
  const nn::Vocabulary vocabulary("to be,\nor not to be\xC3\xA9");
  CHECK(vocabulary.characters() == "\n ,benort\xA9\xC3");
  CHECK(vocabulary.size() == 11);
  CHECK(vocabulary.encode("to") == std::vector<int64_t>{8, 6});
  CHECK(vocabulary.decode(vocabulary.encode("not \xC3\xA9\n")) == "not \xC3\xA9\n");
  CHECK(vocabulary.encode("").empty());
  CHECK(nn::Vocabulary("").size() == 0);
}

TEST_CASE("Vocabulary: an unseen character or id is named") {
  const nn::Vocabulary vocabulary("abc");
  CHECK_THROWS_WITH_AS(vocabulary.encode("abx"), "the character 'x' is not among the 3 that the model has seen",
                       ValueError);
  CHECK_THROWS_WITH_AS(vocabulary.encode("a\n"), doctest::Contains("with code 10"), ValueError);
  CHECK_THROWS_WITH_AS(vocabulary.encode("\xFF"), doctest::Contains("with code 255"), ValueError);
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
}

TEST_CASE("CharText: reads a file byte by byte; an empty, missing or unreadable one is refused") {
  const TemporaryFolder folder;
  const std::string bytes("a\r\nb\0c\xE2\x80\x94 d", 11);
  write_bytes(folder / "text", bytes);
  const nn::CharText text = nn::CharText::read(folder / "text");
  CHECK(text.vocabulary().decode(text.train()) + text.vocabulary().decode(text.validation()) == bytes);

  write_bytes(folder / "empty", "");
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder / "empty"), doctest::Contains("empty is empty"), IoError);
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder / "none"), doctest::Contains("cannot read"), IoError);
  CHECK_THROWS_WITH_AS(nn::CharText::read(folder.path()), doctest::Contains("cannot read"), IoError);
  CHECK_THROWS_WITH_AS(nn::CharText(""), doctest::Contains("the text is empty"), ValueError);
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
  CHECK(windows.size() == 2);  // the last target of a third one is missing
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
