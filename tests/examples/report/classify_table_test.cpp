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

  Settings cut = settings;  // as table 9 has it
  cut.context = 512;
  write_run(folder / "cut", {.settings = cut, .data = "my.jsonl (9 bytes)"});
  CHECK(table_of(folder.path()).err == "leaving out " + (folder / "cut").string() + " beside published results: " +
                                           (folder / "file").string() + " has its place\n");
}
