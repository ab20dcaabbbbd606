/// Articles and summaries: formats, parts, generated articles, and their ids.

#include "support/summaries/articles.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "support/settings/program.h"
#include "support/settings/settings.h"
#include "support/summaries/dataset.h"
#include "support/summaries/load.h"
#include "support/summaries/summary_task.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::Quiet;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

constexpr const char* kPubmed =
    R"({"article_id": "1", "article_text": ["one two .", " three ."], "abstract_text": ["<S> one . </S>", "<S></S>", "<S> two </S>"]})";

std::vector<Article> read_lines(const fs::path& path, bool strict = false, int64_t expected = 0) {
  MalformedLines skipped(strict);
  const Quiet quiet(STDERR_FILENO);
  const std::vector<Article> articles = read_article_lines(path, skipped);
  skipped.report("data");
  CHECK(skipped.count() == expected);
  return articles;
}

Settings articles_in(const fs::path& data) {
  Settings settings = preset("cnn-dailymail", "summarise-cnn-dailymail");
  settings.data = data;
  return settings;
}

std::string refusal_of_articles(const Settings& settings) {
  const Quiet quiet(STDERR_FILENO);
  try {
    load_articles(settings);
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

std::string article_lines(const std::string& name, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines +=
        R"({"article": "text )" + name + std::to_string(i) + R"(", "summary": "short )" + std::to_string(i) + "\"}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("articles: an object a line, and PubMed's lists of sentences") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl", R"({"summary": "a\nb", "article": "gr\u00fcn.", "id": 3})"
                                  "\r\n\n" +
                                      std::string(kPubmed) + "\n");
  const std::vector<Article> articles = read_lines(folder / "a.jsonl");
  REQUIRE(articles.size() == 2);
  CHECK(articles[0].text == "gr\xC3\xBCn.");
  CHECK(articles[0].summary == "a\nb");
  CHECK(articles[1].text == "one two .\nthree .");
  CHECK(articles[1].summary == "one .\ntwo");
}

TEST_CASE("articles: a malformed line is left out and counted, or an error with --strict") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> malformed{
      {R"({"article": "a", "summary": )", "an object of JSON is expected"},
      {R"(["a", "b"])", "an object is expected, such as"},
      {R"({"article": "a"})", "a text is expected in the field \"summary\""},
      {R"({"article": "", "summary": "b"})", "a text is expected in the field \"article\""},
      {R"({"article": 3, "summary": "b"})", "a text is expected in the field \"article\""},
      {R"({"article_text": "a", "abstract_text": ["b"]})",
       "a list of sentences is expected in the field \"article_text\""},
      {R"({"article_text": ["a"], "abstract_text": [3]})", "\"abstract_text\" has a sentence that is no text"},
      {R"({"article_text": ["a"], "abstract_text": ["<S> </S>"]})", "\"abstract_text\" has no sentence"}};
  for (const auto& [line, because] : malformed) {
    CAPTURE(line);
    write_bytes(folder / "a.jsonl", article_lines("x", 2) + line + "\n" + article_lines("y", 1));
    const std::vector<Article> articles = read_lines(folder / "a.jsonl", false, 1);
    REQUIRE(articles.size() == 3);
    CHECK(articles[2].text == "text y0");
    const std::string place = "a.jsonl, line 3: " + because;
    CHECK_THROWS_WITH_AS(read_lines(folder / "a.jsonl", true), doctest::Contains(place.c_str()), IoError);
  }
  write_bytes(folder / "empty.jsonl", "\n");
  CHECK_THROWS_WITH_AS(read_lines(folder / "empty.jsonl"), doctest::Contains("empty.jsonl has no articles"), IoError);
  CHECK_THROWS_WITH_AS(read_lines(folder / "none.jsonl"), doctest::Contains("none.jsonl"), IoError);
}

TEST_CASE("articles: a line may be longer than other JSON") {
  const TemporaryFolder folder;
  const std::string text(100'000, 'a');
  write_bytes(folder / "a.jsonl", R"({"article": ")" + text + R"(", "summary": "b"})");
  const std::vector<Article> articles = read_lines(folder / "a.jsonl", true);
  REQUIRE(articles.size() == 1);
  CHECK(articles[0].text == text);
}

TEST_CASE("articles: stories of CNN/DailyMail") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "cnn/stories");
  write_bytes(folder / "cnn/stories/b.story", "One.\r\n\r\nTwo.\n\n@highlight\n\nFirst\n\n@highlight\n\nSecond");
  write_bytes(folder / "a.story", "Text\n@highlight\nShort\n");
  write_bytes(folder / "c.story", "Text without a summary\n");
  write_bytes(folder / "readme.txt", "no story");
  write_bytes(folder / "._a.story", "Mac OS X");
  const std::vector<fs::path> files = story_files(folder.path());
  REQUIRE(files.size() == 3);
  MalformedLines skipped(false);
  const Quiet quiet(STDERR_FILENO);
  const std::vector<Article> articles = read_stories(files, skipped);
  REQUIRE(articles.size() == 2);
  CHECK(articles[0].text == "Text");
  CHECK(articles[0].summary == "Short");
  CHECK(articles[1].text == "One.\nTwo.");
  CHECK(articles[1].summary == "First\nSecond");
  CHECK(skipped.count() == 1);
  MalformedLines strict(true);
  CHECK_THROWS_WITH_AS(read_stories(files, strict), doctest::Contains("c.story: a text is expected, and after it"),
                       IoError);
  CHECK_THROWS_WITH_AS(story_files(folder / "none"), doctest::Contains("cannot read the folder"), IoError);
}

TEST_CASE("articles: parts in a folder, and articles without parts") {
  const TemporaryFolder folder;
  write_bytes(folder / "train.jsonl", article_lines("train", 3));
  write_bytes(folder / "val.jsonl", article_lines("val", 2));
  CHECK(refusal_of_articles(articles_in(folder.path())).find("has a part for train, but none for test") !=
        std::string::npos);
  write_bytes(folder / "test.txt", kPubmed);
  const ArticleParts parts = load_articles(articles_in(folder.path()));
  CHECK(parts.train.size() == 3);
  CHECK(parts.dev[1].text == "text val1");
  CHECK(parts.test[0].summary == "one .\ntwo");
  CHECK(parts.name.find("crc32") != std::string::npos);
  for (const std::string name : {"dev", "valid", "validation"}) {
    fs::rename(folder / "val.jsonl", folder / (name + ".jsonl"));
    CHECK(load_articles(articles_in(folder.path())).name == parts.name);
    fs::rename(folder / (name + ".jsonl"), folder / "val.jsonl");
  }
  Settings seeded = articles_in(folder.path());
  seeded.lra.data_seed = 2;
  const std::string refusal = "--data-seed 2 does not apply to " + folder.path().string() +
                              ", which has the parts train, val and test; leave it out";
  CHECK_THROWS_WITH_AS(load_articles(seeded), refusal.c_str(), UsageError);
  seeded.resume = true;  // a run of an older version may have begun so
  CHECK(load_articles(seeded).name == parts.name);

  write_bytes(folder / "all.jsonl", article_lines("a", 40));
  Settings settings = articles_in(folder / "all.jsonl");
  const ArticleParts divided = load_articles(settings);
  CHECK(divided.train.size() == 32);
  CHECK(divided.dev.size() == 4);
  CHECK(divided.test.size() == 4);
  std::vector<std::string> texts;
  for (const auto* part : {&divided.train, &divided.dev, &divided.test}) {
    for (const Article& article : *part) texts.push_back(article.text);
  }
  CHECK_FALSE(std::ranges::is_sorted(texts));
  std::ranges::sort(texts);
  CHECK(std::ranges::adjacent_find(texts) == texts.end());
  settings.lra.data_seed = 2;
  CHECK(load_articles(settings).name != divided.name);

  write_bytes(folder / "few.jsonl", article_lines("a", 9));
  CHECK(refusal_of_articles(articles_in(folder / "few.jsonl")).find("0 for validation and 0 to test") !=
        std::string::npos);
  fs::create_directories(folder / "stories");
  for (int i = 0; i < 10; ++i) {
    write_bytes(folder / ("stories/" + std::to_string(i) + ".story"), "Text\n@highlight\nShort\n");
  }
  CHECK(load_articles(articles_in(folder / "stories")).train.size() == 8);
}

TEST_CASE("articles: what is absent is named, and generated letters stand in only where they are asked for") {
  Settings settings = preset("pubmed", "summarise-pubmed");
  const std::string absent = refusal_of_articles(settings);
  CHECK(absent.find("no PubMed ({train,val,test}.txt)") != std::string::npos);
  CHECK(absent.find("https://github.com/armancohan") != std::string::npos);
  settings.lra.stand_in = true;
  const Quiet quiet(STDERR_FILENO);
  CHECK(load_articles(settings).name.starts_with("stand-in: capital letters to sort"));
}

TEST_CASE("articles: the capitals of generated letters, in order") {
  const ArticleParts sorted = generated_articles(true, 1), copied = generated_articles(false, 1);
  CHECK(sorted.train[5].text == copied.train[5].text);
  CHECK(generated_articles(true, 2).train[5].text != sorted.train[5].text);
  for (size_t i = 0; i < sorted.test.size(); ++i) {
    std::string capitals;
    for (const char c : sorted.test[i].text) {
      if (c >= 'A' && c <= 'Z') capitals += c;
    }
    CHECK(capitals.size() >= 1);
    CHECK(capitals.size() <= 8);
    CHECK(copied.test[i].summary == capitals);
    std::ranges::sort(capitals);
    CHECK(sorted.test[i].summary == capitals);
  }
}

TEST_CASE("articles: ids, padding, and what is cut") {
  const nn::Vocabulary letters("abcd");
  const std::vector<Article> articles{{"abc", "d"}, {"dcbad", "abc"}};
  const SummaryDataset data(articles, letters, {4, 3});
  CHECK(data.cut_sources() == 1);
  CHECK(data.cut_targets() == 1);
  CHECK(data.lengths() == std::vector<int64_t>{5, 7});
  CHECK(data.tokens() == 12);
  const nn::Batch batch = data.collate(std::vector<int64_t>{1, 0}, {});
  const int64_t padding = 4, begin = 5, end = 6, ignored = SummaryDataset::kIgnored;
  CHECK(batch.inputs.to_vector<int64_t>() == std::vector<int64_t>{3, 2, 1, 0, 0, 1, 2, padding});
  CHECK(batch.others[0].to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 0});
  CHECK(batch.others[1].to_vector<int64_t>() == std::vector<int64_t>{begin, 0, 1, begin, 3, padding});
  CHECK(batch.targets.to_vector<int64_t>() == std::vector<int64_t>{0, 1, end, 3, end, ignored});
  CHECK_THROWS_AS(data.collate(std::vector<int64_t>{2}, {}), IndexError);
}

TEST_CASE("articles: the first sentences") {
  CHECK(first_sentences("One. Two? Three! Four.", 3) == "One.\nTwo?\nThree!");
  CHECK(first_sentences("It costs 3.5 a\nline  . Then", 3) == "It costs 3.5 a\nline  .\nThen");
  CHECK(first_sentences("Alone", 3) == "Alone");
  CHECK(first_sentences("", 3).empty());
}
