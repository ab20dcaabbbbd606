#include "support/run/loss_chart.h"

#include <utility>

namespace linnet::examples {

LineChart loss_chart(const std::vector<LossCurve>& curves, Against against, const std::string& title,
                     const std::string& what) {
  const bool steps = against == Against::steps;
  const bool has_training = curves.size() == 1 && steps && !curves.front().losses.empty();
  LineChart chart{.title = title,
                  .subtitle = what,
                  .x_label = steps ? "step" : "seconds of training",
                  .y_label = has_training ? "loss" : "validation loss"};
  if (has_training) {
    Series training{.label = "training", .color = curves.front().color, .light = true};
    for (const StepLoss& at : curves.front().losses) {
      training.x.push_back(static_cast<double>(at.step));
      training.y.push_back(at.loss);
    }
    chart.series.push_back(std::move(training));
  }
  for (const LossCurve& curve : curves) {
    Series series{.label = has_training ? "validation" : curve.label, .color = curve.color, .light = curve.light};
    for (const Metrics& m : curve.history) {
      series.x.push_back(steps ? static_cast<double>(m.step) : m.seconds);
      series.y.push_back(m.val_loss);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace linnet::examples
