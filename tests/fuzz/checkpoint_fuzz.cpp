#include <cstdlib>

#include <linnet/linnet.h>

#include "support/ranks.h"
#include "support/run/checkpoint.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/values.h"

/// A checkpoint that is refused leaves model, optimizer and generator as they were. The model is one linear layer: a
/// file that fits it is small.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{4} << 20;  // nlohmann's parser with the longest header

namespace {

struct Model : nn::Module {
  explicit Model(Generator& rng) : Module(rng) {}
  nn::Linear fc{*this, "fc", 2, 1};
};

std::string everything(const nn::Module& model, const nn::Optimizer& optimizer) {
  std::string text;
  for (const auto& [name, tensor] : model.state()) text += name + test::bytes_of(tensor);
  for (const auto& [name, tensor] : optimizer.state()) text += name + test::bytes_of(tensor);
  const Generator::State random = model.generator().state();
  return text + std::to_string(random.seed) + " " + std::to_string(random.draws);
}

}  // namespace

void run(Bytes input) {
  const Folder folder;
  folder.write("checkpoint.safetensors", input);
  Generator rng(1);
  Model model(rng);
  nn::AdamW optimizer(model.parameters(), {});
  examples::Checkpoint::Position at;
  nn::ZeroRedundancyOptimizer whole(examples::one_rank(), optimizer);
  examples::Checkpoint checkpoint(folder.path(), model, whole, at, {});
  const std::string before = everything(model, optimizer);
  const MemoryUse use;
  try {
    checkpoint.load();
  } catch (const Error&) {
    use.check(input, most_in_tensors(input));
    if (everything(model, optimizer) != before) std::abort();
    throw;
  }
  use.check(input, most_in_tensors(input));
  const std::string loaded = everything(model, optimizer);
  const int64_t step = at.step;
  must([&] {
    checkpoint.save();
    at = {};
    checkpoint.load();
  });
  if (at.step != step || everything(model, optimizer) != loaded) std::abort();
}

}  // namespace linnet::fuzz
