/// The output of `lra --table` for finished runs.

#include <regex>

#include <doctest/doctest.h>

#include "tests/examples/report/written_run.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using examples::preset;
using examples::Settings;
using linnet::test::Ended;
using linnet::test::run_program;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

/// The text with one space in place of several.
std::string squeezed(const std::string& text) { return std::regex_replace(text, std::regex(" +"), " "); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct TableText {
  std::string own, published, speeds, err;
};

/// The tables of the runs in a folder.
TableText table_of(const fs::path& folder) {
  const Ended ended = done("lra", {"--table", "--out", folder});
  const std::string text = squeezed(ended.out);
  const size_t published = text.find("Test accuracy in %"), speeds = text.find("Training steps a second");
  REQUIRE(speeds != std::string::npos);
  return {text.substr(0, published), text.substr(published, speeds - published), text.substr(speeds), ended.err};
}

}  // namespace

TEST_CASE("lra --table: seeds, the difference to softmax at the same seeds, and a constant answer") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& attention, uint64_t seed, double accuracy) {
    write_run(folder / (attention + std::to_string(seed)),
              {.settings = settings_for("listops", "lra-listops-small", attention, seed), .accuracy = accuracy});
  };
  run("softmax", 1, 0.40);
  run("softmax", 2, 0.36);
  run("performer", 1, 0.35);
  run("performer", 2, 0.34);
  run("fastmax2", 2, 0.355);
  run("fastmax2", 3, 0.50);
  run("linear", 9, 0.30);
  run("reformer", 1, 0.37);
  const TableText table = table_of(folder.path());
  CHECK(contains(table.own, "attention seeds test accuracy, % to softmax ms/step"));
  CHECK(contains(table.own, "\nsoftmax 1, 2 38.00 ± 2.83 (2 seeds) - 10.0"));
  CHECK(contains(table.own, "\nperformer 1, 2 34.50 ± 0.71 (2 seeds) -3.50, over 3 below 10.0"));
  CHECK(contains(table.own, "\nfastmax2 2, 3 42.75 ± 10.25 (2 seeds) -0.50 (1 seed) 10.0"));
  CHECK(contains(table.own, "\nlinear 9 30.00 - 10.0"));
  CHECK(contains(table.own, "\nreformer 1 37.00 -3.00 10.0"));
  CHECK(contains(table.own, "\ncommonest answer - 17.00 - - - - -\n"));
  CHECK(contains(table.own, "\nperformer: 35.00 (seed 1), 34.00 (seed 2)\n"));
  CHECK(!contains(table.own, "\nreformer: "));
  CHECK(contains(table.own, "\nmachine: linnet 0.2.0; CPU with v4 kernels, 2 threads, OpenBLAS\n"));
  CHECK(table.err.empty());
}

TEST_CASE("lra --table: says where machines, threads or processes differ, but not who chose the number of threads") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& attention, const std::string& build) {
    write_run(folder / attention,
              {.settings = settings_for("listops", "lra-listops-small", attention), .build = build});
  };
  const std::string cpu = "linnet 0.2.0; CPU with v4 kernels, ";
  run("softmax", cpu + "2 threads (quota), OpenBLAS");
  run("performer", cpu + "2 threads (set by the program), OpenBLAS");
  CHECK(contains(table_of(folder.path()).own, "machine: " + cpu + "2 threads, OpenBLAS\n"));
  run("linear", cpu + "1 threads (set by the program), OpenBLAS");
  const TableText table = table_of(folder.path());
  CHECK(contains(table.own, "machines, threads or processes differ, so that ms/step cannot be compared:\n linear: " +
                                cpu + "1 threads, OpenBLAS\n softmax; performer: " + cpu + "2 threads, OpenBLAS\n"));
  CHECK(contains(table.err, "listops, preset lra-listops-small, 2000 steps: machines, threads or processes differ"));
}

TEST_CASE("lra --table: says where runs were computed by different numbers of processes") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, uint64_t seed, int64_t processes) {
    const Settings settings = settings_for("listops", "lra-listops-small", "linear", seed);
    write_run(folder / name, {.settings = settings, .processes = processes});
  };
  run("one", 1, 1);
  run("two", 2, 2);
  const std::string machine = " linear: linnet 0.2.0; CPU with v4 kernels, 2 threads, OpenBLAS";
  CHECK(contains(table_of(folder.path()).own, machine + "\n" + machine + ", 2 processes\n"));
}

TEST_CASE("lra --table: says where one run was computed with several machines or numbers of threads") {
  const TemporaryFolder folder;
  write_run(folder / "run", {.settings = settings_for("listops", "lra-listops-small", "softmax")});
  nlohmann::json config = config_of(folder / "run");
  config["build"] = {"linnet 0.2.0; CPU, 1 threads (quota)", "linnet 0.2.0; CPU, 2 threads (quota)"};
  write_bytes(folder / "run/config.json", config.dump());
  const TableText table = table_of(folder.path());
  CHECK(contains(table.own,
                 "machines, threads or processes differ, so that ms/step cannot be compared:\n softmax: linnet "
                 "0.2.0; CPU, 1 threads\n softmax: linnet 0.2.0; CPU, 2 threads\n"));
  CHECK(contains(table.err, "machines, threads or processes differ"));
}

TEST_CASE("lra --table: which runs stand beside published ones") {
  const TemporaryFolder folder;
  const Settings whole = settings_for("listops", "lra-listops-nystrom", "fastmax2");
  const std::string name = "\nfastmax2 ", lineage = " linnet, presets lra-TASK-nystrom";
  const auto published = [&](const std::string& line) { return contains(table_of(folder.path()).published, line); };
  write_run(folder / "a", {.settings = whole, .accuracy = 0.3711});
  CHECK(published(name + "37.11 - - - - -" + lineage + "\n"));
  CHECK(contains(table_of(folder.path()).speeds, name + "100.00 - - - - -" + lineage + "\n"));

  const auto is_out = [&](const std::string& task, const examples::test::WrittenRun& run) {
    CAPTURE(task);
    write_run(folder / "a", run);
    CHECK(!published("linnet, presets"));
  };
  is_out("of stand-ins", {.settings = whole, .data = "stand-in: words"});
  is_out("small", {.settings = settings_for("listops", "lra-listops-small", "fastmax2")});
  is_out("digits", {.settings = settings_for("digits", "lra-digits", "fastmax2")});
  Settings changed = whole;
  changed.lra.data_seed = 2;
  is_out("other expressions", {.settings = changed});
  changed = whole;
  changed.steps = 4999;
  is_out("shorter", {.settings = changed});
  changed = whole;
  changed.width = 32;
  is_out("narrower", {.settings = changed});

  changed = whole;
  changed.lra.stand_in = true;  // a flag that this run did not need
  write_run(folder / "a", {.settings = changed});
  CHECK(published(name + "40.00 - - - - -" + lineage + "\n"));
  changed.device = "cuda";
  write_run(folder / "a", {.settings = changed});
  CHECK(published(name + "40.00 - - - - -" + lineage + ", device cuda\n"));
}

TEST_CASE("lra --table: each sharing of parameters has a row, and only the preset's stands beside published ones") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, const std::vector<std::string>& share, double accuracy) {
    Settings settings = settings_for("listops", "lra-listops", "fastformer");
    if (!share.empty()) settings.share = share;
    write_run(folder / name, {.settings = settings, .accuracy = accuracy});
  };
  run("default", {}, 0.32);
  run("both", {"heads", "query-value"}, 0.33);  // --share may name them in any order
  run("heads", {"heads"}, 0.34);
  run("none", {"none"}, 0.35);
  const TableText table = table_of(folder.path());
  CHECK(table.err.empty());
  CHECK(contains(table.own, "\nfastformer 1 32.00 - "));
  CHECK(contains(table.own, "\nfastformer, share query-value,heads 1 33.00 - "));
  CHECK(contains(table.own, "\nfastformer, share heads 1 34.00 - "));
  CHECK(contains(table.own, "\nfastformer, share none 1 35.00 - "));
  const std::string header = "attention seeds test accuracy";  // one table, in which they stand side by side
  CHECK(table.own.find(header) == table.own.rfind(header));
  CHECK(contains(table.published, "\nfastformer 32.00 - - - - - linnet, presets lra-TASK\n"));
  CHECK(!contains(table.published, "share"));
}

TEST_CASE("lra --table: flags that change no result divide no group, and hide no run from the published tables") {
  const TemporaryFolder folder;
  const Settings plain = settings_for("listops", "lra-listops", "linear");
  Settings flagged = settings_for("listops", "lra-listops", "linear", 2);
  flagged.lra.stand_in = true;
  write_run(folder / "plain", {.settings = plain, .accuracy = 0.3});
  write_run(folder / "flagged", {.settings = flagged, .accuracy = 0.4});
  const TableText table = table_of(folder.path());
  CHECK(contains(table.own, "\nlinear 1, 2 35.00 ± 7.07 (2 seeds) - "));
  CHECK(contains(table.published, "\nlinear 35.00 ± 7.07 (2 seeds) - - - - - linnet, presets lra-TASK\n"));
}

TEST_CASE("lra --table: whether black is padding stands in the source, and other tasks beside both") {
  const TemporaryFolder folder;
  const std::string lineage = " linnet, presets lra-TASK";
  write_run(folder / "listops", {.settings = settings_for("listops", "lra-listops", "linear"), .accuracy = 0.3});
  Settings seen = settings_for("image", "lra-image", "linear"), padding = seen;
  padding.lra.black_is_padding = true;
  write_run(folder / "seen", {.settings = seen, .data = "CIFAR-10", .accuracy = 0.41});
  write_run(folder / "padding", {.settings = padding, .data = "CIFAR-10", .accuracy = 0.42});
  const TableText table = table_of(folder.path());
  CHECK(contains(table.published, "\nlinear 30.00 - - 41.00 - -" + lineage + ", black is seen\n"));
  CHECK(contains(table.published, "\nlinear 30.00 - - 42.00 - -" + lineage + ", black is padding\n"));
  CHECK(!contains(table.published, lineage + "\n"));
  CHECK(contains(table.speeds, "softmax 6.4 1.8 1.7 3.0 6.1 3.8 Gerami et al. 2024, table 2, A5000\n"));
  CHECK(contains(table.speeds, "These pad every batch to the full length"));
}

TEST_CASE("lra --table: two runs for one place beside published ones are both listed, or one is named") {
  const TemporaryFolder folder;
  Settings twin = settings_for("listops", "lra-listops", "linear");
  write_run(folder / "files", {.settings = twin, .data = "listops (9 bytes)", .accuracy = 0.3});
  write_run(folder / "generated", {.settings = twin, .data = "generated listops", .accuracy = 0.2});
  const TableText both = table_of(folder.path());
  CHECK(contains(both.published, "\nlinear 20.00 - - - - - linnet, presets lra-TASK\n"));
  CHECK(contains(both.published, "\nlinear 30.00 - - - - - linnet, presets lra-TASK, listops (9 bytes)\n"));
  CHECK(both.err.empty());
  twin.lra.black_is_padding = true;  // changes neither the source nor the data
  write_run(folder / "flag", {.settings = twin, .data = "listops (9 bytes)"});
  const std::string err = table_of(folder.path()).err;
  CHECK(err == "leaving out " + (folder / "flag").string() +
                   " beside published results: " + (folder / "files").string() + " has its place\n");
}

TEST_CASE("lra --table and --figures leave bad runs out, and go on") {
  const TemporaryFolder folder;
  const Settings settings = settings_for("listops", "lra-listops-small", "softmax");
  write_run(folder / "good", {.settings = settings});
  Settings unknown = settings;
  unknown.seed = 2;
  write_run(folder / "unknown", {.settings = unknown});
  nlohmann::json config = config_of(folder / "unknown");
  config["settings"]["preset"] = "lra-listops-huge";
  write_bytes(folder / "unknown/config.json", config.dump());
  unknown.seed = 3;
  write_run(folder / "none", {.settings = unknown});
  fs::remove(folder / "none/metrics.jsonl");
  unknown.seed = 4;
  write_run(folder / "damaged", {.settings = unknown});
  write_bytes(folder / "damaged/results.json", "{");
  for (const std::string flag : {"--table", "--figures"}) {
    const Ended ended = done("lra", {flag, "--out", folder.path()});
    CAPTURE(ended.err);
    CHECK(std::ranges::count(ended.err, '\n') == 3);
    for (const std::string run : {"unknown", "none", "damaged"}) {
      CHECK(contains(ended.err, "leaving out " + (folder / run).string() + ": "));
    }
    CHECK(contains(ended.err, "--preset lra-listops-huge: the presets for listops are"));
    CHECK(contains(ended.err, "metrics.jsonl"));
  }
}

TEST_CASE("lra --table: a closed folder is passed over, and of equal runs the first by its name counts") {
  const TemporaryFolder folder;
  for (const std::string name : {"f", "e", "d", "c", "b", "a"}) {
    write_run(folder / name, {.settings = settings_for("listops", "lra-listops-small", "softmax"),
                              .accuracy = name == "a" ? 0.4 : 0.1});
  }
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::none);  // root reads it nevertheless
  const TableText table = table_of(folder.path());
  fs::permissions(folder / "closed", fs::perms::owner_all);
  CHECK(contains(table.own, "\nsoftmax 1 40.00 "));
}
