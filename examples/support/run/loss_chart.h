#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/plot/plot.h"
#include "support/run/run_folder.h"

namespace linnet::examples {

enum class Against : uint8_t { steps, seconds };

/// The losses of a run, as a picture shows them.
struct LossCurve {
  std::string label;
  size_t color = 0;    ///< the index of its mechanism
  bool light = false;  ///< thinner and paler, for a second run of one mechanism
  std::span<const Metrics> history;
  std::span<const StepLoss> losses = {};  ///< of single steps; only the picture of one run shows them
};

/// The validation losses of runs; `what` names their data and settings. The picture of one run against steps shows
/// its training losses too, if it has them.
LineChart loss_chart(const std::vector<LossCurve>& curves, Against against, const std::string& title,
                     const std::string& what);

}  // namespace linnet::examples
