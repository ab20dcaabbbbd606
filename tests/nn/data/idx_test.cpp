#include <linnet/nn/data/idx.h>

#include <doctest/doctest.h>

#include <linnet/core/error.h>

#include "tests/nn/data/idx_file.h"
#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// 3 × 4 × 5 elements that do not compress well.
std::string some_elements() {
  std::string elements;
  for (int i = 0; i < 60; ++i) elements += static_cast<char>(i * i * 7 % 251);
  return elements;
}

/// The error of read_idx for a file with these bytes, which it must refuse.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = folder / "file.idx";
  write_bytes(path, bytes);
  try {
    nn::read_idx(path);
  } catch (const IoError& error) {
    CHECK_MESSAGE(std::string(error.what()).starts_with(path.string()), error.what());
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("read_idx: plain and gzip files give the same array") {
  const TemporaryFolder folder;
  const std::string plain = idx_bytes({3, 4, 5}, some_elements());
  write_bytes(folder / "plain", plain);
  write_bytes(folder / "packed.gz", gzipped(plain));
  for (const char* name : {"plain", "packed.gz"}) {
    const nn::IdxArray array = nn::read_idx(folder / name);
    CHECK(array.shape == Shape{3, 4, 5});
    CHECK(std::string(array.bytes.begin(), array.bytes.end()) == some_elements());
  }
}

TEST_CASE("read_idx: an array may be empty, and longer than one piece of reading") {
  const TemporaryFolder folder;
  write_bytes(folder / "empty", idx_bytes({0, 28, 28}, ""));
  CHECK(nn::read_idx(folder / "empty").shape == Shape{0, 28, 28});
  CHECK(nn::read_idx(folder / "empty").bytes.empty());

  std::string elements(2'500'000, '\0');
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<char>(i % 253);
  write_bytes(folder / "long", idx_bytes({2'500'000}, elements));
  const nn::IdxArray array = nn::read_idx(folder / "long");
  CHECK(std::equal(array.bytes.begin(), array.bytes.end(), elements.begin(), elements.end(),
                   [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }));
}

TEST_CASE("read_idx: a file that ends early is refused at every byte") {
  const std::string plain = idx_bytes({3, 4, 5}, some_elements());
  for (size_t length = 0; length < plain.size(); ++length) {
    CAPTURE(length);
    CHECK(contains(refusal(plain.substr(0, length)), "is truncated"));
  }
  CHECK(contains(refusal(plain.substr(0, 2)), "2 of 4 bytes of its magic number"));
  CHECK(contains(refusal(plain.substr(0, 9)), "1 of 4 bytes of its header"));
  CHECK(contains(refusal(plain.substr(0, 20)), "4 of 60 bytes of its elements are there; fetch it again"));
}

TEST_CASE("read_idx: a gzip stream that ends early is refused at every byte, its checksum included") {
  const std::string packed = gzipped(idx_bytes({3, 4, 5}, some_elements()));
  for (size_t length = 0; length < packed.size(); ++length) {
    CAPTURE(length);
    CHECK(refusal(packed.substr(0, length)) != "accepted");
  }
}

TEST_CASE("read_idx: a gzip stream with a wrong byte is refused, wherever it is") {
  constexpr size_t kGzipHeader = 10;  // it has fields such as a time stamp, which read_idx ignores
  const std::string packed = gzipped(idx_bytes({3, 4, 5}, some_elements()));
  for (size_t at = kGzipHeader; at < packed.size(); ++at) {
    CAPTURE(at);
    std::string damaged = packed;
    damaged[at] = static_cast<char>(~damaged[at]);
    CHECK(refusal(damaged) != "accepted");
  }
  std::string wrong_sum = packed;
  wrong_sum[packed.size() - 8] ^= 1;
  CHECK(contains(refusal(wrong_sum), "incorrect data check; fetch it again"));
}

TEST_CASE("read_idx: what is no IDX file of bytes is refused by name") {
  CHECK(contains(refusal("First Citizen:\n"), "is not an IDX file: it starts with 46 69 72 73"));
  CHECK(contains(refusal(std::string("\0\0\x08\0", 4)), "is not an IDX file"));
  CHECK(contains(refusal(idx_bytes({2}, "12345678", 0x0D)), "IDX element type 0x0d; only unsigned bytes"));
  CHECK(contains(refusal(idx_bytes({2}, "12", 0x09)), "0x09"));
}

TEST_CASE("read_idx: a header that claims too much is refused before any memory is taken") {
  CHECK(contains(refusal(idx_bytes({0xFFFFFFFF, 28, 28}, "")), "more than 2 GiB"));
  CHECK(contains(refusal(idx_bytes({65536, 65536, 65536, 65536}, "")), "more than 2 GiB"));
  CHECK(contains(refusal(idx_bytes(std::vector<uint32_t>(64, 0xFFFFFFFF), "")), "more than 2 GiB"));
  CHECK(contains(refusal(idx_bytes({0x7FFFFFFF}, "x")), "1 of 2147483647 bytes"));
}

TEST_CASE("read_idx: bytes behind the last element are refused") {
  const std::string longer = idx_bytes({3, 4, 5}, some_elements() + "x");
  CHECK(contains(refusal(longer), "is longer than its header says"));
  CHECK(contains(refusal(gzipped(longer)), "is longer than its header says"));
}

TEST_CASE("read_idx: a file that is missing, or a folder, is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(nn::read_idx(folder / "none"),
                       doctest::Contains("none': No such file or directory; check that the file exists"), IoError);
  CHECK_THROWS_AS(nn::read_idx(folder.path()), IoError);
}

TEST_CASE("write_idx: the format's bytes, which read_idx reads, in place of an older file") {
  const TemporaryFolder folder;
  const std::string elements = some_elements();
  write_bytes(folder / "file", "an older file");
  nn::write_idx(folder / "file", {{3, 4, 5}, {elements.begin(), elements.end()}});
  CHECK(read_bytes(folder / "file") == idx_bytes({3, 4, 5}, elements));
  nn::write_idx(folder / "empty", {{0, 300}, {}});
  CHECK(read_bytes(folder / "empty") == idx_bytes({0, 300}, ""));
  CHECK(nn::read_idx(folder / "file").shape == Shape{3, 4, 5});
  CHECK(folder.file_count() == 2);  // no temporary file is left
}

TEST_CASE("write_idx: arrays that no IDX file holds are refused, and no file is made") {
  const TemporaryFolder folder;
  const auto write = [&](const Shape& shape, size_t bytes) {
    nn::write_idx(folder / "file", {shape, std::vector<uint8_t>(bytes)});
  };
  CHECK_THROWS_WITH_AS(write({1 << 16, 1 << 16}, 0), doctest::Contains("which read_idx refuses"), ValueError);
  CHECK_THROWS_WITH_AS(write({2, 3}, 5), "write_idx: 5 bytes do not fill the shape [2, 3]", ShapeError);
  CHECK_THROWS_WITH_AS(write({}, 1), doctest::Contains("give it the shape [1]"), ValueError);
  CHECK_THROWS_WITH_AS(write({int64_t{1} << 32, 0}, 0), doctest::Contains("a size that 32 bits do not hold"),
                       ValueError);
  CHECK_THROWS_AS(write({65536, 65536, 65536, 65536}, 0), Error);
  CHECK(folder.file_count() == 0);
  CHECK_THROWS_WITH_AS(nn::write_idx(folder / "none/file", {{1}, {0}}), doctest::Contains("none/file"), IoError);
}

TEST_CASE("read_idx: a header of more dims than a tensor has") {
  const TemporaryFolder folder;
  write_bytes(folder / "file", idx_bytes(std::vector<uint32_t>(65, 1), "x"));
  CHECK_THROWS_WITH_AS(nn::read_idx(folder / "file"), doctest::Contains("claims 65 dims, more than 64"), IoError);
}
