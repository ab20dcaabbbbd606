/// A model's file, a checkpoint and similar files when a call that writes them fails.

#include <doctest/doctest.h>

#include <linnet/linnet.h>

#include "tests/support/disk/failing_calls.h"

namespace linnet::test {
namespace {

struct Model : nn::Module {
  explicit Model(Generator& rng) : Module(rng) {}
  nn::Linear fc{*this, "fc", 3, 2};
};

}  // namespace

TEST_CASE("models and checkpoints: where any call fails that writes the file, the old one stays") {
  const auto write = [](const std::filesystem::path& folder, int64_t step) {
    Generator rng(static_cast<uint64_t>(step));
    Model model(rng);
    model.save(folder / "model.safetensors");
    nn::AdamW optimizer(model.parameters(), {});
    nn::Checkpoint checkpoint(folder / "checkpoint.safetensors");
    checkpoint.add("model", model).add("optimizer", optimizer).add("generator", rng).add("step", step).save();
    nn::write_idx(folder / "images", {{step, 2}, std::vector<uint8_t>(static_cast<size_t>(2 * step), 7)});
  };
  check_each_failure([&](const auto& folder) { write(folder, 3); }, [&](const auto& folder) { write(folder, 40); });
}

}  // namespace linnet::test
