#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>

#include "support/users/conversion_task.h"
#include "support/users/mind.h"
#include "tests/fuzz/fuzz_target.h"

/// The files of recommend and convert. The first byte of the input chooses the program, and whether a malformed line
/// is an error. The rest is MIND's news.tsv and behaviors.tsv, separated by a byte 0, or lines of JSON. All parts of
/// the data get the same files.

namespace linnet::fuzz {

namespace {

// A line of a few bytes is an impression or a user, in up to three parts.
constexpr int64_t kCopies = 64;

/// Makes a batch of up to 64 examples, which uses every index of their items and words.
void collate_all(const nn::Dataset& examples) {
  if (examples.size() == 0) return;
  std::vector<int64_t> indices(static_cast<size_t>(std::min<int64_t>(examples.size(), 64)));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  const nn::Batch batch = examples.collate(indices, {});
  if (batch.others[3].size(0) != std::ssize(indices)) std::abort();
}

void read_clicks(const examples::Settings& settings, const Folder& folder, Bytes input) {
  const Bytes rest = input.subspan(1);
  const auto zero = std::ranges::find(rest, 0);
  const Bytes news(rest.begin(), zero), users(zero == rest.end() ? zero : zero + 1, rest.end());
  for (const std::string part : {"train", "dev"}) {
    std::filesystem::create_directories(folder.path() / part);
    folder.write(part + "/news.tsv", news);
    folder.write(part + "/behaviors.tsv", users);
  }
  const MemoryUse use;
  const examples::ClickSet set = examples::load_mind(settings);
  use.check(input, kCopies * static_cast<int64_t>(input.size()));
  collate_all(examples::Clicks(set));
  for (const examples::Impression& impression : set.dev) {
    const std::vector<double> scores(impression.candidates.size());
    if (examples::ranks(impression, scores).size() != impression.clicked.size()) std::abort();
  }
}

void read_conversions(const examples::Settings& settings, const Folder& folder, Bytes input) {
  for (const std::string part : {"train", "dev", "test"}) folder.write(part + ".jsonl", input.subspan(1));
  const MemoryUse use;
  const examples::ConversionSet set = examples::load_conversions(settings);
  use.check(input, kCopies * static_cast<int64_t>(input.size()));
  collate_all(examples::ConversionUsers(set.items, set.test));
}

}  // namespace

const int64_t memory_allowance = int64_t{4} << 20;

void run(Bytes input) {
  if (input.empty()) return;
  const Folder folder;
  examples::Settings settings;
  settings.data = folder.path();
  settings.of_users.strict = (input[0] & 1U) != 0;
  (input[0] & 2U) != 0 ? read_conversions(settings, folder, input) : read_clicks(settings, folder, input);
}

}  // namespace linnet::fuzz
