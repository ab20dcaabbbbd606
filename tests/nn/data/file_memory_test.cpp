#include <string>

#include <doctest/doctest.h>

#include <linnet/nn/data/idx.h>
#include <linnet/nn/data/text.h>

#include "tests/nn/data/idx_file.h"
#include "tests/support/file_memory.h"
#include "tests/support/files.h"

/// Reading texts and IDX files takes no more memory than the limit of tests/support/file_memory.h.

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
  // Files that unpack to fewer bytes than the header says, or to more, or that are truncated.
  CHECK_FALSE(reads(gzipped(idx_bytes({2 * n}, std::string(n, '\0')))));
  CHECK_FALSE(reads(gzipped(idx_bytes({n - 1}, std::string(n, '\0')))));
  CHECK_FALSE(reads(gzipped(idx_bytes({4}, std::string(n, '\0')))));
  CHECK_FALSE(reads(gzipped(whole).substr(0, gzipped(whole).size() - 4)));
  CHECK_FALSE(reads(idx_bytes({n}, std::string(n - 1, '\0'))));
}

}  // namespace linnet::test
