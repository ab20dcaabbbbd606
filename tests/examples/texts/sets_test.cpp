/// Sets of texts with labels: their parts, classes and ids.

#include "support/texts/sets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <linnet/core/error.h>

#include "support/lra/documents.h"
#include "support/settings/program.h"
#include "support/texts/speakers.h"
#include "support/texts/stand_in.h"
#include "support/texts/text_data.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"
#include "tests/support/real_data.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::Quiet;
using linnet::test::real_data;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

Settings settings_for(const std::string& task, const fs::path& data) {
  Settings settings = preset(task, preset_names(task).front());
  settings.data = data;
  settings.texts.min_count = 1;
  return settings;
}

/// The texts of a part, joined by "|".
std::string joined(const std::vector<LabelledText>& texts) {
  std::string all;
  for (const LabelledText& text : texts) all += (all.empty() ? "" : "|") + text.text;
  return all;
}

/// Writes the parts train and test, each with ten texts of the classes neg and pos.
void write_folders_of_texts(const fs::path& folder) {
  for (const std::string part : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      fs::create_directories(folder / part / label);
      for (int i = 0; i < 10; ++i) write_bytes(folder / part / label / fmt::format("{}.txt", i), "text");
    }
  }
}

/// A play in which each of `names` makes `count` speeches, in turn.
std::string play(const Words& names, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (const std::string& name : names) text += fmt::format("{}:\nspeech {}\nof mine\n\n", name, i);
  }
  return text;
}

TextData data_of(const Settings& settings) {
  const Quiet quiet(STDERR_FILENO);
  return text_data(load_labelled_texts(settings), settings);
}

std::string error_of(const Settings& settings) {
  try {
    data_of(settings);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("speakers: the ten with most speeches, each divided by the place in the file") {
  const TemporaryFolder folder;
  Words names;
  for (int i = 0; i < 10; ++i) names.push_back(fmt::format("Speaker {}", i));
  const std::string rare = "Rare:\nnever\n\n";
  write_bytes(folder / "p.txt", rare + play(names, 20) + rare + "A line with a colon: no speech\n\nSpeaker 0:\nlast");
  const TextParts parts = read_speakers(folder / "p.txt");
  CHECK(parts.train.size() == 17 + 9 * 16);  // of 21 speeches two are dev, and two to test
  CHECK(parts.dev.size() == 20);
  CHECK(parts.test.size() == 20);
  std::map<std::string, std::string> texts;
  for (const LabelledText& text : parts.test) texts[text.label] += text.text + "|";
  CHECK(texts["Speaker 0"] == "speech 19\nof mine|last|");
  CHECK(texts["Speaker 1"] == "speech 18\nof mine|speech 19\nof mine|");
  CHECK(!texts.contains("Rare"));
  CHECK(parts.train.front().place == (folder / "p.txt").string() + ", line 4");

  write_bytes(folder / "p.txt", "\xEF\xBB\xBF" + play({"A", "B"}, 20));
  CHECK(read_speakers(folder / "p.txt").train.size() == 32);

  const auto refused = [&](const std::string& text, const std::string& part) {
    write_bytes(folder / "p.txt", text);
    CHECK_THROWS_WITH_AS(read_speakers(folder / "p.txt"), doctest::Contains(part.c_str()), IoError);
  };
  refused("To be, or not to be", "has 0 speakers: a line with a name and a colon begins each speech");
  refused(play({"A"}, 20), "has 1 speaker:");
  refused(play({"A", "B"}, 9), "has 9 speeches of A, where 10 or more are needed");
}

TEST_CASE("speakers of Tiny Shakespeare") {
  const auto file = real_data("tinyshakespeare/input.txt");
  if (!file) return;
  const TextParts parts = read_speakers(*file);
  CHECK(parts.train.size() == 1269);
  CHECK(parts.dev.size() == 151);
  CHECK(parts.test.size() == 151);
  std::map<std::string, int> counts;
  for (const LabelledText& text : parts.test) ++counts[text.label];
  CHECK(counts == std::map<std::string, int>{{"CORIOLANUS", 14},
                                             {"DUKE VINCENTIO", 19},
                                             {"GLOUCESTER", 22},
                                             {"ISABELLA", 12},
                                             {"JULIET", 12},
                                             {"KING RICHARD III", 13},
                                             {"LEONTES", 12},
                                             {"MENENIUS", 16},
                                             {"PETRUCHIO", 15},
                                             {"ROMEO", 16}});
}

TEST_CASE("texts of one's own: a file is shuffled and divided, and its name says what is in it") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += fmt::format("{}\ttext {}\n", i % 2 == 0 ? "odd" : "even", i);
  write_bytes(folder / "my.tsv", lines);
  Settings settings = settings_for("own-texts", folder / "my.tsv");
  const NamedTexts texts = load_labelled_texts(settings);
  CHECK(texts.name.starts_with("my.tsv ("));
  CHECK(texts.parts.train.size() == 32);
  CHECK(texts.parts.dev.size() == 4);
  CHECK(texts.parts.test.size() == 4);
  std::set<std::string> all;
  for (const auto* part : {&texts.parts.train, &texts.parts.dev, &texts.parts.test}) {
    for (const LabelledText& text : *part) all.insert(text.text);
  }
  CHECK(all.size() == 40);
  CHECK(joined(load_labelled_texts(settings).parts.train) == joined(texts.parts.train));
  CHECK(load_labelled_texts(settings).name == texts.name);
  settings.lra.data_seed = 2;
  CHECK(joined(load_labelled_texts(settings).parts.train) != joined(texts.parts.train));
  write_bytes(folder / "my.tsv", "a\tb\n");
  CHECK(has(error_of(settings),
            "my.tsv: 1 texts, and a tenth of them is for dev and another to test; give 10 or more"));
  CHECK(has(error_of(settings_for("own-texts", folder / "none.tsv")), "there is no such file or folder"));
  CHECK_THROWS_WITH_AS(load_labelled_texts(settings_for("own-texts", "")),
                       doctest::Contains("--task own-texts takes texts of your own; name them with --data"),
                       UsageError);
}

TEST_CASE("texts of one's own: a folder with parts, of which dev may be missing") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += fmt::format("x\ttext {}\n", i);
  write_bytes(folder / "train.tsv", lines);
  write_bytes(folder / "test.tsv", "x\tone\nx\ttwo\n");
  const Settings settings = settings_for("own-texts", folder.path());
  TextParts parts = load_labelled_texts(settings).parts;
  CHECK(parts.train.size() == 18);
  CHECK(parts.dev.size() == 2);
  CHECK(joined(parts.test) == "one|two");
  write_bytes(folder / "dev.tsv", "x\tthree\n");
  parts = load_labelled_texts(settings).parts;
  CHECK(parts.train.size() == 20);
  CHECK(joined(parts.train).starts_with("text 0|text 1|"));
  CHECK(joined(parts.dev) == "three");
  for (const std::string name : {"val", "valid", "validation"}) {
    CAPTURE(name);
    fs::rename(folder / "dev.tsv", folder / (name + ".tsv"));
    CHECK(joined(load_labelled_texts(settings).parts.dev) == "three");
    fs::rename(folder / (name + ".tsv"), folder / "dev.tsv");
  }
  fs::remove(folder / "test.tsv");
  CHECK(has(error_of(settings), "has no test: a folder train/"));
  fs::remove(folder / "dev.tsv");
  write_bytes(folder / "test.jsonl", "{\"text\": \"one\", \"label\": \"x\"}\n");
  write_bytes(folder / "train.tsv", "x\tone\n");
  CHECK(has(error_of(settings), "train.tsv has 1 texts, and a tenth of them is for dev"));
}

TEST_CASE("texts of one's own: flags that their folder leaves nothing to do are refused, but not to a resumed run") {
  const TemporaryFolder folder;
  write_folders_of_texts(folder.path());
  const auto refused = [&](const auto& change, const std::string& message) {
    CAPTURE(message);
    Settings settings = settings_for("own-texts", folder.path());
    change(settings);
    CHECK_THROWS_WITH_AS(load_labelled_texts(settings), doctest::Contains(message.c_str()), UsageError);
    settings.resume = true;
    CHECK_NOTHROW(load_labelled_texts(settings));
  };
  const std::string where =
      " does not apply to " + folder.path().string() + ", whose texts are one file *.txt each; leave it out";
  refused([](Settings& s) { s.texts.format = "csv"; }, "--format" + where);
  refused([](Settings& s) { s.texts.text_field = "a"; }, "--text-field" + where);
  refused([](Settings& s) { s.texts.label_field = "b"; }, "--label-field" + where);
  refused([](Settings& s) { s.texts.strict = true; }, "--strict" + where);
  const auto reseed = [](Settings& s) { s.lra.data_seed = 2; };
  Settings settings = settings_for("own-texts", folder.path());
  reseed(settings);
  CHECK_NOTHROW(load_labelled_texts(settings));  // it divides train
  write_bytes(folder / "dev.tsv", "neg\ttext\n");
  refused(reseed, "--data-seed 2 does not apply to " + folder.path().string() +
                      ", which has the parts train, dev and test; leave it out");
  settings = settings_for("own-texts", folder.path());
  settings.texts.strict = true;  // of dev.tsv
  CHECK_NOTHROW(load_labelled_texts(settings));
}

TEST_CASE("classes are the labels of the training part, sorted, numbers by their value") {
  const TemporaryFolder folder;
  write_bytes(folder / "train.tsv", "10\ta\nb\ta\n9.5\ta\n-1\tb c\na\tb\n10\td\n");
  write_bytes(folder / "dev.tsv", "a\tb zz\n");
  write_bytes(folder / "test.tsv", "9.5\ta\nb\t\n");
  Settings settings = settings_for("own-texts", folder.path());
  const TextData texts = data_of(settings);
  CHECK(texts.classes == Words{"-1", "9.5", "10", "a", "b"});
  CHECK(texts.vocabulary.words() == Words{"<pad>", "<unk>", "a", "b", "c", "d"});
  const auto batch = [](const SequencePart& part) {
    std::vector<int64_t> all(part.lengths.size());
    std::iota(all.begin(), all.end(), 0);
    return part.data->collate(all, {});
  };
  const nn::Batch train = batch(texts.data.train);
  CHECK(train.targets.to_vector<int64_t>() == std::vector<int64_t>{2, 4, 1, 0, 3, 2});
  CHECK(train.inputs.shape() == Shape{6, 2});
  CHECK(train.inputs[3].to_vector<int64_t>() == std::vector<int64_t>{3, 4});
  CHECK(train.inputs[0].to_vector<int64_t>() == std::vector<int64_t>{2, 0});
  CHECK(train.others[0][0].to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(batch(texts.data.dev).inputs.to_vector<int64_t>() == std::vector<int64_t>{3, 1});
  CHECK(batch(texts.data.test).inputs.to_vector<int64_t>() ==
        std::vector<int64_t>{2, 1});  // an empty text is unknown
  CHECK(texts.data.test.lengths == std::vector<int64_t>{1, 1});

  settings.context = 1;  // cut at the end
  CHECK(batch(data_of(settings).data.train).inputs.to_vector<int64_t>() == std::vector<int64_t>{2, 2, 2, 3, 3, 5});
  settings.texts.vocabulary = 1;
  CHECK(data_of(settings).vocabulary.words() == Words{"<pad>", "<unk>", "a"});
  settings.texts.vocabulary = 100, settings.texts.min_count = 2;
  CHECK(data_of(settings).vocabulary.words() == Words{"<pad>", "<unk>", "a", "b"});

  write_bytes(folder / "test.tsv", "a\ta\n9\ta\n");
  CHECK(has(error_of(settings),
            "test.tsv, line 2: no text to train on has the label '9'; give that label more texts, or divide the "
            "texts by another "
            "--data-seed; the labels are -1, 9.5, 10"));
  write_bytes(folder / "train.tsv", "a\tb\na\tc\n");
  CHECK(has(error_of(settings), "the texts to train on all have the label 'a'; a classifier needs two or more"));
}

TEST_CASE("mind-topics: a rare class that falls to dev or test alone is an error, and one that these lack is none") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "mind/train");
  const auto write_news = [&](const std::string& last) {
    std::string news;
    for (int i = 0; i < 19; ++i)
      news += fmt::format("N{}\t{}\ts\tTitle {}\tText\tu\t[]\t[]\n", i, i % 2 ? "sports" : "news", i);
    write_bytes(folder / "mind/train/news.tsv", news + last);
  };
  write_news("N19\tnorthamerica\ts\tTitle\tText\tu\t[]\t[]\n");
  Settings settings = settings_for("mind-topics", folder.path());
  std::map<std::string, int> counts;
  for (settings.lra.data_seed = 0; settings.lra.data_seed < 30; ++settings.lra.data_seed) {
    const TextParts parts = load_labelled_texts(settings).parts;
    const bool learned = std::ranges::count(parts.train, "northamerica", &LabelledText::label) > 0;
    const bool tested = std::ranges::count(parts.test, "northamerica", &LabelledText::label) > 0;
    ++counts[learned ? "train" : tested ? "test" : "dev"];
    if (learned) {
      CHECK(data_of(settings).classes == Words{"news", "northamerica", "sports"});
    } else {
      CHECK(has(error_of(settings),
                "mind/train/news.tsv, line 20: no text to train on has the label 'northamerica'; give that label "
                "more texts, or divide the texts by another --data-seed; the labels are news, sports"));
    }
  }
  CHECK(counts["train"] > counts["dev"]);
  CHECK(counts["dev"] > 0);
  CHECK(counts["test"] > 0);

  write_news("N19\t\ts\tTitle\tText\tu\t[]\t[]\n");
  settings.lra.data_seed = 1;
  CHECK(data_of(settings).classes == Words{"news", "sports"});
  settings.texts.strict = true;
  CHECK(has(error_of(settings), "news.tsv, line 20: column 2 is empty, where a label is expected"));
}

TEST_CASE("a folder of texts refuses a class without texts, of whichever part") {
  const TemporaryFolder folder;
  write_folders_of_texts(folder.path());
  const Settings settings = settings_for("own-texts", folder.path());
  CHECK(data_of(settings).classes == Words{"neg", "pos"});
  fs::create_directories(folder / "test/neutral");
  CHECK(has(error_of(settings), "test/neutral has no text in *.txt; each label is a folder of them"));
  write_bytes(folder / "test/neutral/0.txt", "text");
  CHECK(has(error_of(settings), "test/neutral/0.txt: no text to train on has the label 'neutral'"));
  fs::remove_all(folder / "test/neutral");
  fs::create_directories(folder / "train/neutral");
  CHECK(has(error_of(settings), "train/neutral has no text in *.txt; each label is a folder of them"));
}

TEST_CASE("public sets are found by their names, and a stand-in is taken only if asked for") {
  const TemporaryFolder folder;
  CHECK(has(error_of(settings_for("amazon", folder.path())),
            "no Amazon reviews (reviews_Electronics_5.json.gz, or unpacked) in "));
  CHECK(has(error_of(settings_for("speakers", folder.path())),
            "it is fetched by examples/fetch_data.sh, and --stand-in"));
  CHECK(has(error_of(settings_for("imdb", folder.path())), "{train,test}/{neg,pos}/*.txt"));
  fs::create_directories(folder / "amazon");
  std::string reviews;
  for (int i = 0; i < 20; ++i)
    reviews += fmt::format("{{\"reviewText\": \"r {}\", \"overall\": {}.0}}\n", i, 1 + i % 2);
  write_bytes(folder / "amazon/reviews_Electronics_5.json", reviews);
  const TextData amazon = data_of(settings_for("amazon", folder.path()));
  CHECK(amazon.classes == Words{"1", "2"});
  CHECK(amazon.data.name.starts_with("amazon ("));
  CHECK(amazon.data.train.lengths.size() == 16);

  std::string news;
  for (int i = 0; i < 20; ++i)
    news += fmt::format("N{}\t{}\ts\tTitle {}\tText\tu\t[]\t[]\n", i, i % 2 ? "a" : "b", i);
  fs::create_directories(folder / "mind/train");
  write_bytes(folder / "mind/train/news.tsv", news);
  CHECK(data_of(settings_for("mind-topics", folder.path())).classes == Words{"a", "b"});
  CHECK(data_of(settings_for("mind-topics", folder / "mind/train/news.tsv")).data.name.starts_with("news.tsv ("));

  for (const std::string part : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      fs::create_directories(folder / "aclImdb" / part / label);
      for (int i = 0; i < 10; ++i) {
        write_bytes(folder / "aclImdb" / part / label / fmt::format("{}.txt", i), fmt::format("{} {}", part, i));
      }
    }
  }
  const TextData imdb = data_of(settings_for("imdb", folder.path()));
  CHECK(imdb.classes == Words{"neg", "pos"});
  CHECK(imdb.data.train.lengths.size() == 18);
  CHECK(imdb.data.dev.lengths.size() == 2);
  CHECK(imdb.data.test.lengths.size() == 20);
  CHECK(data_of(settings_for("imdb", folder / "aclImdb")).data.name == imdb.data.name);

  const TemporaryFolder empty;
  for (const auto& [task, classes] : std::map<std::string, size_t>{{"amazon", 5}, {"mind-topics", 18}, {"imdb", 2}}) {
    Settings settings = settings_for(task, empty.path());
    settings.lra.stand_in = true;
    const TextData data = data_of(settings);
    CHECK(data.classes.size() == classes);
    CHECK(data.data.name.starts_with("stand-in: generated texts "));
  }
}

TEST_CASE("stand-ins: topics, and the order of two words") {
  const TextParts topics = topic_texts(5, 1), ordered = ordered_texts(1);
  CHECK(topics.train.size() == 4000);
  CHECK(topics.dev.size() == 500);
  CHECK(topics.test.size() == 500);
  CHECK(joined(topic_texts(5, 1).dev) == joined(topics.dev));
  CHECK(joined(topic_texts(5, 2).dev) != joined(topics.dev));
  for (const TextParts* parts : {&topics, &ordered}) {
    size_t least = 1000, most = 0;
    for (const LabelledText& text : parts->train) {
      const size_t words = static_cast<size_t>(std::ranges::count(text.text, ' '));
      least = std::min(least, words), most = std::max(most, words);
    }
    CHECK(least == 20);
    CHECK(most == 200);
  }
  std::map<std::string, int> counts;
  for (const LabelledText& text : ordered.train) {
    const std::string cue = text.label.substr(0, text.label.find(' '));
    std::istringstream words(text.text);
    std::string first;
    for (std::string word; first.empty() && words >> word;) {
      if (word == made_up_word(200) || word == made_up_word(201)) first = word;
    }
    CHECK(first == cue);
    ++counts[text.label];
  }
  CHECK(counts.size() == 2);
  for (const auto& [label, count] : counts) CHECK(std::abs(count - 2000) < 150);
}
