/// Users who clicked ads, read from lines of JSON or generated.

#include "support/users/conversions.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/linnet.h>

#include "support/users/conversion_task.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::Quiet;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

const std::string kGood = R"({"behaviours": ["red shoes", "shoes"], "ad": "red", "label": 1})";

Settings conversions_in(const fs::path& data) {
  Settings settings;
  settings.data = data;
  return settings;
}

/// A folder whose train.jsonl has these lines.
class Ads {
 public:
  explicit Ads(const std::string& train = kGood + "\n") {
    for (const std::string part : {"train", "dev", "test"}) write_bytes(folder_ / (part + ".jsonl"), kGood + "\n");
    write_bytes(folder_ / "train.jsonl", train);
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  ConversionSet load() const { return load_conversions(conversions_in(folder_.path())); }
  std::string refusal(bool strict = true) const {
    Settings settings = conversions_in(folder_.path());
    settings.of_users.strict = strict;
    try {
      load_conversions(settings);
    } catch (const IoError& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  TemporaryFolder folder_;
};

std::vector<int32_t> list(std::span<const int32_t> span) { return {span.begin(), span.end()}; }

}  // namespace

TEST_CASE("conversions: texts and labels, each text once, with the words of the part to learn from") {
  const Ads ads(kGood + "\r\n" + R"({"ad": [7, 7], "label": 0, "behaviours": [], "more": [1]})" + "\n");
  write_bytes(ads / "dev.jsonl", R"({"behaviours": ["new red"], "ad": "shoes", "label": 0})" + std::string("\n"));
  const ConversionSet data = ads.load();
  CHECK(data.name.find("crc32") != std::string::npos);
  CHECK_FALSE(data.is_generated);
  CHECK(data.vocabulary == 5);  // padding, unknown, 7, red, shoes
  REQUIRE(data.train.size() == 2);
  CHECK(data.train[0].behaviours == std::vector<int32_t>{0, 1});
  CHECK(data.train[0].ad == 2);
  CHECK(data.train[0].label);
  CHECK(data.train[1].behaviours.empty());
  CHECK_FALSE(data.train[1].label);
  CHECK(list(data.items[0]) == std::vector<int32_t>{3, 4});
  CHECK(list(data.items[3]) == std::vector<int32_t>{2, 2});
  CHECK(data.dev[0].ad == 1);
  CHECK(list(data.items[data.dev[0].behaviours[0]]) == std::vector<int32_t>{1, 3});
}

TEST_CASE("conversions: the last behaviours, and one file that is divided") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{{\"behaviours\": [\"a\", \"b\", \"x{}\"], \"ad\": \"y\", \"label\": {}}}\n", i, i % 2);
  }
  write_bytes(folder / "ads.jsonl", lines);
  Settings settings = conversions_in(folder / "ads.jsonl");
  settings.of_users.history = 1;
  const ConversionSet data = load_conversions(settings), again = load_conversions(settings);
  CHECK(data.train.size() == 32);
  CHECK(data.dev.size() == 4);
  CHECK(data.test.size() == 4);
  std::vector<int32_t> texts;
  for (const auto* part : {&data.train, &data.dev, &data.test}) {
    for (const Conversion& user : *part) {
      REQUIRE(user.behaviours.size() == 1);
      texts.push_back(user.behaviours[0]);
    }
  }
  CHECK_FALSE(std::ranges::is_sorted(texts));
  std::ranges::sort(texts);
  CHECK(std::ranges::adjacent_find(texts) == texts.end());
  CHECK(data.name == again.name);
  settings.lra.data_seed = 2;
  CHECK(load_conversions(settings).name != data.name);
  write_bytes(folder / "ads.jsonl", kGood + "\n");
  CHECK_THROWS_WITH_AS(load_conversions(settings), doctest::Contains("has 1 users; at least 10 are needed"), IoError);
}

TEST_CASE("conversions: a malformed line is named with --strict, and else left out") {
  const auto check = [](const std::string& line, const std::string& what) {
    CAPTURE(line);
    const Ads ads(kGood + "\n" + line + "\n");
    const std::string said = ads.refusal();
    CAPTURE(said);
    CHECK(said.starts_with((ads / "train.jsonl").string() + ", line 2: "));
    CHECK(said.find(what) != std::string::npos);
    const Quiet quiet(STDERR_FILENO);
    CHECK(ads.load().train.size() == 1);
  };
  check(std::string(70'000, ' '), "70000 bytes; at most 65536 are read, leave out older behaviours");
  check(kGood.substr(0, 30), "no object of JSON");
  check("[1]", "\"behaviours\" is missing; {\"behaviours\"");
  check(R"({"behaviours": [], "ad": "x"})", "\"label\" is missing");
  check(R"({"behaviours": [], "label": 1})", "\"ad\" is missing");
  check(R"({"behaviours": "x", "ad": "x", "label": 1})", "\"behaviours\" is no list");
  check(R"({"behaviours": [], "ad": "x", "label": 2})", "\"label\" is 2; 0 or 1 is expected");
  check(R"({"behaviours": [], "ad": "x", "label": "1"})", "\"label\" is \"1\"; 0 or 1 is expected");
  check(R"({"behaviours": [], "ad": "x", "label": true})", "\"label\" is true; 0 or 1 is expected");
  check(R"({"behaviours": ["x", 3], "ad": "x", "label": 1})", "\"behaviours\" holds 3; a text, or a list of whole");
  check(R"({"behaviours": [], "ad": [1, -2], "label": 1})", "\"ad\" holds [1,-2]; a text");
  check(R"({"behaviours": [], "ad": [1, "x"], "label": 1})", "\"ad\" holds [1,\"x\"]; a text");
  check(R"({"behaviours": [], "ad": null, "label": 1})", "\"ad\" holds null; a text");
  check(std::string(100, '[') + std::string(100, ']'), "no object of JSON");
  check("{\"behaviours\": [], \"ad\": \"\xFF\", \"label\": 1}", "no object of JSON");
}

TEST_CASE("conversions: absent and empty files") {
  const Ads ads;
  write_bytes(ads / "test.jsonl", "");
  CHECK(ads.refusal() == (ads / "test.jsonl").string() + " has no lines; copy it again");
  fs::remove(ads / "test.jsonl");
  CHECK(ads.refusal().starts_with("no test.jsonl in --data "));
  CHECK_THROWS_WITH_AS(load_conversions(conversions_in(ads / "none")),
                       doctest::Contains("there is no such file or folder"), IoError);
}

TEST_CASE("generated conversions: the labels are as likely as their probabilities, and the same from the same seed") {
  Settings settings;
  settings.of_users.users = 4000;
  settings.of_users.test_users = 50;
  const ConversionSet data = generated_conversions(settings), again = generated_conversions(settings);
  CHECK(data.is_generated);
  CHECK(data.train.size() == 4000);
  CHECK(data.dev.size() == 50);
  CHECK(data.test.size() == 50);
  CHECK(std::ranges::max(data.items.numbers()) < data.vocabulary);
  double expected = 0, found = 0, variance = 0;
  for (size_t i = 0; i < data.train.size(); ++i) {
    const Conversion& user = data.train[i];
    expected += user.probability;
    variance += user.probability * (1 - user.probability);
    found += user.label ? 1 : 0;
    CHECK(user.behaviours.size() >= 5);
    CHECK(user.behaviours.size() <= 20);
    CHECK(again.train[i].behaviours == user.behaviours);
    CHECK(again.train[i].label == user.label);
  }
  CHECK(std::abs(found - expected) < 4 * std::sqrt(variance));
  settings.lra.data_seed = 2;
  CHECK(generated_conversions(settings).train[0].behaviours != data.train[0].behaviours);
}

TEST_CASE("generated conversions: the probability is that of the rule, and sharper rules can be told better") {
  Settings settings = settings_of(Settings{}.attention, preset("conversion", "conversion-small"));
  settings.of_users.users = 100;
  settings.of_users.test_users = 2000;
  const auto best = [&](double sharpness) {
    settings.of_users.sharpness = sharpness;
    return ConversionTask(settings).best_auc().value();
  };
  const double one = best(1), ten = best(10);
  CAPTURE(one);
  CAPTURE(ten);
  CHECK(one > 0.7);
  CHECK(one < 0.95);
  CHECK(ten > 0.98);
  settings.of_users.sharpness = 1;
  // The texts of a topic are 30 searches, 30 pages and 30 ads.
  for (const Conversion& user : generated_conversions(settings).test) {
    const int32_t topic = user.ad / 90;
    const auto size = std::ssize(user.behaviours);
    double share = 0, recent = 0;
    for (auto i = std::max<ptrdiff_t>(0, size - 10); i < size; ++i) {
      const int32_t text = user.behaviours[static_cast<size_t>(i)];
      if (text / 90 != topic) continue;
      share += 1.0 / static_cast<double>(std::min<ptrdiff_t>(10, size));
      if (i >= size - 3 && text % 90 < 30) recent = 1;
    }
    CHECK(user.probability == doctest::Approx(1 / (1 + std::exp(3 - 6 * share - recent))));
  }
}
