/// The tasks of the Long Range Arena, as programs load them.

#include "support/lra/load.h"

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include "support/lra/cache.h"
#include "support/settings/program.h"
#include "tests/nn/data/idx_file.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::idx_bytes;
using linnet::test::Quiet;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

namespace {

Settings small_settings(const std::string& task, const std::filesystem::path& data) {
  Settings settings;
  settings.task = task;
  settings.preset = "lra-" + task + "-small";
  settings.data = data;
  settings.context = 64;
  settings.lra.stand_in = true;
  settings.lra.min_tokens = 20;
  return settings;
}

}  // namespace

TEST_CASE("lra tasks: ids, labels and lengths are within what the list says") {
  const Quiet quiet(STDERR_FILENO);
  const TemporaryFolder folder;
  for (const std::string name : {"listops", "text", "retrieval"}) {
    CAPTURE(name);
    const SequenceTask& task = sequence_task(name);
    const SequenceData data = load_sequences(small_settings(name, folder.path()));
    std::vector<int64_t> all(static_cast<size_t>(data.test.size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const nn::Batch batch = data.test.collate(all, {});
    const std::vector<int64_t> ids = batch.inputs.to_vector<int64_t>(), labels = batch.targets.to_vector<int64_t>();
    CHECK(*std::ranges::max_element(ids) < task.ids);
    CHECK(*std::ranges::max_element(labels) == task.classes - 1);
    CHECK(batch.others.size() == (task.pairs ? 3 : 1));
    CHECK(batch.inputs.size(1) == 64);
    CHECK(data.test.size() == 2000);
    CHECK(data.train.size() == (name == "listops" ? 96000 : 10000));
  }
  // Generated listops are kept in the data folder, by their lengths and seed.
  CHECK(std::filesystem::exists(folder / "lra/listops-20-64-seed-1/manifest.json"));
  const SequenceData again = load_sequences(small_settings("listops", folder.path()));
  CHECK(again.name == "generated listops (min_tokens 20, max_tokens 64, seed 1, version 1)");
}

TEST_CASE("lra tasks: their order and sizes") {
  std::vector<std::string> names;
  for (const SequenceTask& task : sequence_tasks()) {
    names.push_back(task.name);
    CHECK(&sequence_task(task.name) == &task);
  }
  CHECK(names == std::vector<std::string>{"listops", "text", "retrieval", "image", "pathfinder", "digits"});
}

TEST_CASE("lra tasks: unknown ones, and sequences that are longer than the context") {
  CHECK_THROWS_WITH_AS(sequence_task("shakespeare"), "--task shakespeare: no task of sequences", UsageError);
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "mnist");
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(folder / ("mnist/" + part + "-images-idx3-ubyte"), idx_bytes({2, 9, 9}, std::string(162, 'x')));
    write_bytes(folder / ("mnist/" + part + "-labels-idx1-ubyte"), idx_bytes({2}, std::string(2, '\3')));
  }
  Settings settings = small_settings("digits", folder.path());
  CHECK_THROWS_WITH_AS(
      load_sequences(settings),
      doctest::Contains("have up to 81 tokens, more than the 64 of the preset lra-digits-small; choose "
                        "another preset, or a larger --downsample"),
      UsageError);
  settings.context = 81;
  CHECK(load_sequences(settings).test.lengths() == std::vector<int64_t>{81, 81});
}

TEST_CASE("lra tasks: a part without examples is refused by name") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "mnist");
  const auto write = [&](const std::string& part, uint32_t count) {
    write_bytes(folder / ("mnist/" + part + "-images-idx3-ubyte"),
                idx_bytes({count, 2, 2}, std::string(4 * count, 'x')));
    write_bytes(folder / ("mnist/" + part + "-labels-idx1-ubyte"), idx_bytes({count}, std::string(count, '\3')));
  };
  const auto refusal = [&](uint32_t train, uint32_t test) -> std::string {
    write("train", train);
    write("t10k", test);
    try {
      load_sequences(small_settings("digits", folder.path()));
    } catch (const IoError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refusal(2, 1) == "accepted");
  CHECK(refusal(1, 1).starts_with("mnist ("));  // the one image is for dev
  CHECK(refusal(1, 1).find("): the part train has no examples; get or make the data again") != std::string::npos);
  CHECK(refusal(2, 0).find("): the part test has no examples") != std::string::npos);
}

TEST_CASE("lra tasks: labels and ids that a forged cache has beyond those of the task") {
  const Quiet quiet(STDERR_FILENO);
  const auto refusal = [](uint8_t id, uint8_t label) -> std::string {
    const TemporaryFolder folder;
    Settings settings = small_settings("listops", folder.path());
    const GeneratedSet set{.generator = "listops",
                           .version = 1,
                           .seed = 1,
                           .options = {{"min_tokens", 20}, {"max_tokens", 64}},
                           .counts = {96000, 2000, 2000}};
    cached(settings, set, [&](const ReportMade& report) {
      return make_each(
          100000, 64,
          [&](int64_t i, std::span<uint8_t> bytes) {
            const bool is_last = i == 99999;
            std::ranges::fill(bytes, is_last ? id : uint8_t{3});
            return is_last ? label : uint8_t{1};
          },
          report);
    });
    try {
      load_sequences(settings);
    } catch (const IoError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string where = "generated listops (min_tokens 20, max_tokens 64, seed 1, version 1): the part test has ";
  CHECK(refusal(15, 9) == "accepted");
  CHECK(refusal(16, 9) == where + "the id 16, and those of listops are 0 to 15; get or make the data again");
  CHECK(refusal(15, 10) == where + "the label 10, and those of listops are 0 to 9; get or make the data again");
}

TEST_CASE("lra tasks: --data-seed beside published data, which nothing generates") {
  const TemporaryFolder folder;
  for (const std::string file :
       {"aclImdb/train/neg/1.txt", "aclImdb/train/pos/1.txt", "aclImdb/test/neg/1.txt", "aclImdb/test/pos/1.txt",
        "tsv_data/new_aan_pairs.train.tsv", "tsv_data/new_aan_pairs.eval.tsv", "tsv_data/new_aan_pairs.test.tsv",
        "listops/basic_train.tsv", "listops/basic_val.tsv", "listops/basic_test.tsv"}) {
    std::filesystem::create_directories((folder / file).parent_path());
    write_bytes(folder / file,
                file.starts_with("tsv") ? "1.0\t1\t2\ta\tb\n" : "Source\tTarget\n( ( ( [MAX 2 ) 3 ) ] )\t3\n");
  }
  for (const std::string task : {"text", "retrieval", "listops"}) {
    CAPTURE(task);
    Settings settings = small_settings(task, folder.path());
    settings.context = task == "listops" ? 1999 : 64;
    settings.lra.min_tokens = 501;
    CHECK(load_sequences(settings).train.size() > 0);
    settings.lra.data_seed = 2;
    const std::string message = "--data-seed 2 does not apply to the published data in " + folder.path().string();
    CHECK_THROWS_WITH_AS(load_sequences(settings), doctest::Contains(message.c_str()), UsageError);
  }
}
