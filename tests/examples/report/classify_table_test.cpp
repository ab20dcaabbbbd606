/// The output of `classify --table` for finished runs.

#include <regex>

#include <doctest/doctest.h>

#include "tests/examples/report/written_run.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using examples::Settings;
using linnet::test::Ended;
using linnet::test::TemporaryFolder;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The tables of the runs in a folder, with one space in place of several, and what stands on stderr.
Ended table_of(const std::filesystem::path& folder) {
  Ended ended = done("classify", {"--table", "--out", folder});
  ended.out = std::regex_replace(ended.out, std::regex(" +"), " ");
  return ended;
}

}  // namespace

TEST_CASE("classify --table: --strict divides no group, and hides no run from the published table") {
  const TemporaryFolder folder;
  Settings settings = settings_for("amazon", "classify-amazon", "linear");
  write_run(folder / "plain", {.settings = settings, .data = "amazon (9 bytes)", .accuracy = 0.3});
  settings.seed = 2;
  settings.texts.strict = true;
  write_run(folder / "strict", {.settings = settings, .data = "amazon (9 bytes)", .accuracy = 0.4});
  const Ended table = table_of(folder.path());
  CHECK(has(table.out, "\nlinear 1, 2 35.00 ± 7.07 (2 seeds) - "));
  CHECK(has(table.out, "\nlinear 35.00 ± 7.07 (2 seeds) "));
}

TEST_CASE("classify --table: two runs for one place beside published ones are both listed, or one is named") {
  const TemporaryFolder folder;
  const Settings settings = settings_for("imdb", "classify-imdb", "softmax");
  write_run(folder / "folders", {.settings = settings, .data = "aclImdb (8 bytes)", .accuracy = 0.3});
  write_run(folder / "file", {.settings = settings, .data = "my.jsonl (9 bytes)", .accuracy = 0.2});
  const std::string lineage = "linnet, presets classify-TASK";
  const Ended both = table_of(folder.path());
  CHECK(both.err.empty());
  CHECK(has(both.out, "\nsoftmax - - 30.00 nan - - " + lineage + "\n"));
  CHECK(has(both.out, "\nsoftmax - - 20.00 nan - - " + lineage + ", my.jsonl (9 bytes)\n"));

  Settings named = settings;
  named.texts.format = "jsonl";  // changes neither the source nor the data
  write_run(folder / "format", {.settings = named, .data = "my.jsonl (9 bytes)"});
  CHECK(table_of(folder.path()).err == "leaving out " + (folder / "format").string() + " beside published results: " +
                                           (folder / "file").string() + " has its place\n");
}

TEST_CASE(
    "classify --table: what table 9 changes stands in the source, so that unlike runs are in rows of their own") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& task, const std::string& attention, const auto& change, double accuracy) {
    Settings settings = settings_for(task, "classify-" + task, attention);
    change(settings);
    write_run(folder / (task + attention), {.settings = settings, .data = task, .accuracy = accuracy});
  };
  const auto nothing = [](Settings&) {};
  run("amazon", "fastformer", nothing, 0.31);
  run("imdb", "fastformer", [](Settings& s) { s.share = {"query-value", "layers"}; }, 0.32);
  run("amazon", "softmax", nothing, 0.33);
  run("imdb", "softmax", [](Settings& s) { s.context = 512; }, 0.34);
  run("mind-topics", "softmax", nothing, 0.35);
  const Ended table = table_of(folder.path());
  CHECK(table.err.empty());
  const std::string lineage = " linnet, presets classify-TASK";
  CHECK(has(table.out, "\nfastformer 31.00 nan - - - -" + lineage + "\n"));
  CHECK(has(table.out, "\nfastformer - - 32.00 nan - -" + lineage + ", shared layers\n"));
  CHECK(has(table.out, "\nsoftmax 33.00 nan - - 35.00 nan" + lineage + "\n"));
  CHECK(has(table.out, "\nsoftmax - - 34.00 nan - -" + lineage + ", 512 words\n"));
}
