/// examples/models/gpt.cpp: what it prints, writes and refuses.

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <linnet/core/files/safetensors.h>

#include "tests/examples/run/tiny_run.h"

using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

/// The number after `name` in a program's output.
double number_after(const std::string& text, const std::string& name) {
  const size_t found = text.find(name);
  REQUIRE(found != std::string::npos);
  return std::stod(text.substr(found + name.size()));
}

}  // namespace

TEST_CASE("gpt: its losses fall, it writes a sample of the text's characters, and its weights") {
  const Workshop shop;
  const std::filesystem::path text = shop / "data/tinyshakespeare";
  // The weights are written to the current folder, so this is the shop.
  const Ended ended = run_program("/bin/sh", {"-c", "cd \"$1\" && \"$0\" \"$2\" 10",
                                              std::filesystem::path(LINNET_BIN_DIR) / "gpt", shop / ".", text});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(ended.err == "");

  const size_t last = ended.out.find("step 10: ");
  REQUIRE(last != std::string::npos);
  for (const char* name : {"train loss ", "val loss "}) {
    const double before = number_after(ended.out, name);
    CHECK(before == doctest::Approx(std::log(19)).epsilon(0.05));  // 19 characters, equally probable at first
    CHECK(number_after(ended.out.substr(last), name) < before - 0.3);
  }
  const std::string sample = ended.out.substr(ended.out.find("\n\n") + 2);
  CHECK(sample.size() == 1 + 500 + 1);  // the first character of the text, 500 others, a new line
  CHECK(sample.starts_with("t"));
  CHECK(sample.find_first_not_of("to be,rnhaisquW'\n.:") == std::string::npos);

  const linnet::TensorMap weights = linnet::read_safetensors(shop / "gpt.safetensors").tensors;
  CHECK(weights.at("pos.weight").shape() == linnet::Shape{64, 128});
}

TEST_CASE("gpt: what it cannot train on ends with a message and status 1") {
  const Workshop shop;
  const auto text = shop / "data/tinyshakespeare/input.txt";
  check_refused(run_program("gpt", {"/nowhere.txt"}), 1,
                "gpt: cannot read '/nowhere.txt': No such file or directory");
  check_refused(run_program("gpt", {text, "many"}), 1, "gpt: schedule: 0 steps with 0 of warm-up");
  shop.set_text(std::string(640, 'a'));
  check_refused(run_program("gpt", {text}), 1,
                "gpt: the text is too short: its last tenth, which is held out, must have more than 64 characters");
}
