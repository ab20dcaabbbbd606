#include <linnet/nn/text/words.h>

#include <doctest/doctest.h>

#include <linnet/core/error.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

using Words = std::vector<std::string>;
using Ids = std::vector<int64_t>;

const std::vector<std::string> kTexts{"b a b", "c a b d", "D"};

}  // namespace

TEST_CASE("word_tokenize: words, numbers and marks, lower-cased") {
  CHECK(nn::word_tokenize("To be, or NOT to be: that's  the\tquestion!\n") ==
        Words{"to", "be", ",", "or", "not", "to", "be", ":", "that", "'s", "the", "question", "!"});
  CHECK(nn::word_tokenize("").empty());
  CHECK(nn::word_tokenize(" \t\r\n\v\f").empty());
  CHECK(nn::word_tokenize("(a)[b]{c}\"d\"") == Words{"(", "a", ")", "[", "b", "]", "{", "c", "}", "\"", "d", "\""});
  CHECK(nn::word_tokenize("a_b #c @d 50% x2 2x") == Words{"a", "_", "b", "#", "c", "@", "d", "50", "%", "x2", "2x"});
  CHECK(nn::word_tokenize(std::string("a\0b\x7F"
                                      "c\x01",
                                      6)) == Words{"a", "b", "c"});
}

TEST_CASE("word_tokenize: endings with an apostrophe are words of their own") {
  CHECK(nn::word_tokenize("don't CAN'T it's we're I've you'll he'd I'm") ==
        Words{"do", "n't", "ca", "n't", "it", "'s", "we", "'re", "i", "'ve", "you", "'ll", "he", "'d", "i", "'m"});
  CHECK(nn::word_tokenize("she'd've couldn't've n't 1990's") ==
        Words{"she", "'d", "'ve", "could", "n't", "'ve", "n't", "1990", "'s"});
  CHECK(nn::word_tokenize("rock'n'roll it'sy 'tis don'ts can' 's") ==
        Words{"rock", "'", "n", "'", "roll", "it", "'", "sy", "'", "tis", "don", "'", "ts", "can", "'", "'", "s"});
  CHECK(nn::word_tokenize("isn't.") == Words{"is", "n't", "."});
  CHECK(nn::word_tokenize("don't-care") == Words{"do", "n't", "-", "care"});
}

TEST_CASE("word_tokenize: hyphens between letters, points and commas between digits") {
  CHECK(nn::word_tokenize("well-known 3,000.50 1.2.3") == Words{"well-known", "3,000.50", "1.2.3"});
  CHECK(nn::word_tokenize("a--b -c d- 1-2 a-1") ==
        Words{"a", "-", "-", "b", "-", "c", "d", "-", "1", "-", "2", "a", "-", "1"});
  CHECK(nn::word_tokenize("3. ,4 a.b 5,b U.S.") ==
        Words{"3", ".", ",", "4", "a", ".", "b", "5", ",", "b", "u", ".", "s", "."});
}

TEST_CASE("word_tokenize: other letters stay whole, and so does what is not UTF-8") {
  CHECK(nn::word_tokenize("Gr\u00fc\u00dfe, \u00c4rger-\u00c4rger \u4f60\u597d") ==
        Words{"gr\u00fc\u00dfe", ",", "\u00c4rger-\u00c4rger", "\u4f60\u597d"});
  CHECK(nn::word_tokenize("a\xFF\x80 b") == Words{"a\xFF\x80", "b"});
}

TEST_CASE("WordVocabulary: the most frequent words first, and equal ones by their bytes") {
  const auto vocabulary = nn::WordVocabulary::build(kTexts);
  CHECK(vocabulary.words() == Words{"<pad>", "<unk>", "b", "a", "d", "c"});
  CHECK(vocabulary.size() == 6);
  CHECK(vocabulary.encode("A b, zz c") == Ids{3, 2, 1, 1, 5});
  CHECK(vocabulary.encode("").empty());
  CHECK(vocabulary.decode(Ids{3, 0, 1, 2}) == "a <pad> <unk> b ");
  CHECK(vocabulary.id("<pad>") == 1);
  CHECK_THROWS_AS(vocabulary.decode(Ids{6}), IndexError);
  CHECK_THROWS_AS(vocabulary.decode(Ids{-1}), IndexError);
}

TEST_CASE("WordVocabulary: rare words and those beyond the limit have no id") {
  CHECK(nn::WordVocabulary::build(kTexts, {.min_freq = 2}).words() == Words{"<pad>", "<unk>", "b", "a", "d"});
  CHECK(nn::WordVocabulary::build(kTexts, {.max_tokens = 4}).words() == Words{"<pad>", "<unk>", "b", "a"});
  CHECK(nn::WordVocabulary::build({}).size() == 2);
  const std::vector<std::string> bytes{"\xC3\xBC z \xC3\xA4"};
  CHECK(nn::WordVocabulary::build(bytes).words() == Words{"<pad>", "<unk>", "z", "\xC3\xA4", "\xC3\xBC"});
  CHECK_THROWS_WITH_AS(nn::WordVocabulary::build(kTexts, {.min_freq = 0}), doctest::Contains("min_freq is 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::WordVocabulary::build(kTexts, {.max_tokens = 2}), doctest::Contains("max_tokens is 2"),
                       ValueError);
}

TEST_CASE("WordVocabulary: from its words, and from a file of them") {
  const TemporaryFolder folder;
  const auto vocabulary =
      nn::WordVocabulary::build(std::vector<std::string>{"b a b", "c a\xFF b n't", "\u00fc, 3.5"});
  vocabulary.save(folder / "words.txt");
  CHECK(folder.file_count() == 1);
  for (const auto& again :
       {nn::WordVocabulary::from_words(vocabulary.words()), nn::WordVocabulary::load(folder / "words.txt")}) {
    CHECK(again.words() == vocabulary.words());
    CHECK(again.encode("A b, zz c \u00fc don't") == vocabulary.encode("A b, zz c \u00fc don't"));
    CHECK(again.id("<pad>") == 1);
  }
  CHECK(read_bytes(folder / "words.txt").starts_with("<pad>\n<unk>\nb\n"));
  write_bytes(folder / "words.txt", "<pad>\r\n<unk>\r\nNew York\r\n");
  CHECK(nn::WordVocabulary::load(folder / "words.txt").words() == Words{"<pad>", "<unk>", "New York"});
  nn::WordVocabulary::build({}).save(folder / "words.txt");
  CHECK(nn::WordVocabulary::load(folder / "words.txt").size() == 2);
  CHECK_THROWS_AS(vocabulary.save(folder / "none/words.txt"), IoError);
}

TEST_CASE("WordVocabulary: words that are none of a vocabulary, by id and by line") {
  const TemporaryFolder folder;
  const auto refused = [&](const Words& words, const std::string& what) {
    CHECK_THROWS_WITH_AS(nn::WordVocabulary::from_words(words), doctest::Contains(("word " + what).c_str()),
                         ValueError);
  };
  refused({}, "0: the end where '<pad>' belongs; give the words() of a vocabulary");
  refused({"<pad>"}, "1: the end where '<unk>' belongs");
  refused({"the", "of"}, "0: 'the' where '<pad>' belongs");
  refused({"<pad>", "the"}, "1: 'the' where '<unk>' belongs");
  refused({"<pad>", "<unk>", "a", "b", "a"}, "4: 'a' is there twice");
  refused({"<pad>", "<unk>", "<pad>"}, "2: '<pad>' is there twice");
  refused({"<pad>", "<unk>", ""}, "2: a word is empty");
  refused({"<pad>", "<unk>", "a\nb"}, "2: 'a\nb' has a line end");
  refused({"<pad>", "<unk>", "a\r"}, "2: 'a\r' has a line end");
  const auto refused_file = [&](const std::string& text, const std::string& what) {
    write_bytes(folder / "words.txt", text);
    CHECK_THROWS_WITH_AS(nn::WordVocabulary::load(folder / "words.txt"),
                         doctest::Contains(("words.txt, line " + what).c_str()), IoError);
  };
  refused_file("", "1: the end where '<pad>' belongs; the file must be whole, and one that save() wrote");
  refused_file("a\nb\n", "1: 'a' where '<pad>' belongs");
  refused_file("<pad>\n<unk>\na\n\nb\n", "4: a word is empty");
  refused_file("<pad>\n<unk>\na\nb\na\n", "5: 'a' is there twice");
  refused_file("<pad>\n<unk>\na\nb", "4: the line has no end");
  CHECK_THROWS_WITH_AS(nn::WordVocabulary::load(folder / "none"), doctest::Contains("cannot read '"), IoError);
}
