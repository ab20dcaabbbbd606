#include <string>

#include <doctest/doctest.h>

#include <linnet/core/files/npy.h>
#include <linnet/nn/data/csv.h>
#include <linnet/nn/data/idx.h>
#include <linnet/nn/data/text.h>
#include <linnet/nn/text/words.h>

#include <linnet/ops/array/creation.h>

#include "tests/nn/data/idx_file.h"
#include "tests/support/file_memory.h"
#include "tests/support/files.h"

/// Reading texts, words, tables, IDX files and those of NumPy takes no more memory than the limit of
/// tests/support/file_memory.h.

namespace linnet::test {
namespace {

constexpr int64_t kSize = 6 * kMiB;

std::string repeated(int64_t bytes, const std::string& text) {
  std::string all;
  while (std::ssize(all) < bytes) all += text;
  return all;
}

}  // namespace

TEST_CASE("CharText: the memory that reading takes") {
  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "texts");
  for (const auto kind : {nn::Characters::bytes, nn::Characters::code_points}) {
    for (const bool normalise : {false, true}) {
      CAPTURE(normalise);
      const nn::TextOptions options{.characters = kind, .normalise_newlines = normalise};
      for (const std::string& text :
           {repeated(kSize, "To be\r\n"), repeated(kSize, "\r"), repeated(kSize, "\xF4\x8F\xBF\xBF")}) {
        write_bytes(folder / "a", text);
        write_bytes(folder / "texts/a.txt", text.substr(0, kSize / 2));
        write_bytes(folder / "texts/b.txt", text.substr(0, kSize / 2));
        for (const char* name : {"a", "texts"}) {
          int64_t characters = 0;
          const FileMemory memory = check_memory(folder / "a", [&] {
            nn::CharText read = nn::CharText::read(folder / name, options);
            characters = std::ssize(read.train()) + std::ssize(read.validation());
            return read;
          });
          CHECK(memory.is_read);
          CHECK(memory.kept <= 8 * characters + kMiB);
        }
      }
      write_bytes(folder / "a", repeated(kSize, "To be\r\n") + "\xFF");
      CHECK(check_memory(folder / "a", [&] { return nn::CharText::read(folder / "a", options); }).is_read ==
            (kind == nn::Characters::bytes));
    }
  }
}

TEST_CASE("read_idx: the memory that reading takes, also for a small gzip file") {
  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  const auto reads = [&](const std::string& bytes) {
    write_bytes(folder / "a", bytes);
    return check_memory(folder / "a", [&] { return nn::read_idx(folder / "a"); }).is_read;
  };
  const auto n = static_cast<uint32_t>(5 * kSize + 1);
  const std::string whole = idx_bytes({n}, std::string(n, '\0'));
  CHECK(reads(whole));
  CHECK(reads(gzipped(whole)));
  // Files that decompress to fewer or more bytes than the header says, or that are truncated.
  CHECK_FALSE(reads(gzipped(idx_bytes({2 * n}, std::string(n, '\0')))));
  CHECK_FALSE(reads(gzipped(idx_bytes({n - 1}, std::string(n, '\0')))));
  CHECK_FALSE(reads(gzipped(idx_bytes({4}, std::string(n, '\0')))));
  CHECK_FALSE(reads(gzipped(whole).substr(0, gzipped(whole).size() - 4)));
  CHECK_FALSE(reads(idx_bytes({n}, std::string(n - 1, '\0'))));
}

TEST_CASE("read_csv: the memory that reading takes") {
  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  const auto reads = [&](const std::string& bytes, const MoreMemory& more = {}) {
    write_bytes(folder / "a", bytes);
    return check_memory(folder / "a", [&] { return nn::read_csv(folder / "a"); }, more).is_read;
  };
  for (const char* row : {"1\n", "1,2\n", "\"a\"\"\"\r\n", ",,,,,,,\n", "\n"}) {
    CAPTURE(row);
    const bool has_rows = std::string(row) != "\n";
    CHECK(reads(repeated(5 * kSize, row)) == has_rows);
    CHECK(reads(repeated(5 * kSize, row) + "\"") == false);
  }
  CHECK(reads(repeated(kSize, "a,")));  // all of it is the header
  const int64_t names = kSize / 2 * static_cast<int64_t>(sizeof(std::string));
  CHECK_FALSE(reads(repeated(kSize, "a,") + "\n1", {.before_fault = names}));
}

TEST_CASE("WordVocabulary::load: the memory that reading takes") {
  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  std::string words = "<pad>\n<unk>\n";
  for (int i = 0; i < 500'000; ++i) {  // as many short words as possible
    for (int number = i, digit = 0; digit < 3; ++digit, number /= 80) words += static_cast<char>('0' + number % 80);
    words += '\n';
  }
  const auto memory = [&](const std::string& bytes) {
    write_bytes(folder / "a", bytes);
    const MoreMemory before_fault{.before_fault = 32 * std::ssize(bytes)};
    return check_memory(folder / "a", [&] { return nn::WordVocabulary::load(folder / "a"); }, before_fault);
  };
  const FileMemory whole = memory(words);
  CHECK(whole.is_read);
  CHECK(whole.peak <= 64 * std::ssize(words));
  CHECK_FALSE(memory(words + "a").is_read);
}

TEST_CASE("read_npy, read_npz: the memory that reading takes") {
  if (!allocations_are_counted("the memory that files take")) return;
  const TemporaryFolder folder;
  const auto npy = [](const std::string& descr, const std::string& rest, int64_t bytes) {
    const std::string text = "{'descr': '" + descr + "', 'fortran_order': " + rest + "}";
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size()) + '\0' + text +
           std::string(static_cast<size_t>(bytes), '\0');
  };
  const auto memory = [&](const std::string& bytes) {
    write_bytes(folder / "a", bytes);
    return check_memory(folder / "a", [&] { return read_npy(folder / "a"); });
  };
  const int64_t n = 24 * kMiB;
  for (const char* descr : {"<f4", ">f4", "|i1", "<f2", ">u8", "|b1"}) {
    CAPTURE(descr);
    const std::string shape = "False, 'shape': (" + std::to_string(n / (descr[2] - '0')) + ",)";
    const FileMemory read = memory(npy(descr, shape, n));
    CHECK(read.is_read);
    CHECK(read.peak <= read.kept + kMiB);
    CHECK_FALSE(memory(npy(descr, shape, n - 8)).is_read);
    CHECK(memory(npy(descr, shape, n - 8)).peak <= kMiB);
  }
  CHECK(memory(npy(">f4", "True, 'shape': (1024, " + std::to_string(n / 4096) + ")", n)).is_read);
  CHECK(memory(npy("<f4", "False, 'shape': (1099511627776,)", 16)).peak <= kMiB);

  // An archive whose last entry is damaged: the other entries are not allocated.
  write_npz(folder / "a", {{"x", zeros({n / 4})}, {"y", zeros({1})}});
  CHECK(check_memory(folder / "a", [&] { return read_npz(folder / "a"); }).is_read);
  std::string bytes = read_bytes(folder / "a");
  bytes[bytes.find("y.npy") + 25 + 128] = '\x01';  // the first element of y
  write_bytes(folder / "a", bytes);
  const FileMemory damaged = check_memory(folder / "a", [&] { return read_npz(folder / "a"); });
  CHECK_FALSE(damaged.is_read);
  CHECK(damaged.peak <= kMiB);
}

}  // namespace linnet::test
