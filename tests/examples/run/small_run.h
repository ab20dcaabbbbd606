#pragma once

#include <filesystem>

#include "support/run/training.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/support/quiet.h"

namespace linnet::examples::test {

/// The settings of a very short run in this process, on the text of a Workshop.
inline Settings small_settings(const Workshop& shop, const std::filesystem::path& out) {
  Settings settings = preset("shakespeare", "nanogpt-cpu");
  settings.data = shop / "data";
  settings.out = out;
  settings.layers = 1, settings.width = 16, settings.heads = 2, settings.context = 16, settings.batch = 4;
  settings.steps = 6, settings.warmup = 2, settings.eval_every = 3, settings.eval_batches = 1;
  settings.checkpoint_every = 2;
  settings.dropout = 0.1;
  return settings;
}

/// Makes the run, or resumes it if the folder has one.
inline void train_or_resume(Settings settings) {
  const linnet::test::Quiet quiet;
  settings.resume = std::filesystem::exists(settings.out / "config.json");
  train(*make_task(settings), settings);
}

}  // namespace linnet::examples::test
