#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace linnet::examples {

/// One `name=value` of a progress line.
struct ProgressField {
  std::string name;
  std::string value;
};

struct ProgressOptions {
  double plain_interval = 10.0;      ///< seconds between lines if the output is not a terminal
  std::function<double()> now = {};  ///< seconds on a steady clock; empty: std::chrono::steady_clock
  std::function<int()> columns;      ///< width of the terminal, 0 if there is none; empty: asks the system each time
};

/// A line with the progress of a long job:
///
///     softmax  1,240/2,000  loss=2.341  val=1.953  18.2 steps/s  0:00:41 left
///
/// On a terminal the line is redrawn in place, at most ten times a second, and never wider than the terminal:
/// fields are left out first, beginning with the last. Elsewhere (a file, a pipe, TERM=dumb) it is printed
/// once per `plain_interval`. Rate and time left are averages since the first update, so that a resumed run
/// does not count the steps of the earlier run. For use by one thread.
class Progress {
 public:
  /// `out` must outlive the object. `total_steps` 0: not known, so no time left is shown.
  Progress(std::FILE* out, int64_t total_steps, std::string label, ProgressOptions options = {});
  ~Progress();  ///< ends the progress line, so that an error message begins on a new one
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `step` steps are done. The last step is always shown.
  void update(int64_t step, std::vector<ProgressField> fields = {});

  /// Shows the last state with the time it took, and ends the line. A second call does nothing.
  void finish();

 private:
  std::string line(int64_t columns, const std::string& end) const;
  std::string time_left() const;
  void draw(int columns);

  std::FILE* out_;
  int64_t total_steps_;
  std::string label_;
  ProgressOptions options_;

  double created_time_ = 0;
  double begin_time_ = 0;  // of the first update
  int64_t begin_step_ = 0;
  double time_ = 0;  // of the last update
  int64_t step_ = 0;
  std::vector<ProgressField> fields_;
  double drawn_time_ = 0;
  bool started_ = false;  // whether there was an update
  bool finished_ = false;
  bool line_open_ = false;  // whether the cursor is behind a drawn line
};

}  // namespace linnet::examples
