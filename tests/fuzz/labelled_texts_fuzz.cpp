#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/texts/text_data.h"
#include "tests/fuzz/fuzz_target.h"

/// Files of texts with labels. The first byte of the input chooses the task or the file's ending, and so the format,
/// and whether texts are divided into sentences. The rest is the file.

namespace linnet::fuzz {

namespace {

struct TextFile {
  const char* task;
  const char* name;
};

constexpr std::array<TextFile, 6> kFiles{{{"own-texts", "a.jsonl"},
                                          {"own-texts", "a.jsonl.gz"},
                                          {"own-texts", "a.tsv"},
                                          {"own-texts", "a.csv"},
                                          {"mind-topics", "news.tsv"},
                                          {"speakers", "play.txt"}}};

}  // namespace

const int64_t memory_allowance = int64_t{8} << 20;

void run(Bytes input) {
  if (input.empty()) return;
  const TextFile& file = kFiles[input[0] % kFiles.size()];
  const Folder folder;
  folder.write(file.name, input.subspan(1));
  const std::string task = file.task;
  examples::Settings settings = examples::preset(task, examples::preset_names(task).front());
  settings.data = folder.path() / file.name;
  const bool has_sentences = input[0] / kFiles.size() % 2 == 1;
  if (has_sentences) settings.texts.levels = "sentence";
  constexpr int64_t kCopies = 512;  // a line of a few bytes is an example with its place, ids and a label
  const MemoryUse use;
  const examples::TextData texts = examples::text_data(examples::load_labelled_texts(settings), settings);
  use.check(input, kCopies * static_cast<int64_t>(input.size()));
  for (const examples::SequencePart* part : {&texts.data.train, &texts.data.dev, &texts.data.test}) {
    if (part->data->size() == 0) std::abort();
    const std::array<int64_t, 1> last{part->data->size() - 1};
    const nn::Batch batch = part->data->collate(last, {});
    if (has_sentences) {
      if (batch.others[1].size(1) > examples::kMostSentences) std::abort();
      if (batch.inputs.size(1) > examples::kMostSentenceWords) std::abort();
    } else if (batch.inputs.size(1) != part->lengths.back() || batch.inputs.size(1) > settings.context) {
      std::abort();
    }
    if (batch.targets.item<int64_t>() >= std::ssize(texts.classes)) std::abort();
  }
}

}  // namespace linnet::fuzz
