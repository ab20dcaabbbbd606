#include "support/run/progress.h"

#include <doctest/doctest.h>
#include <stdio.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace linnet::examples::test {
namespace {

const std::string kClear = "\r\x1b[K";

// An output that can be read back, with a clock and a terminal that the test controls.
class Screen {
 public:
  explicit Screen(int columns) : columns_(columns), file_(open_memstream(&text_, &size_)) {}
  ~Screen() {
    std::fclose(file_);
    std::free(text_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::FILE* file() const { return file_; }
  ProgressOptions options() {
    return {.now = [this] { return time; }, .columns = [this] { return columns_; }};
  }
  // What was printed since the last call.
  std::string printed() {
    std::string news(text_ + seen_, size_ - seen_);
    seen_ = size_;
    return news;
  }

  double time = 1000;

 private:
  int columns_;
  char* text_ = nullptr;
  size_t size_ = 0, seen_ = 0;
  std::FILE* file_;
};

}  // namespace

TEST_CASE("progress: a terminal has one line, redrawn at most ten times a second") {
  Screen screen(80);
  Progress progress(screen.file(), 2000, "softmax", screen.options());
  progress.update(1, {{"loss", "4.170"}});
  CHECK(screen.printed() == kClear + "softmax  1/2,000  loss=4.170");

  screen.time += 0.05;
  progress.update(2, {{"loss", "4.1"}});
  CHECK(screen.printed() == "");

  screen.time += 4.95;
  progress.update(101, {{"loss", "2.341"}, {"val", "2.4"}});
  CHECK(screen.printed() == kClear + "softmax  101/2,000  loss=2.341  val=2.4  20.0 steps/s  0:01:35 left");

  screen.time += 0.01;
  progress.update(2000);  // the last step is always drawn
  CHECK(screen.printed() == kClear + "softmax  2,000/2,000  399 steps/s  0:00:00 left");
  screen.time += 55;
  progress.finish();
  CHECK(screen.printed() == kClear + "softmax  2,000/2,000  399 steps/s  0:01:00 elapsed\n");
  progress.finish();
  CHECK(screen.printed() == "");
}

TEST_CASE("progress: the line is narrower than the terminal; fields give way from the last") {
  const auto line_at = [](int columns) {
    Screen screen(columns);
    Progress progress(screen.file(), 100, "größe", screen.options());
    progress.update(0);
    screen.printed();
    screen.time += 20;
    progress.update(10, {{"loss", "1.5"}, {"lr", "0.001"}});
    return screen.printed().substr(kClear.size());
  };
  CHECK(line_at(80) == "größe  10/100  loss=1.5  lr=0.001  2.0 s/step  0:03:00 left");
  CHECK(line_at(60) == "größe  10/100  loss=1.5  lr=0.001  2.0 s/step  0:03:00 left");
  CHECK(line_at(59) == "größe  10/100  loss=1.5  2.0 s/step  0:03:00 left");
  CHECK(line_at(40) == "größe  10/100  2.0 s/step  0:03:00 left");
  CHECK(line_at(20) == "größe  10/100  2...");
  CHECK(line_at(1) == "");
}

TEST_CASE("progress: without a terminal there is a plain line every ten seconds, and one at the end") {
  Screen screen(0);
  Progress progress(screen.file(), 30, "train", screen.options());
  for (int step = 1; step <= 30; ++step) {
    progress.update(step, {{"loss", std::to_string(step)}});
    screen.time += 1;
  }
  progress.finish();
  CHECK(screen.printed() ==
        "train  1/30  loss=1\n"
        "train  11/30  loss=11  1.0 steps/s  0:00:19 left\n"
        "train  21/30  loss=21  1.0 steps/s  0:00:09 left\n"
        "train  30/30  loss=30  1.0 steps/s  0:00:30 elapsed\n");
}

TEST_CASE("progress: a resumed run does not count the steps of the first") {
  Screen screen(0);
  Progress progress(screen.file(), 2000, "", screen.options());
  progress.update(1000);
  screen.time += 10;
  progress.update(1010);
  CHECK(screen.printed() == "1,000/2,000\n1,010/2,000  1.0 steps/s  0:16:30 left\n");
}

TEST_CASE("progress: an unknown total, no update, and leaving without finish") {
  Screen screen(80);
  {
    Progress progress(screen.file(), 0, "sample", screen.options());
    progress.update(1);
    screen.time += 0.5;
    progress.update(11);
    CHECK(screen.printed() == kClear + "sample  1" + kClear + "sample  11  20.0 steps/s");
  }
  CHECK(screen.printed() == "\n");  // an error message begins on a fresh line
  {
    Progress progress(screen.file(), 5, "never", screen.options());
    progress.finish();
  }
  CHECK(screen.printed() == "");
}

TEST_CASE("progress: a file is not a terminal") {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::tmpfile(), std::fclose);
  REQUIRE(file);
  Progress progress(file.get(), 2, "train");
  progress.update(1);
  REQUIRE(std::fseek(file.get(), 0, SEEK_SET) == 0);
  std::string line(64, '\0');
  REQUIRE(std::fgets(line.data(), static_cast<int>(line.size()), file.get()) != nullptr);
  CHECK(std::string(line.c_str()) == "train  1/2\n");
}

}  // namespace linnet::examples::test
