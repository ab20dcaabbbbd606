#include "support/run/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linnet/core/distributed.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "support/format.h"

namespace linnet::examples {
namespace {

constexpr double kRedrawInterval = 0.1;              // seconds
constexpr std::string_view kClearLine = "\r\x1b[K";  // to the first column, erase to the end of the line
constexpr auto kUnlimited = std::numeric_limits<int64_t>::max();

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Whether the output goes to a launcher of MPI that has no terminal itself. Open MPI gives each rank a terminal even
/// if its own output is none.
bool is_passed_on(int fd) {
  if (!started_by_mpi_launcher()) return false;
  const std::string launchers = fmt::format("/proc/{}/fd/{}", ::getppid(), fd);
  const int opened = ::open(launchers.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  const bool is_terminal = opened >= 0 && ::isatty(opened) != 0;
  if (opened >= 0) ::close(opened);
  return !is_terminal;
}

int terminal_columns(std::FILE* out) {
  const int fd = fileno(out);
  const char* term = std::getenv("TERM");
  if (isatty(fd) == 0 || is_passed_on(fd) || term == nullptr || std::string_view(term) == "dumb") return 0;
  winsize size{};
  constexpr int kUsual = 80;  // for terminals that do not report their size
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

void print(std::FILE* out, std::string_view text) {
  // Errors are ignored, because a closed pipe is no reason to stop the work.
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

// "18.2 steps/s", or "3.4 s/step" if a step takes longer than a second.
std::string format_rate(double steps_per_second) {
  if (steps_per_second < 1) return fmt::format("{:.1f} s/step", 1 / steps_per_second);
  return fmt::format("{:.{}f} steps/s", steps_per_second, steps_per_second < 100 ? 1 : 0);
}

}  // namespace

Progress::Progress(std::FILE* out, int64_t total_steps, std::string label, ProgressOptions options)
    : out_(out), total_steps_(total_steps), label_(std::move(label)), options_(std::move(options)) {
  if (!options_.now) options_.now = steady_seconds;
  if (!options_.columns) options_.columns = [out] { return terminal_columns(out); };
  created_time_ = options_.now();
}

Progress::~Progress() {
  if (line_open_) print(out_, "\n");
}

void Progress::update(int64_t step, std::vector<ProgressField> fields) {
  time_ = options_.now();
  step_ = step;
  fields_ = std::move(fields);
  const bool first = !started_;
  if (first) {
    started_ = true;
    begin_time_ = time_;
    begin_step_ = step;
  }
  const int columns = options_.columns();
  const double interval = columns > 0 ? kRedrawInterval : options_.plain_interval;
  // Without a terminal the last step is left to finish(), so that it is not printed twice.
  const bool last = columns > 0 && step == total_steps_;
  if (first || last || time_ - drawn_time_ >= interval) draw(columns);
}

void Progress::finish() {
  if (finished_ || !started_) return;
  finished_ = true;
  const int columns = options_.columns();
  const std::string_view clear = line_open_ ? kClearLine : "";
  const std::string elapsed = "  " + format_duration(options_.now() - created_time_) + " elapsed";
  print(out_, std::string(clear) + line(columns > 0 ? columns - 1 : kUnlimited, elapsed) + '\n');
  line_open_ = false;
}

void Progress::draw(int columns) {
  drawn_time_ = time_;
  if (columns > 0) {
    // One column stays free: a full line makes some terminals wrap.
    print(out_, std::string(kClearLine) + line(columns - 1, time_left()));
    line_open_ = true;
  } else {
    print(out_, line(kUnlimited, time_left()) + '\n');
  }
}

std::string Progress::time_left() const {
  if (total_steps_ <= 0 || step_ <= begin_step_) return "";
  const double seconds_per_step = (time_ - begin_time_) / static_cast<double>(step_ - begin_step_);
  return "  " + format_duration(static_cast<double>(total_steps_ - step_) * seconds_per_step) + " left";
}

std::string Progress::line(int64_t columns, const std::string& end) const {
  std::string head = label_.empty() ? "" : label_ + "  ";
  head += format_count(step_);
  if (total_steps_ > 0) head += '/' + format_count(total_steps_);

  std::string tail;
  if (step_ > begin_step_ && time_ > begin_time_) {
    tail = "  " + format_rate(static_cast<double>(step_ - begin_step_) / (time_ - begin_time_));
  }
  tail += end;

  int64_t room = columns - display_width(head) - display_width(tail);
  std::string fields;
  for (const auto& [name, value] : fields_) {
    const std::string field = fmt::format("  {}={}", name, value);
    room -= display_width(field);
    if (room < 0) break;
    fields += field;
  }
  return shorten(head + fields + tail, columns);
}

}  // namespace linnet::examples
