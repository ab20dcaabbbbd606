/// Generated sets are made once, and are stored completely or not at all.

#include "support/lra/cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/settings/program.h"
#include "tests/examples/lra/surroundings.h"
#include "tests/examples/run/full_disk.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"
#include "tests/support/threads.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::examples::test::FullDisk;
using linnet::examples::test::names_in;
using linnet::examples::test::Surroundings;
using linnet::test::Quiet;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::WithThreads;
using linnet::test::write_bytes;

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

const GeneratedSet kSet{
    .generator = "counting", .version = 3, .seed = 7, .options = {{"first", 20}, {"step", 2}}, .counts = {4, 2, 1}};
const std::string kFolder = "lra/counting-20-2-seed-7";

/// Seven rows of three: [1, 0, 0], [2, 2, 0], [3, 3, 3], [4, 0, 0], …
Examples count_up(const ReportMade& report) {
  return make_each(
      7, 3,
      [](int64_t i, std::span<uint8_t> bytes) {
        for (int64_t j = 0; j <= i % 3; ++j) bytes[static_cast<size_t>(j)] = static_cast<uint8_t>(i + 1);
        return static_cast<uint8_t>(10 * i);
      },
      report);
}

/// The parts of the set in `data`. If the cache has them, nothing may be generated.
std::array<Examples, 3> counted(const fs::path& data, const MakeExamples& make = count_up,
                                const GeneratedSet& set = kSet) {
  const Quiet quiet(STDERR_FILENO);
  Settings settings;
  settings.data = data;
  return cached(settings, set, make);
}

Examples never(const ReportMade&) {
  FAIL("the set was made again");
  return {};
}

void check_parts(const std::array<Examples, 3>& parts) {
  CHECK(parts[0].sequences.shape == Shape{4, 3});
  CHECK(parts[0].sequences.bytes == Bytes{1, 0, 0, 2, 2, 0, 3, 3, 3, 4, 0, 0});
  CHECK(parts[0].labels == Bytes{0, 10, 20, 30});
  CHECK(parts[1].sequences.bytes == Bytes{5, 5, 0, 6, 6, 6});
  CHECK(parts[1].labels == Bytes{40, 50});
  CHECK(parts[2].sequences.bytes == Bytes{7, 0, 0});
  CHECK(parts[2].labels == Bytes{60});
}

/// The error for a cache that must be refused.
std::string cache_refusal(const fs::path& data, const GeneratedSet& set = kSet) {
  try {
    counted(data, never, set);
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

void check_part(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("cache: a set is made once, and read afterwards") {
  const TemporaryFolder folder;
  check_parts(counted(folder.path()));
  check_parts(counted(folder.path(), never));
  CHECK(names_in(folder / "lra") == std::vector<std::string>{"counting-20-2-seed-7"});
  CHECK(names_in(folder / kFolder) == std::vector<std::string>{"dev-labels-idx1-ubyte", "dev-sequences-idx2-ubyte",
                                                               "manifest.json", "test-labels-idx1-ubyte",
                                                               "test-sequences-idx2-ubyte", "train-labels-idx1-ubyte",
                                                               "train-sequences-idx2-ubyte"});
  CHECK(name_of(kSet) == "generated counting (first 20, step 2, seed 7, version 3)");
  GeneratedSet other = kSet;
  other.seed = 8;
  counted(folder.path(), count_up, other);
  other.options[0].second = 21;
  counted(folder.path(), count_up, other);
  CHECK(names_in(folder / "lra") ==
        std::vector<std::string>{"counting-20-2-seed-7", "counting-20-2-seed-8", "counting-21-2-seed-8"});
}

TEST_CASE("cache: examples that do not depend on each other are the same at any number of threads") {
  const auto make = [](int threads) {
    const WithThreads with(threads);
    int64_t reported = 0;
    const Examples made = make_each(
        600, 2,
        [](int64_t i, std::span<uint8_t> bytes) {
          bytes[0] = static_cast<uint8_t>(i);
          bytes[1] = static_cast<uint8_t>(i / 256);
          return static_cast<uint8_t>(i % 10);
        },
        [&](int64_t done) {
          CHECK(done >= reported);
          reported = done;
        });
    CHECK(reported == 600);
    return made;
  };
  const Examples one = make(1), four = make(4);
  CHECK(one.sequences.bytes == four.sequences.bytes);
  CHECK(one.labels == four.labels);
  CHECK(one.sequences.bytes[2 * 599] == 599 % 256);
  CHECK(one.sequences.bytes[2 * 599 + 1] == 2);
  CHECK(one.labels[599] == 9);
}

TEST_CASE("cache: rows without and with padding at their ends") {
  const Examples rows{{{2, 3}, {1, 0, 0, 0, 2, 0}}, {1, 2}};
  const auto lengths = [&](Ends ends) { return to_sequences(rows, ends, Ids::byte_plus_one).lengths(); };
  CHECK(lengths(Ends::same_length) == std::vector<int64_t>{3, 3});
  CHECK(lengths(Ends::zeros) == std::vector<int64_t>{1, 2});
}

TEST_CASE("cache: a set of another version, seed, options or counts is refused, with what to do") {
  const TemporaryFolder folder;
  counted(folder.path());
  const fs::path path = folder / (kFolder + "/manifest.json");
  const std::string sound = read_bytes(path);
  const auto with = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json manifest = nlohmann::json::parse(sound);
    manifest[key] = value;
    write_bytes(path, manifest.dump());
    return cache_refusal(folder.path());
  };
  const std::string remedy = "; delete its folder, which is then made again";
  CHECK(with("version", 2) == path.string() + ": its version is 2, where 3 is needed" + remedy);
  check_part(with("seed", 8), ": its seed is 8, where 7 is needed" + remedy);
  check_part(with("generator", "other"), ": its generator is \"other\", where \"counting\" is needed" + remedy);
  check_part(with("options", {{"first", 20}}), ": its options is {\"first\":20}, where {\"first\":20,\"step\":2} is");
  check_part(with("counts", nullptr), ": its counts is null, where {");
  check_part(with("crc32", nlohmann::json::object()), "its bytes are not those that were written" + remedy);
  check_part(with("crc32", 5), "its bytes are not those that were written" + remedy);
  for (const char* damaged : {"", "{", "[1]", "{\"version\": 3}", "7"}) {
    CAPTURE(damaged);
    write_bytes(path, damaged);
    check_part(cache_refusal(folder.path()), path.string() + ": it is damaged: ");
    check_part(cache_refusal(folder.path()), remedy);
  }
  fs::remove(path);
  check_part(cache_refusal(folder.path()), "manifest.json': No such file or directory" + remedy);
  write_bytes(path, sound);
  CHECK(cache_refusal(folder.path()) == "accepted");
}

TEST_CASE("cache: a damaged array is refused by name, whatever is wrong with it") {
  const TemporaryFolder folder;
  counted(folder.path());
  for (const char* name : {"train-sequences-idx2-ubyte", "dev-labels-idx1-ubyte"}) {
    const fs::path path = folder / (kFolder + "/" + name);
    const std::string sound = read_bytes(path);
    std::string other = sound;
    other.back() = static_cast<char>(other.back() ^ 1);
    std::string reshaped = sound;  // the same elements, another first size
    reshaped[7] = static_cast<char>(reshaped[7] - 1);
    for (const std::string& damaged :
         {sound.substr(0, sound.size() - 1), sound + "x", other, reshaped, std::string(), std::string("text")}) {
      write_bytes(path, damaged);
      const std::string said = cache_refusal(folder.path());
      check_part(said, path.string() + ": ");
      check_part(said, "; delete its folder, which is then made again");
    }
    fs::remove(path);
    check_part(cache_refusal(folder.path()), path.string() + ": it is missing");
    write_bytes(path, sound);
  }
  CHECK(cache_refusal(folder.path()) == "accepted");
  // The same elements in another shape.
  const fs::path path = folder / (kFolder + "/train-sequences-idx2-ubyte");
  for (const Shape& shape : {Shape{2, 6}, Shape{12}}) {
    nn::write_idx(path, {shape, nn::read_idx(path).bytes});
    check_part(cache_refusal(folder.path()), path.string() + ": its bytes are not those that were written");
  }
}

TEST_CASE("cache: after an error nothing is left, and the next call makes the set") {
  const TemporaryFolder folder;
  {
    const FullDisk full(200);
    CHECK_THROWS_WITH_AS(counted(folder.path()), doctest::Contains("manifest.json': File too large; free some space"),
                         IoError);
  }
  CHECK(names_in(folder / "lra").empty());
  CHECK_THROWS_WITH_AS(counted(folder.path(), [](const ReportMade&) -> Examples { throw ValueError("a fault"); }),
                       "a fault", ValueError);
  CHECK(names_in(folder / "lra").empty());
  check_parts(counted(folder.path()));
}

TEST_CASE("cache: what a killed process left is not used") {
  const TemporaryFolder folder;
  const std::string left = "lra/.counting-20-2-seed-7.tmp";
  fs::create_directories(folder / (left + "/within"));
  write_bytes(folder / (left + "/train-sequences-idx2-ubyte"), "half of i");
  write_bytes(folder / (left + "/within/other"), "other");
  check_parts(counted(folder.path()));
  CHECK(names_in(folder / "lra") == std::vector<std::string>{"counting-20-2-seed-7"});
  CHECK(names_in(folder / kFolder).size() == 7);
}

TEST_CASE("cache: a process that is killed while it makes a set harms no later one") {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    Settings settings;
    settings.data = folder.path();
    const Quiet quiet(STDERR_FILENO);
    cached(settings, kSet, [](const ReportMade&) -> Examples {
      std::raise(SIGKILL);
      return {};
    });
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(names_in(folder / "lra") == std::vector<std::string>{".counting-20-2-seed-7.tmp"});
  check_parts(counted(folder.path()));
  CHECK(names_in(folder / "lra") == std::vector<std::string>{"counting-20-2-seed-7"});
}

TEST_CASE("cache: Ctrl-C ends the making, and nothing is left") {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const Quiet quiet(STDERR_FILENO);
    catch_interrupts();
    Settings settings;
    settings.data = folder.path();
    try {
      cached(settings, kSet, [](const ReportMade& report) -> Examples {
        std::raise(SIGINT);
        report(1);
        return {};
      });
    } catch (const Interrupted&) {
      _exit(42);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
  CHECK(names_in(folder / "lra").empty());
}

TEST_CASE("cache: of two that make a set at once, the second waits for the first and reads") {
  const TemporaryFolder folder;
  std::atomic<int> made = 0;
  const auto slow = [&](const ReportMade& report) {
    ++made;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return count_up(report);
  };
  const Quiet quiet(STDERR_FILENO);
  Settings settings;
  settings.data = folder.path();
  std::array<std::array<Examples, 3>, 3> got;
  std::vector<std::thread> threads;
  for (auto& parts : got) threads.emplace_back([&] { parts = cached(settings, kSet, slow); });
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 1);
  for (const auto& parts : got) check_parts(parts);
  CHECK(names_in(folder / "lra") == std::vector<std::string>{"counting-20-2-seed-7"});
}

TEST_CASE("cache: where a set is kept") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(counted(folder / "none"), doctest::Contains("none: there is no such folder; counting is made"),
                       IoError);
  write_bytes(folder / "file", "");
  CHECK_THROWS_AS(counted(folder / "file"), IoError);

  fs::create_directories(folder / "variable");
  fs::create_directories(folder / "here");
  {
    const Surroundings surroundings(folder / "variable", folder / "here");
    counted({});
    CHECK(fs::exists(folder / ("variable/" + kFolder)));
  }
  {
    const Surroundings surroundings(folder / "no such folder", folder / "here");
    counted({});
    const bool is_beside_sources = fs::exists(fs::path(LINNET_SOURCE_DIR) / "data");
    if (!is_beside_sources) CHECK(fs::exists(folder / ("here/data/" + kFolder)));
    fs::remove_all(fs::path(LINNET_SOURCE_DIR) / "data" / kFolder);
  }
  // Root could write to a folder without write permission, but does not.
  fs::remove_all(folder / "variable/lra");
  fs::remove_all(folder / "here/data");
  fs::permissions(folder / "variable", fs::perms::owner_read | fs::perms::owner_exec);
  {
    const Surroundings surroundings(folder / "variable", folder / "here");
    counted({});
    CHECK_FALSE(fs::exists(folder / "variable/lra"));
    fs::remove_all(fs::path(LINNET_SOURCE_DIR) / "data" / kFolder);
  }
  fs::permissions(folder / "variable", fs::perms::owner_all);
  // A set that already exists in a later folder is read from there.
  fs::create_directories(folder / "here/data");
  counted(folder / "here/data");
  const Surroundings surroundings(folder / "variable", folder / "here");
  counted({}, never);
  CHECK_FALSE(fs::exists(folder / "variable/lra"));
}

TEST_CASE("cache: a place that cannot be written to is named") {
  const TemporaryFolder folder;
  write_bytes(folder / "lra", "a file where the folder belongs");
  CHECK_THROWS_WITH_AS(counted(folder.path()), doctest::Contains("cannot make the folder "), IoError);
  CHECK_THROWS_WITH_AS(counted(folder.path()), doctest::Contains("; name another place with --data"), IoError);
}
