/// Texts as sequences of bytes.

#include "support/lra/documents.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <linnet/core/error.h>

#include "tests/support/files.h"
#include "tests/support/quiet.h"
#include "tests/support/threads.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::Quiet;
using linnet::test::TemporaryFolder;
using linnet::test::WithThreads;
using linnet::test::write_bytes;

namespace {

namespace fs = std::filesystem;
using Load = SequenceData (*)(const Settings&);

Settings documents_in(const fs::path& data, int64_t context = 4000) {
  Settings settings;
  settings.data = data;
  settings.context = context;
  return settings;
}

std::string text_of(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> labels_of(const LabelledSequences& data) { return {data.labels().begin(), data.labels().end()}; }

std::string refusal(const Load load, const fs::path& data) {
  try {
    load(documents_in(data));
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

void check_part(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

void write_reviews(const fs::path& folder) {
  for (const std::string part : {"train", "test"}) {
    for (const char* label : {"neg", "pos"}) fs::create_directories(folder / part / label);
    write_bytes(folder / part / "neg/1_1.txt", part + ": dull");
    write_bytes(folder / part / "pos/0_9.txt", part +
                                                   ": gr\xC3\xBC"
                                                   "n");
    write_bytes(folder / part / "pos/10_9.txt", part + ": fine\n");
    write_bytes(folder / part / "pos/notes.md", "no review");
    write_bytes(folder / part / "pos/._10_9.txt", "Mac OS X");
  }
}

void write_pairs(const fs::path& folder, const std::string& more = "") {
  fs::create_directories(folder);
  for (const std::string part : {"train", "eval", "test"}) {
    write_bytes(folder / ("new_aan_pairs." + part + ".tsv"),
                "1.0\tA1\tB1\tone \"quoted\ttwo \xC3\xBC\n0.0\tA2\tB2\t" + part + "\tfour\r\n" + more);
  }
}

/// A stand-in. Its line on stderr is not shown.
SequenceData stand_in(const Load load, int64_t context, uint64_t seed = 1) {
  const TemporaryFolder folder;
  const Quiet quiet(STDERR_FILENO);
  Settings settings = documents_in(folder.path(), context);
  settings.lra.stand_in = true;
  settings.lra.data_seed = seed;
  return load(settings);
}

std::vector<std::string> words_of(std::span<const uint8_t> bytes) {
  std::istringstream text(text_of(bytes));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("text: reviews in the order of their names, bytes as they are, and dev is the test part") {
  const TemporaryFolder folder;
  write_reviews(folder / "aclImdb");
  const SequenceData data = load_reviews(documents_in(folder.path()));
  CHECK(data.name.starts_with("aclImdb ("));
  CHECK(load_reviews(documents_in(folder / "aclImdb")).name == data.name);
  REQUIRE(data.train.size() == 3);
  CHECK(text_of(data.train.first()[0]) == "train: dull");
  CHECK(text_of(data.train.first()[1]) ==
        "train: gr\xC3\xBC"
        "n");
  CHECK(text_of(data.train.first()[2]) == "train: fine\n");
  CHECK(labels_of(data.train) == std::vector<uint8_t>{0, 1, 1});
  CHECK(text_of(data.test.first()[2]) == "test: fine\n");
  CHECK(std::ranges::equal(data.dev.first().bytes(), data.test.first().bytes()));
  CHECK(labels_of(data.dev) == labels_of(data.test));

  const SequenceData cut = load_reviews(documents_in(folder.path(), 9));
  CHECK(text_of(cut.train.first()[1]) == "train: gr");
  CHECK(text_of(cut.test.first()[0]) == "test: dul");
  const std::vector<int64_t> first{0};
  CHECK(cut.train.collate(first, {}).inputs.to_vector<int64_t>()[0] == 't' + 1);
}

TEST_CASE("text: folders without reviews, and empty ones") {
  const TemporaryFolder folder;
  CHECK(refusal(load_reviews, folder.path()) ==
        "no IMDb reviews ({train,test}/{neg,pos}/*.txt) in " + folder.path().string() + " or " +
            (folder / "aclImdb").string() +
            "; it is published at https://ai.stanford.edu/~amaas/data/sentiment/, and --stand-in goes on with "
            "generated documents of words from two lists");
  write_reviews(folder / "aclImdb");
  write_bytes(folder / "aclImdb/test/pos/0_9.txt", "");
  check_part(refusal(load_reviews, folder.path()), "test/pos/0_9.txt is empty; unpack the reviews again");
  write_reviews(folder / "aclImdb");
  fs::remove(folder / "aclImdb/train/neg/1_1.txt");
  check_part(refusal(load_reviews, folder.path()), "no *.txt is in " + (folder / "aclImdb/train/neg").string());
  fs::remove_all(folder / "aclImdb/train/neg");
  check_part(refusal(load_reviews, folder.path()),
             "cannot read the folder " + (folder / "aclImdb/train/neg").string());
  check_part(refusal(load_reviews, folder / "none"), "there is no such file or folder");
}

TEST_CASE("retrieval: pairs with quotes as they are, cut after the context") {
  const TemporaryFolder folder;
  write_pairs(folder / "tsv_data");
  const SequenceData data = load_retrieval(documents_in(folder.path()));
  CHECK(data.name.starts_with("tsv_data ("));
  CHECK(load_retrieval(documents_in(folder / "tsv_data")).name == data.name);
  REQUIRE(data.train.size() == 2);
  CHECK(text_of(data.train.first()[0]) == "one \"quoted");
  CHECK(text_of(data.train.second()[0]) == "two \xC3\xBC");
  CHECK(text_of(data.train.second()[1]) == "four");
  CHECK(labels_of(data.train) == std::vector<uint8_t>{1, 0});
  CHECK(text_of(data.dev.first()[1]) == "eval");
  CHECK(text_of(data.test.first()[1]) == "test");
  const SequenceData cut = load_retrieval(documents_in(folder.path(), 5));
  CHECK(text_of(cut.train.first()[0]) == "one \"");
  CHECK(text_of(cut.train.second()[0]) == "two \xC3");
  CHECK(cut.train.lengths() == std::vector<int64_t>{5, 5});

  write_bytes(folder / "tsv_data/new_aan_pairs.eval.tsv",
              "1.0\tA1\tB1\tone \"quoted\ttwo \xC3\xBC\n0.0\tA2\tB2\teval\tfive");
  CHECK(load_retrieval(documents_in(folder.path())).name != data.name);
}

TEST_CASE("retrieval: malformed lines are refused with their number") {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& line) {
    write_pairs(folder / "tsv_data", line);
    return refusal(load_retrieval, folder.path());
  };
  CHECK(with("1.0\ta\tb\tc\td\n") == "accepted");
  check_part(
      with("1.0\ta\tb\tc\n"),
      "new_aan_pairs.train.tsv, line 3: 4 columns, where 5 are expected: label, id1, id2, text1, text2, with tabs "
      "between");
  check_part(with("1.0\ta\tb\tc\td\te\n"), "line 3: 6 columns, where 5 are expected");
  check_part(with("\n"), "line 3: 1 columns");
  check_part(with("2.0\ta\tb\tc\td\n"), "line 3: label '2.0'; 0.0 or 1.0 is expected");
  check_part(with("1\ta\tb\tc\td\n"), "line 3: label '1'; 0.0 or 1.0");
  check_part(with("1.0\ta\tb\t\td\n"), "line 3: text1 ''; a text is expected");
  check_part(with("1.0\ta\tb\tc\t\n"), "line 3: text2 ''; a text is expected");
  write_pairs(folder / "tsv_data");
  write_bytes(folder / "tsv_data/new_aan_pairs.eval.tsv", "");
  check_part(refusal(load_retrieval, folder.path()), "new_aan_pairs.eval.tsv has no examples");
  fs::remove(folder / "tsv_data/new_aan_pairs.test.tsv");
  write_bytes(folder / "tsv_data/new_aan_pairs.eval.tsv", "1.0\ta\tb\tc\td");
  check_part(refusal(load_retrieval, folder.path()), "new_aan_pairs.test.tsv': No such file or directory");
  fs::remove_all(folder / "tsv_data");
  check_part(refusal(load_retrieval, folder.path()),
             "no ACL Anthology Network (new_aan_pairs.{train,eval,test}.tsv) in");
  check_part(refusal(load_retrieval, folder.path()),
             "; it is part of lra_release.gz, which is gone where it was "
             "published (issue 52 of ");
  check_part(refusal(load_retrieval, folder.path()),
             "--stand-in goes on with generated pairs of documents that share a topic or not");
}

TEST_CASE("stand-ins for texts: named, of one seed the same at any number of threads") {
  for (const Load load : {load_reviews, load_retrieval}) {
    const auto make = [&](int threads, uint64_t seed) {
      const WithThreads with(threads);
      return stand_in(load, 100, seed);
    };
    const SequenceData one = make(1, 1), three = make(3, 1), other = make(3, 2);
    CHECK(one.name.starts_with("stand-in: generated "));
    CHECK(one.name.ends_with("(seed 1)"));
    CHECK(one.name != other.name);
    for (const auto part : {&SequenceData::train, &SequenceData::dev, &SequenceData::test}) {
      CHECK(std::ranges::equal((one.*part).first().bytes(), (three.*part).first().bytes()));
      CHECK(std::ranges::equal((one.*part).second().bytes(), (three.*part).second().bytes()));
      CHECK(labels_of(one.*part) == labels_of(three.*part));
      CHECK_FALSE(std::ranges::equal((one.*part).first().bytes(), (other.*part).first().bytes()));
    }
    CHECK(one.train.size() == 10000);
    CHECK(one.dev.size() == 2000);
    CHECK(one.test.size() == 2000);
    CHECK_FALSE(text_of(one.dev.first()[0]) == text_of(one.test.first()[0]));
    const std::vector<int64_t> lengths = one.train.lengths();
    CHECK(*std::ranges::max_element(lengths) == 100);
    CHECK(*std::ranges::min_element(lengths) > 100 / 8);
    const std::vector<uint8_t> labels = labels_of(one.train);
    CHECK(std::abs(static_cast<double>(std::ranges::count(labels, 1)) - 5000) < 200);
  }
}

TEST_CASE("the stand-in for reviews can be told by its words, and not by a few") {
  const SequenceData data = stand_in(load_reviews, 1000);
  std::map<std::string, std::array<double, 2>> counts;
  for (int64_t i = 0; i < data.train.size(); ++i) {
    for (const std::string& word : words_of(data.train.first()[i])) {
      ++counts[word][data.train.labels()[static_cast<size_t>(i)]];
    }
  }
  CHECK(counts.size() > 300);  // and parts of words at the ends
  int64_t right = 0, right_of_ten = 0;
  for (int64_t i = 0; i < data.test.size(); ++i) {
    double score = 0, score_of_ten = 0;
    int64_t words = 0;
    for (const std::string& word : words_of(data.test.first()[i])) {
      const auto found = counts.find(word);
      if (found == counts.end()) continue;
      score += std::log((found->second[1] + 1) / (found->second[0] + 1));
      if (++words == 10) score_of_ten = score;
    }
    const uint8_t label = data.test.labels()[static_cast<size_t>(i)];
    right += (score > 0) == (label == 1);
    right_of_ten += (score_of_ten > 0) == (label == 1);
  }
  CHECK(right > 1800);
  CHECK(right_of_ten < 1600);
}

TEST_CASE("the stand-in for retrieval can be told by the words that both documents have") {
  const SequenceData data = stand_in(load_retrieval, 1000);
  std::map<std::string, int64_t> documents;  // number of documents with a word
  std::vector<std::set<std::string>> firsts, seconds;
  for (int64_t i = 0; i < data.test.size(); ++i) {
    const auto first = words_of(data.test.first()[i]), second = words_of(data.test.second()[i]);
    firsts.emplace_back(first.begin(), first.end());
    seconds.emplace_back(second.begin(), second.end());
    for (const std::string& word : firsts.back()) ++documents[word];
  }
  int64_t right = 0;
  for (size_t i = 0; i < firsts.size(); ++i) {
    int64_t rare = 0;  // number of rare words that both documents have
    for (const std::string& word : firsts[i]) rare += documents[word] < 200 && seconds[i].contains(word);
    right += (rare > 3) == (data.test.labels()[i] == 1);
  }
  CHECK(right > 1900);
}
