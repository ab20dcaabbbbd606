#include <cstdlib>
#include <vector>

#include "support/lra/cache.h"
#include "tests/fuzz/fuzz_target.h"

/// The manifest.json beside a generated data set: the set must be refused, or read unchanged.

namespace linnet::fuzz {
namespace {

const examples::GeneratedSet kSet{.generator = "small", .options = {{"length", 3}}, .counts = {2, 1, 1}};
const examples::Examples kMade{{{4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {0, 1, 2, 3}};

/// A folder with the set, made once.
struct Cache {
  Cache() {
    settings.data = folder.path();
    examples::cached(settings, kSet, [](const examples::ReportMade& /*report*/) { return kMade; });
  }
  Folder folder;
  examples::Settings settings;
};

}  // namespace

const int64_t memory_allowance = int64_t{6} << 20;  // nlohmann's trees of the longest text that is parsed

void run(Bytes input) {
  static const Cache cache;
  cache.folder.write("lra/small-3-seed-1/manifest.json", input);
  const auto make = [](const examples::ReportMade& /*report*/) -> examples::Examples { std::abort(); };
  const auto parts = checked(input, [&] { return examples::cached(cache.settings, kSet, make); });
  std::vector<uint8_t> sequences, labels;
  for (const examples::Examples& part : parts) {
    sequences.insert(sequences.end(), part.sequences.bytes.begin(), part.sequences.bytes.end());
    labels.insert(labels.end(), part.labels.begin(), part.labels.end());
  }
  if (sequences != kMade.sequences.bytes || labels != kMade.labels) std::abort();
}

}  // namespace linnet::fuzz
