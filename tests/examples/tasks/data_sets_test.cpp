/// The programs' training data, and their names.

#include "support/tasks/data_sets.h"

#include <doctest/doctest.h>

#include "tests/examples/run/tiny_run.h"
#include "tests/nn/data/idx_file.h"
#include "tests/support/real_data.h"

using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::idx_bytes;
using linnet::test::read_bytes;
using linnet::test::real_data;
using linnet::test::write_bytes;

namespace {

Settings in(const std::filesystem::path& data) {
  Settings settings;
  settings.data = data;
  return settings;
}

/// Black images, all of the digit `label`.
std::string name_of_digits(const Workshop& shop, char label) {
  const std::string folder = "data/mnist/";
  std::filesystem::create_directories(shop / folder);
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(shop / (folder + part + "-images-idx3-ubyte"),
                idx_bytes({2, 28, 28}, std::string(2 * 28 * 28, '\0')));
    write_bytes(shop / (folder + part + "-labels-idx1-ubyte"), idx_bytes({2}, std::string(2, label)));
  }
  return load_images(in(shop / "data")).name;
}

}  // namespace

TEST_CASE("data that are not the published go by their place, their size and their checksum") {
  const Workshop shop;
  CHECK(load_text(in(shop / "data")).name == Workshop::kTextName);
  std::string text = read_bytes(shop / "data/tinyshakespeare/input.txt");
  std::swap(text[0], text[1]);
  shop.set_text(text);
  const std::string other = load_text(in(shop / "data")).name;
  CHECK(other.starts_with("tinyshakespeare/input.txt (6000 bytes, crc32 "));
  CHECK(other != Workshop::kTextName);

  const std::string digits = name_of_digits(shop, 0);
  CHECK(digits.starts_with("mnist (3140 bytes, crc32 "));
  CHECK(name_of_digits(shop, 0) == digits);
  CHECK(name_of_digits(shop, 1) != digits);
}

TEST_CASE("data of one's own go by the last name of --data") {
  const Workshop shop;
  write_bytes(shop / "my.txt", "to be, or not to be");
  std::filesystem::create_directories(shop / "texts");
  write_bytes(shop / "texts/part.txt", "to be, or not to be");
  const std::string sum = load_text(in(shop / "my.txt")).name.substr(6);
  CHECK(sum.starts_with(" (19 bytes, crc32 "));
  CHECK(load_text(in(shop / "texts")).name == "texts" + sum);
  CHECK(load_text(in(shop / "texts/")).name == "texts" + sum);
  CHECK(load_text(in(shop / "texts/.")).name == "texts" + sum);
  CHECK(load_text(in(shop / "data")).name == Workshop::kTextName);  // a set in the folder, found by its name

  const std::string by_name = name_of_digits(shop, 1);
  CHECK(load_images(in(shop / "data/mnist")).name == by_name);
}

TEST_CASE("the same data by another name are the same") {
  CHECK(same_data("my.txt (19 bytes, crc32 5bd9502e)", "other (1).txt (19 bytes, crc32 5bd9502e)"));
  CHECK_FALSE(same_data("my.txt (19 bytes, crc32 5bd9502e)", "my.txt (20 bytes, crc32 5bd9502e)"));
  CHECK(same_data("MNIST", "MNIST"));
  CHECK_FALSE(same_data("MNIST", "Fashion-MNIST"));
  CHECK_FALSE(same_data("drawn digits (stand-in)", "linnet's own sources (stand-in) (9 bytes, crc32 5bd9502e)"));
}

TEST_CASE("the published data have their names") {
  const auto text = real_data("tinyshakespeare/input.txt");
  if (text) CHECK(load_text(in(text->parent_path().parent_path())).name == "Tiny Shakespeare");
  const auto digits = real_data("mnist");
  if (digits) CHECK(load_images(in(digits->parent_path())).name == "MNIST");
}
