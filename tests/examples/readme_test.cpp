#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <linnet/core/build_info.h>
#include <linnet/nn/data/mnist.h>

#include "tests/nn/data/idx_file.h"
#include "tests/support/child_program.h"
#include "tests/support/files.h"
#include "tests/support/real_data.h"

namespace {

std::string read(const std::string& name) {
  std::ifstream file(std::string(LINNET_SOURCE_DIR) + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE(file);
  return text.str();
}

/// Writes drawn digits in MNIST's format: 640 to train with, and 100 to test.
void write_digits(const std::filesystem::path& folder) {
  using linnet::test::idx_bytes;
  const auto write = [&](const std::string& part, uint32_t count, uint64_t seed) {
    const linnet::nn::LabelledImages images = linnet::nn::drawn_digits(count, seed);
    const auto bytes = [](std::span<const uint8_t> values) { return std::string(values.begin(), values.end()); };
    linnet::test::write_bytes(folder / (part + "-images-idx3-ubyte"),
                              idx_bytes({count, 28, 28}, bytes(images.pixels())));
    linnet::test::write_bytes(folder / (part + "-labels-idx1-ubyte"), idx_bytes({count}, bytes(images.labels())));
  };
  write("train", 640, 1);
  write("t10k", 100, 2);
}

/// Runs a program that writes a picture, in `folder`, on the digits there.
linnet::test::Ended run_on_digits(const std::string& program, const std::string& epochs,
                                  const std::filesystem::path& folder) {
  write_digits(folder);
  return linnet::test::run_program("/bin/sh", {"-c", "cd \"$1\" && \"$0\" . \"$2\"",
                                               std::filesystem::path(LINNET_BIN_DIR) / program, folder, epochs});
}

}  // namespace

TEST_CASE("mlp: a folder without data ends with a message and status 1") {
  const linnet::test::Ended ended = linnet::test::run_program("mlp", {"/nowhere"});
  CHECK(ended.code == 1);
  CHECK(ended.err.starts_with("mlp: "));
  CHECK(ended.err.find("cannot read the folder /nowhere") != std::string::npos);
}

TEST_CASE("lenet: a folder without data ends with a message and status 1") {
  const linnet::test::Ended ended = linnet::test::run_program("lenet", {"/nowhere"});
  CHECK(ended.code == 1);
  CHECK(ended.err.starts_with("lenet: "));
  CHECK(ended.err.find("cannot read the folder /nowhere") != std::string::npos);
}

TEST_CASE("lenet learns MNIST's digits in one epoch") {
  const std::optional<std::filesystem::path> mnist = linnet::test::real_data("mnist");
  if (!mnist) return;
  const linnet::test::Ended ended = linnet::test::run_program("lenet", {mnist->string(), "1"});
  CHECK(ended.code == 0);
  std::smatch accuracy;
  REQUIRE(std::regex_match(ended.out, accuracy, std::regex(R"(epoch 1: ([\d.]+) % of the test digits are right\n)")));
  CHECK(std::stod(accuracy[1]) > 97.5);
}

TEST_CASE("vae: the bound of held-out digits rises, and a sheet of samples is drawn") {
  const linnet::test::TemporaryFolder folder;
  const linnet::test::Ended ended = run_on_digits("vae", "4", folder.path());
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  const std::regex lines(R"(epoch 1: test ELBO (-[\d.]+) nats\n[\s\S]*epoch 4: test ELBO (-[\d.]+) nats\n)");
  REQUIRE(std::regex_match(ended.out, found, lines));
  CHECK(std::stod(found[1]) < -300);  // untrained: -784 · log 2 = -543
  CHECK(std::stod(found[2]) > -190);
  CHECK(std::stod(found[2]) < -150);
  CHECK(linnet::test::read_bytes(folder / "vae.png").starts_with("\x89PNG"));
}

TEST_CASE("vae: a folder without data ends with a message and status 1") {
  const linnet::test::Ended ended = linnet::test::run_program("vae", {"/nowhere"});
  CHECK(ended.code == 1);
  CHECK(ended.err.starts_with("vae: "));
  CHECK(ended.err.find("cannot read the folder /nowhere") != std::string::npos);
}

TEST_CASE("gan: generator and discriminator learn from each other, and a sheet of samples is drawn") {
  const linnet::test::TemporaryFolder folder;
  const linnet::test::Ended ended = run_on_digits("gan", "2", folder.path());
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  const std::regex lines(R"(epoch 1: discriminator loss [\d.]+, generator loss [\d.]+\n)"
                         R"(epoch 2: discriminator loss ([\d.]+), generator loss ([\d.]+)\n)");
  REQUIRE(std::regex_match(ended.out, found, lines));
  // A discriminator that guesses has a loss of 2·log 2 = 1.39. One whose generator does not learn comes near 0.
  const double discriminator_loss = std::stod(found[1]), generator_loss = std::stod(found[2]);
  CHECK((discriminator_loss > 0.4 && discriminator_loss < 1));
  CHECK((generator_loss > 0.9 && generator_loss < 1.9));
  CHECK(linnet::test::read_bytes(folder / "gan.png").starts_with("\x89PNG"));
}

TEST_CASE("gan: a folder without data ends with a message and status 1") {
  const linnet::test::Ended ended = linnet::test::run_program("gan", {"/nowhere"});
  CHECK(ended.code == 1);
  CHECK(ended.err.starts_with("gan: "));
  CHECK(ended.err.find("cannot read the folder /nowhere") != std::string::npos);
}

TEST_CASE("regression: the made table, held out, is as certain as the model says, and a picture is drawn") {
  const linnet::test::TemporaryFolder folder;
  const linnet::test::Ended ended =
      linnet::test::run_program("/bin/sh", {"-c", "cd \"$1\" && \"$0\" && \"$0\" regression.csv 1",
                                            std::filesystem::path(LINNET_BIN_DIR) / "regression", folder.path()});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  const std::regex line(R"(held out: loss (-?[\d.]+), error ([\d.]+), ([\d.]+) % within two standard deviations\n)");
  REQUIRE(std::regex_search(ended.out, found, line));
  CHECK(std::stod(found[1]) < -0.6);
  CHECK(std::stod(found[3]) > 91);
  CHECK(linnet::test::read_bytes(folder / "regression.png").starts_with("\x89PNG"));
}

TEST_CASE("regression: a file that is not there ends with a message and status 1") {
  const linnet::test::Ended ended = linnet::test::run_program("regression", {"/nowhere.csv"});
  CHECK(ended.code == 1);
  CHECK(ended.err.starts_with("regression: read_csv: cannot read /nowhere.csv: No such file"));
}

TEST_CASE("gru: its losses fall, and it writes a sample") {
  const std::optional<std::filesystem::path> text = linnet::test::real_data("tinyshakespeare");
  if (!text) return;
  const linnet::test::Ended ended = linnet::test::run_program("gru", {text->string(), "60"});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(step 60: train loss ([\d.]+), val loss ([\d.]+)\n\n)")));
  CHECK(std::stod(found[2]) < 2.7);  // 4.17 for all characters alike, 3.3 for their frequencies
  CHECK(ended.out.size() > static_cast<size_t>(found.position(0) + found.length(0)) + 500);
}

TEST_CASE("the program that README.md shows is examples/mlp.cpp, which the build compiles") {
  CHECK(read("README.md").find("```cpp\n" + read("examples/mlp.cpp") + "```") != std::string::npos);
}

TEST_CASE("the files that CONTRIBUTING.md and SECURITY.md name are there") {
  const std::regex path(R"(\b(core|ops|nn|cuda|examples|tests)/[\w./]*\w|\.ci/\w+)");
  for (const char* name : {".github/CONTRIBUTING.md", ".github/SECURITY.md"}) {
    const std::string text = read(name);
    const std::sregex_iterator first(text.begin(), text.end(), path), end;
    CHECK(std::distance(first, end) > 5);
    for (auto named = first; named != end; ++named) {
      CAPTURE(named->str());
      CHECK(std::filesystem::exists(std::string(LINNET_SOURCE_DIR) + "/" + named->str()));
    }
  }
}

TEST_CASE("CHANGELOG.md begins with the version that is built") {
  const std::string text = read("CHANGELOG.md");
  const size_t begin = text.find("\n## ") + 4;
  const std::string version = text.substr(begin, text.find('\n', begin) - begin);
  CHECK(linnet::build_info().starts_with("linnet " + version + ";"));
}
