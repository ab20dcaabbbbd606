#include "support/users/words.h"

#include <doctest/doctest.h>

using namespace linnet::examples;
using Words = std::vector<std::string>;

TEST_CASE("words: letters, digits and bytes beyond ASCII, endings, numbers, hyphens, and single characters") {
  CHECK(words_of("").empty());
  CHECK(words_of(" \t\n\x01").empty());
  CHECK(words_of("The CUP, won 3-0!") == Words{"the", "cup", ",", "won", "3", "-", "0", "!"});
  CHECK(words_of("don't can't isn't n't") == Words{"do", "n't", "ca", "n't", "is", "n't", "n't"});
  CHECK(words_of("it's we're I've they'll he'd I'm") ==
        Words{"it", "'s", "we", "'re", "i", "'ve", "they", "'ll", "he", "'d", "i", "'m"});
  CHECK(words_of("o'clock 's rock'n don'ts") ==
        Words{"o", "'", "clock", "'", "s", "rock", "'", "n", "don", "'", "ts"});
  CHECK(words_of("1,000.5 3. .5 a.b x,y") == Words{"1,000.5", "3", ".", ".", "5", "a", ".", "b", "x", ",", "y"});
  CHECK(words_of("well-known -a- a--b") == Words{"well-known", "-", "a", "-", "a", "-", "-", "b"});
  CHECK(words_of("Gr\xC3\xBCn \xFF") == Words{"gr\xC3\xBCn", "\xFF"});
  CHECK(words_of("a\x7f"
                 "b") == Words{"a", "b"});
}

TEST_CASE("ids of words: the most frequent first, then by bytes, and what is rare or new is one unknown word") {
  const WordIds ids({"b a c", "c b c", "a rare"});
  CHECK(ids.size() == 5);
  CHECK(ids.ids_of("c A b rare new", 10) == std::vector<int32_t>{2, 3, 4, 1, 1});
  CHECK(ids.ids_of("c a b", 2) == std::vector<int32_t>{2, 3});
  CHECK(ids.ids_of(" ", 2) == std::vector<int32_t>{1});
  CHECK(WordIds({"b a c", "c b c", "a"}, 1, 1).size() == 3);
  CHECK(WordIds({"x"}, 1).ids_of("x", 1) == std::vector<int32_t>{2});
  CHECK(WordIds({}).size() == 2);
}
