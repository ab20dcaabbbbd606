#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/summaries/load.h"
#include "tests/fuzz/fuzz_target.h"

/// The files of summarise. The first byte of the input chooses the file's name, and so its format, and whether a
/// malformed article is an error. The rest is the file, or each of three parts.

namespace linnet::fuzz {

namespace {

constexpr std::array<const char*, 3> kEndings{".jsonl", ".txt", ".story"};

}  // namespace

const int64_t memory_allowance = int64_t{4} << 20;

void run(Bytes input) {
  if (input.empty()) return;
  const std::string ending = kEndings[input[0] / 2 % kEndings.size()];
  const Folder folder;
  for (const std::string part : {"train", "val", "test"}) {
    std::filesystem::create_directories(folder.path() / part);
    folder.write(ending == ".story" ? part + "/a" + ending : part + ending, input.subspan(1));
  }
  examples::Settings settings = examples::preset("pubmed", examples::preset_names("pubmed").front());
  settings.data = folder.path();
  settings.summary.strict = (input[0] & 1U) != 0;
  constexpr int64_t kCopies = 64;  // a line of a few bytes is a tree of JSON, and then an article in each part
  const MemoryUse use;
  const examples::ArticleParts parts = examples::load_articles(settings);
  use.check(input, kCopies * static_cast<int64_t>(input.size()));
  if (parts.train.size() != parts.test.size() || parts.dev.empty()) std::abort();
  for (const examples::Article& article : parts.train) {
    if (article.text.empty() || article.summary.empty()) std::abort();
  }
}

}  // namespace linnet::fuzz
