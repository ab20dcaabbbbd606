/// MIND's files, and the evaluation of scores of their candidates.

#include "support/users/mind.h"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "tests/support/child_program.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::Quiet;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

const fs::path kSheet = fs::path(LINNET_TEST_DATA) / "goldens/mind";

Settings mind_in(const fs::path& data) {
  Settings settings;
  settings.data = data;
  return settings;
}

std::string news_line(const std::string& id, const std::string& title) {
  return id + "\tsports\tsoccer\t" + title + "\tabstract\turl\t[]\t[]\n";
}

/// A folder with two impressions in each part.
class SmallMind {
 public:
  SmallMind() {
    for (const std::string part : {"train", "dev"}) {
      fs::create_directories(folder_ / part);
      write(part + "/news.tsv",
            news_line("N1", "One one") + news_line("N2", "Two") + news_line("N3", "One two three"));
      write(part + "/behaviors.tsv",
            "1\tU1\t11/15/2019 8:55:22 AM\tN1 N2\tN3-1 N1-0\n2\tU2\t11/15/2019 8:55:22 AM\t\tN2-0 N3-1\r\n");
    }
  }
  void write(const std::string& name, const std::string& text) const { write_bytes(folder_ / name, text); }
  fs::path path(const std::string& name = "") const { return name.empty() ? folder_.path() : folder_ / name; }

  std::string refusal(bool strict = true) const {
    Settings settings = mind_in(folder_.path());
    settings.of_users.strict = strict;
    try {
      load_mind(settings);
    } catch (const IoError& error) {
      return error.what();
    }
    return "accepted";
  }
  ClickSet load() const { return load_mind(mind_in(folder_.path())); }

 private:
  TemporaryFolder folder_;
};

std::vector<int32_t> list(std::span<const int32_t> span) { return {span.begin(), span.end()}; }

/// What `work` writes to stderr.
template <class Work>
std::string complaints(const Work& work) {
  const TemporaryFolder folder;
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  std::FILE* file = std::fopen((folder / "err").c_str(), "w");
  dup2(fileno(file), STDERR_FILENO);
  work();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::fclose(file);
  return read_bytes(folder / "err");
}

}  // namespace

TEST_CASE("MIND: a sheet is judged as by the official formulas") {
  const Quiet quiet(STDERR_FILENO);  // it has news that news.tsv lacks
  const ClickSet data = load_mind(mind_in(kSheet));
  const auto expected = nlohmann::json::parse(read_bytes(kSheet / "expected.json"));
  REQUIRE(data.dev.size() == 60);
  RankingMeasures measures;
  std::string predictions;
  int64_t counted = 0;
  for (const Impression& impression : data.dev) {
    const auto scores = expected["scores"][std::to_string(impression.id)].get<std::vector<double>>();
    REQUIRE(scores.size() == impression.candidates.size());
    counted += has_both_kinds(impression) ? 1 : 0;
    measures.add(impression, scores);
    predictions += fmt::format("{} [{}]\n", impression.id, fmt::join(ranks(impression, scores), ","));
  }
  CHECK(counted == expected["counted"]);
  for (const auto& [name, value] : measures.means()) {
    CAPTURE(name);
    CHECK(std::abs(value - expected["measures"][name].get<double>()) < 1e-12);
  }
  CHECK(measures.means().size() == 4);
  CHECK(RankingMeasures().means().empty());
  CHECK(predictions == read_bytes(kSheet / "predictions.txt"));
}

TEST_CASE("MIND: titles, histories, candidates and clicks, and what news.tsv lacks") {
  const SmallMind mind;
  const ClickSet data = mind.load();
  CHECK(data.vocabulary == 4);  // padding, unknown, one, two; three occurs only once
  REQUIRE(data.items.size() == 3);
  CHECK(list(data.items[0]) == std::vector<int32_t>{2, 2});
  CHECK(list(data.items[2]) == std::vector<int32_t>{2, 3, 1});
  REQUIRE(data.train.size() == 2);
  CHECK(data.train[0].id == 1);
  CHECK(data.train[0].history == std::vector<int32_t>{0, 1});
  CHECK(data.train[0].candidates == std::vector<int32_t>{2, 0});
  CHECK(data.train[0].clicked == std::vector<bool>{true, false});
  CHECK(data.train[1].history.empty());
  CHECK(data.train[1].clicked == std::vector<bool>{false, true});
  CHECK(data.name.find("crc32") != std::string::npos);

  mind.write("dev/news.tsv", news_line("N3", "Another title") + news_line("N4", ""));
  mind.write("dev/behaviors.tsv", "7\tU1\ttime\tN9 N4 N8\tN3-1 N7-0 N4-0\n");
  ClickSet other;
  const std::string said = complaints([&] { other = mind.load(); });
  CHECK(said == mind.path("dev/behaviors.tsv").string() +
                    ": 2 news of histories and 1 candidates are not in news.tsv, and are left out\n");
  CHECK(other.name != data.name);
  REQUIRE(other.items.size() == 4);
  CHECK(list(other.items[2]) == list(data.items[2]));  // the title of train
  CHECK(list(other.items[3]) == std::vector<int32_t>{1});
  CHECK(other.dev[0].history == std::vector<int32_t>{3});
  CHECK(other.dev[0].candidates == std::vector<int32_t>{2, Impression::kUnknown, 3});
  CHECK(ranks(other.dev[0], {0.5, 9, 0.5}) == std::vector<int64_t>{2, 3, 1});
}

TEST_CASE("MIND: the first words of a title, and the last news of a history") {
  const SmallMind mind;
  mind.write("train/behaviors.tsv", "1\tU1\ttime\tN1 N2 N9 N3\tN3-1 N1-0\n");
  Settings settings = mind_in(mind.path());
  settings.of_users.title_words = 2;
  settings.of_users.history = 2;
  const Quiet quiet(STDERR_FILENO);
  const ClickSet data = load_mind(settings);
  CHECK(list(data.items[2]) == std::vector<int32_t>{2, 3});
  CHECK(data.train[0].history == std::vector<int32_t>{1, 2});
}

TEST_CASE("MIND: a malformed line is named with --strict, and else left out and counted") {
  const std::string good = "3\tU\ttime\tN1\tN1-1 N2-0\n";
  const auto check = [&](const std::string& file, const std::string& line, const std::string& what) {
    CAPTURE(line);
    const SmallMind mind;
    const std::string before = file == "news.tsv" ? news_line("N1", "One") : good;
    mind.write("train/" + file, before + line + "\n" + before);
    CHECK(mind.refusal() == mind.path("train/" + file).string() + ", line 2: " + what);
    const std::string said = complaints([&] { mind.load(); });
    CHECK(said.starts_with(mind.path("train/" + file).string() +
                           ": 1 of 3 lines are malformed and left out; the first is line 2: " + what + "\n"));
  };
  const std::string of_news =
      "8 are expected: id, category, subcategory, title, abstract, url, title entities, "
      "abstract entities, with tabs between";
  check("news.tsv", "N2\tsports", "2 columns, where " + of_news);
  check("news.tsv", "x", "1 columns, where " + of_news);
  check("news.tsv", news_line("N2", "a\tb").substr(0, 20) + "\t\t\t\t\t\t\t", "12 columns, where " + of_news);
  check("news.tsv", "\ta\tb\tc\td\te\tf\tg", "an empty news id; an id such as N12 is expected");
  const std::string of_users =
      "5 are expected: impression id, user id, time, history, impressions, with tabs between";
  check("behaviors.tsv", "3\tU\ttime\tN1", "4 columns, where " + of_users);
  check("behaviors.tsv", "x3\tU\ttime\tN1\tN1-1", "impression id 'x3'; a whole number is expected");
  check("behaviors.tsv", "99999999999999999999\tU\ttime\tN1\tN1-1",
        "impression id '99999999999999999999'; a whole number is expected");
  check("behaviors.tsv", "3\tU\ttime\tN1\t", "no candidates; at least one is expected");
  for (const std::string candidate : {"N1", "N1-2", "-1", "N1-", "N1-1-"}) {
    check("behaviors.tsv", "3\tU\ttime\tN1\tN2-0 " + candidate,
          "candidate '" + candidate + "'; a news id is expected, with -1 if it was clicked and -0 if not");
  }
}

TEST_CASE("MIND: files that are absent, empty, or have no line as expected") {
  const SmallMind mind;
  mind.write("dev/behaviors.tsv", "");
  CHECK(mind.refusal(false) == mind.path("dev/behaviors.tsv").string() + " has no lines; copy it again");
  mind.write("dev/behaviors.tsv", "\n\n");
  CHECK(mind.refusal(false) == mind.path("dev/behaviors.tsv").string() + " has no lines; copy it again");
  mind.write("dev/behaviors.tsv", "x\ny\n");
  CHECK(mind.refusal(false).starts_with(mind.path("dev/behaviors.tsv").string() + ", line 1: 1 columns"));
  CHECK(mind.refusal(false).ends_with("; no line of the file is as expected"));
  fs::remove(mind.path("dev/behaviors.tsv"));
  CHECK(mind.refusal().starts_with("no MIND (train/ and dev/, each with news.tsv and behaviors.tsv) in "));
  fs::remove(mind.path("train/behaviors.tsv"));
  CHECK(mind.refusal() ==
        fmt::format("no MIND (train/ and dev/, each with news.tsv and behaviors.tsv) in {0} or {0}/MIND; it is "
                    "published at https://msnews.github.io, and without --data clicks are generated",
                    mind.path().string()));
}

TEST_CASE("MIND: predictions are for test/, whose candidates have no labels, or else for dev/") {
  const SmallMind mind;
  CHECK(load_mind_to_predict(mind_in(mind.path())).folder == mind.path("dev"));
  fs::create_directories(mind.path("test"));
  mind.write("test/news.tsv", news_line("N1", "One") + news_line("N5", "One"));
  mind.write("test/behaviors.tsv", "12\tU1\ttime\tN5\tN5 N1 N5\n");
  const PredictedClicks clicks = load_mind_to_predict(mind_in(mind.path()));
  CHECK(clicks.folder == mind.path("test"));
  CHECK(clicks.items.size() == 4);
  REQUIRE(clicks.impressions.size() == 1);
  CHECK(clicks.impressions[0].candidates == std::vector<int32_t>{3, 0, 3});
  CHECK(clicks.impressions[0].clicked.empty());
}

TEST_CASE("MIND: a file that is cut anywhere is read or refused") {
  const SmallMind mind;
  const Quiet quiet(STDERR_FILENO);
  for (const std::string name : {"train/news.tsv", "train/behaviors.tsv"}) {
    const std::string whole = read_bytes(mind.path(name));
    for (size_t i = 0; i < whole.size(); ++i) {
      mind.write(name, whole.substr(0, i));
      mind.refusal(i % 2 == 0);
    }
    mind.write(name, whole);
  }
  CHECK(mind.refusal() == "accepted");
}
