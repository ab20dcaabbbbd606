#include <cmath>
#include <cstdlib>
#include <optional>

#include "support/run/results.h"
#include "tests/fuzz/fuzz_target.h"

/// The results.json of a run, which tables and pictures read. Results do not change when they are written and read
/// again.

namespace linnet::fuzz {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same(const examples::Results& a, const examples::Results& b) {
  bool measures = a.measures.size() == b.measures.size();
  for (size_t i = 0; measures && i < a.measures.size(); ++i) {
    measures = a.measures[i].first == b.measures[i].first && same(a.measures[i].second, b.measures[i].second);
  }
  return measures && a.step == b.step && same(a.loss, b.loss) && a.accuracy == b.accuracy &&
         a.constant_accuracy == b.constant_accuracy && same(a.ms_per_step, b.ms_per_step) &&
         a.parameters == b.parameters && a.peak_bytes == b.peak_bytes;
}

}  // namespace

const int64_t memory_allowance = int64_t{6} << 20;  // nlohmann's tree of the longest text that is parsed

void run(Bytes input) {
  const Folder folder;
  folder.write("results.json", input);
  const auto read = [&] { return examples::read_results(folder.path()); };
  const std::optional<examples::Results> results = checked(input, read);
  const std::optional<examples::Results> again = must([&] {
    examples::write_results(folder.path(), *results);
    return read();
  });
  if (!again || !same(*results, *again)) std::abort();
}

}  // namespace linnet::fuzz
