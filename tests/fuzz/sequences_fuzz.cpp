#include <array>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include <linnet/core/error.h>

#include "support/lra/load.h"
#include "tests/fuzz/fuzz_target.h"

/// The public files of the Long Range Arena. The first byte of the input chooses the data set. The rest is the
/// content of each of its files.

namespace linnet::fuzz {

namespace {

struct FileSet {
  const char* preset;
  const char* folder;
  std::array<const char*, 6> files;  ///< null after the last
};

constexpr std::array<FileSet, 3> kFileSets{
    {{"listops", "listops", {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"}},
     {"retrieval", "tsv_data", {"new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"}},
     {"image",
      "cifar-10-batches-bin",
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
       "test_batch.bin"}}}};

}  // namespace

const int64_t memory_allowance = int64_t{4} << 20;

void run(Bytes input) {
  if (input.empty()) return;
  const FileSet& set = kFileSets[input[0] % kFileSets.size()];
  const std::string task = set.preset;
  const Folder folder;
  std::filesystem::create_directories(folder.path() / set.folder);
  for (const char* const file : set.files) {
    if (file != nullptr) folder.write(std::string(set.folder) + "/" + file, input.subspan(1));
  }
  examples::Settings settings = examples::preset(task, "lra-" + task);
  settings.data = folder.path();
  // Each of up to six files is read into three parts, and a line of a few bytes is an example with a label and an
  // end.
  constexpr int64_t kCopies = 64;
  const MemoryUse use;
  const examples::SequenceData data = examples::load_sequences(settings);
  use.check(input, kCopies * static_cast<int64_t>(input.size()));
  for (const examples::LabelledSequences* part : {&data.train, &data.dev, &data.test}) {
    const std::vector<int64_t> lengths = part->lengths();
    if (std::ssize(lengths) != part->size()) std::abort();
    if (part->size() == 0) continue;
    const std::array<int64_t, 1> last{part->size() - 1};
    const nn::Batch batch = part->collate(last, {});
    if (batch.inputs.size(1) > lengths.back()) std::abort();
    if (batch.targets.item<int64_t>() >= examples::sequence_task(task).classes) std::abort();
  }
}

}  // namespace linnet::fuzz
