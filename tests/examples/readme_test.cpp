#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <utility>

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

/// Runs a program in a folder where it can write.
linnet::test::Ended run_in(const linnet::test::TemporaryFolder& folder, const std::string& program,
                           const std::string& arguments = "") {
  return linnet::test::run_program("/bin/sh", {"-c", "cd \"$1\" && exec \"$0\" " + arguments,
                                               std::filesystem::path(LINNET_BIN_DIR) / program, folder.path()});
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

TEST_CASE("mlp, lenet and vae: one figure for all test images, also for more than MNIST's") {
  const linnet::test::TemporaryFolder folder;
  for (const auto& [part, count] : {std::pair<std::string, uint32_t>{"train", 640}, {"t10k", 10'001}}) {
    linnet::test::write_bytes(folder / (part + "-images-idx3-ubyte"),
                              linnet::test::idx_bytes({count, 28, 28}, std::string(size_t{count} * 28 * 28, '\x40')));
    linnet::test::write_bytes(folder / (part + "-labels-idx1-ubyte"),
                              linnet::test::idx_bytes({count}, std::string(count - 1, '\0') + '\1'));
  }
  for (const std::string program : {"mlp", "lenet", "vae"}) {
    CAPTURE(program);
    const linnet::test::Ended ended = run_in(folder, program, ". 1");
    CHECK(ended.code == 0);
    CHECK(std::ranges::count(ended.out, '\n') == 1);
  }
}

TEST_CASE("vae: the bound of held-out digits rises, and a sheet of samples is drawn") {
  const linnet::test::TemporaryFolder folder;
  write_digits(folder.path());
  const linnet::test::Ended ended = run_in(folder, "vae", ". 4");
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
  write_digits(folder.path());
  const linnet::test::Ended ended = run_in(folder, "gan", ". 2");
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  const std::regex lines(R"(epoch 1: discriminator loss [\d.]+, generator loss [\d.]+\n)"
                         R"(epoch 2: discriminator loss ([\d.]+), generator loss ([\d.]+)\n)");
  REQUIRE(std::regex_match(ended.out, found, lines));
  // A discriminator that guesses has a loss of 2·log 2 = 1.39. One whose generator does not learn comes near 0.
  const double discriminator_loss = std::stod(found[1]), generator_loss = std::stod(found[2]);
  CHECK(discriminator_loss > 0.4);
  CHECK(discriminator_loss < 1);
  CHECK(generator_loss > 0.9);
  CHECK(generator_loss < 1.9);
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
  const linnet::test::Ended ended = run_in(folder, "regression");
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(run_in(folder, "regression", "regression.csv 1").code == 0);
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
  CHECK(ended.err.starts_with("regression: read_csv: cannot read '/nowhere.csv': No such file"));
}

TEST_CASE("factorization: vectors predict held-out ratings that biases alone cannot, and a picture is drawn") {
  const linnet::test::TemporaryFolder folder;
  const linnet::test::Ended ended = run_in(folder, "factorization");
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(held out: error ([\d.]+), of biases alone ([\d.]+)\n)")));
  CHECK(std::stod(found[1]) < 0.36);  // it is 0.354; the noise alone is 0.3
  CHECK(std::stod(found[2]) > 1);
  CHECK(linnet::test::read_bytes(folder / "factorization.png").starts_with("\x89PNG"));
}

TEST_CASE("factorization: a table of one's own, where a rating is missing") {
  const linnet::test::TemporaryFolder folder;
  std::string table = "rating,user,item\n,nobody,nothing\n";
  for (int user = 0; user < 10; ++user) {
    for (int item = 0; item < 10; ++item) {
      table += std::to_string(user < 5 ? 2 : 4) + ",u" + std::to_string(user) + ",i" + std::to_string(item) + "\n";
    }
  }
  linnet::test::write_bytes(folder / "my.csv", table);
  const linnet::test::Ended ended = run_in(folder, "factorization", "my.csv 40");
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(held out: error ([\d.]+), of biases alone ([\d.]+)\n)")));
  CHECK(std::stod(found[1]) < 0.5);
  CHECK(std::stod(found[2]) < 0.5);
}

TEST_CASE("regression and factorization leave a table alone that has the name of the generated one") {
  const linnet::test::TemporaryFolder folder;
  for (const auto& [program, name] : {std::pair{"regression", "regression.csv"}, {"factorization", "ratings.csv"}}) {
    CAPTURE(program);
    linnet::test::write_bytes(folder / name, "mine\n1\n");
    const linnet::test::Ended ended = run_in(folder, program);
    CHECK(ended.code == 1);
    CHECK(ended.err.find(name) != std::string::npos);
    CHECK(linnet::test::read_bytes(folder / name) == "mine\n1\n");
  }
}

TEST_CASE("factorization: a file that is not there, or lacks a column, ends with a message and status 1") {
  const linnet::test::Ended missing = linnet::test::run_program("factorization", {"/nowhere.csv"});
  CHECK(missing.code == 1);
  CHECK(missing.err.starts_with("factorization: read_csv: cannot read '/nowhere.csv': No such file"));

  const linnet::test::TemporaryFolder folder;
  linnet::test::write_bytes(folder / "my.csv", "user,item,stars\na,b,5\n");
  const linnet::test::Ended other = run_in(folder, "factorization", "my.csv");
  CHECK(other.code == 1);
  CHECK(other.err.starts_with("factorization: "));
  CHECK(other.err.find("rating") != std::string::npos);
}

TEST_CASE("cartpole: the policy balances the pole longer than chance, and a picture is drawn") {
  const linnet::test::TemporaryFolder folder;
  const linnet::test::Ended ended = run_in(folder, "cartpole", "12");
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(^episode 100: mean return ([\d.]+)\n)")));
  CHECK(std::stod(found[1]) == doctest::Approx(22).epsilon(0.02));  // random actions in Gym's CartPole-v1
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(\nepisode 1200: mean return ([\d.]+)\n)")));
  CHECK(std::stod(found[1]) > 50);  // 70 to 96, depending on the seed
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(each time: mean return ([\d.]+)\n$)")));
  CHECK(std::stod(found[1]) > 60);  // 81 to 386, depending on the seed
  CHECK(linnet::test::read_bytes(folder / "cartpole.png").starts_with("\x89PNG"));
}

TEST_CASE("gru: its losses fall, and it writes a sample") {
  const std::optional<std::filesystem::path> text = linnet::test::real_data("tinyshakespeare");
  if (!text) return;
  const linnet::test::Ended ended = linnet::test::run_program("gru", {text->string(), "60"});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  std::smatch found;
  REQUIRE(std::regex_search(ended.out, found, std::regex(R"(step 60: train loss ([\d.]+), val loss ([\d.]+)\n\n)")));
  CHECK(std::stod(found[2]) < 2.7);  // 4.17 for equal probabilities, 3.3 for the frequencies
  CHECK(ended.out.size() > static_cast<size_t>(found.position(0) + found.length(0)) + 500);
}

TEST_CASE("the program that README.md shows is examples/models/mlp.cpp, which the build compiles") {
  CHECK(read("README.md").find("```cpp\n" + read("examples/models/mlp.cpp") + "```") != std::string::npos);
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
