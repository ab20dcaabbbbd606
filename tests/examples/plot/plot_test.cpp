#include "support/plot/plot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/full_disk.h"

namespace linnet::examples::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Color kBlue = {0.00, 0.45, 0.70};  // the colours of the first four series
constexpr Color kVermilion = {0.84, 0.37, 0.00};
constexpr Color kGreen = {0.00, 0.62, 0.45};
constexpr Color kPurple = {0.80, 0.47, 0.65};
constexpr std::array<Color, 12> kTwelve = {kBlue,
                                           kVermilion,
                                           kGreen,
                                           kPurple,
                                           {0.90, 0.62, 0.00},
                                           {0.34, 0.71, 0.91},
                                           {0.00, 0.00, 0.00},
                                           {0.94, 0.89, 0.26},
                                           {0.45, 0.28, 0.12},
                                           {0.50, 0.53, 0.58},
                                           {0.38, 0.20, 0.60},
                                           {0.72, 0.10, 0.30}};

LineChart chart_of(std::vector<Series> series) {
  return {
      .title = "Loss", .subtitle = "synthetic", .x_label = "step", .y_label = "loss", .series = std::move(series)};
}

Picture draw(const LineChart& chart) {
  const TemporaryFolder folder;
  write_png(chart, folder / "chart.png");
  CHECK(folder.file_count() == 1);
  return Picture(folder / "chart.png");
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("plot: every series is drawn in its colour and labelled on its own line") {
  // All end at the same height, so the labels must be moved apart.
  const Picture picture = draw(chart_of({{"a", {0, 1, 2}, {1, 5, 3}},
                                         {"b", {0, 1, 2}, {2, 6, 3}},
                                         {"c", {0, 1, 2}, {3, 7, 3}},
                                         {"d", {0, 1, 2}, {4, 8, 3}}}));
  CHECK(picture.width() == 1600);
  CHECK(picture.height() == 960);
  int previous = 0;
  for (const Color color : {kBlue, kVermilion, kGreen, kPurple}) {
    CHECK(picture.find(color, 0, 1400).count > 1000);
    const Region key = picture.find(color, picture.width() - 110, picture.width());
    REQUIRE(key.count > 0);
    CHECK(key.top - previous > 20);
    previous = key.bottom;
  }
}

TEST_CASE("plot: a series keeps the colour that it is given, wherever it stands") {
  const Picture picture = draw(chart_of({{"a", {0, 1, 2}, {1, 5, 3}, 3}, {"b", {0, 1, 2}, {2, 6, 4}, 0}}));
  CHECK(picture.find(kPurple, 0, 1400).count > 1000);
  CHECK(picture.find(kBlue, 0, 1400).count > 1000);
  CHECK(picture.find(kVermilion).count == 0);
}

TEST_CASE("plot: each of twelve series has a colour and a marker of its own") {
  constexpr Color kWhite = {1, 1, 1};
  const auto rgb = [](Color c) { return std::tuple(c.red, c.green, c.blue); };
  std::set<int64_t> sizes;
  for (size_t i = 0; i < kTwelve.size(); ++i) {
    CHECK(std::ranges::count_if(kTwelve, [&](Color c) { return rgb(c) == rgb(kTwelve[i]); }) == 1);
    const Picture one = draw(chart_of({{"", {1, 2}, {1, kNan}, i}}));
    const Region marker = one.find(kTwelve[i]);
    REQUIRE(marker.count > 20);
    CAPTURE(i);
    const bool is_hollow = one.has((marker.left + marker.right) / 2, (marker.top + marker.bottom) / 2, kWhite);
    CHECK(is_hollow == (i >= 6));
    if (!is_hollow) sizes.insert(marker.count);
  }
  CHECK(sizes.size() >= 5);  // the two triangles may cover as many pixels
}

TEST_CASE("plot: of many points some are marked, and none of a light line") {
  Series series{.x = std::vector<double>(200), .y = std::vector<double>(200, 1)};
  std::iota(series.x.begin(), series.x.end(), 0);
  const Region line = draw(chart_of({series})).find(kBlue);
  CHECK(line.bottom - line.top > 8);  // a line is 4 pixels wide
  series.light = true;
  CHECK(draw(chart_of({series})).find(kBlue).count == 0);
}

TEST_CASE("plot: points that are not finite break the line, and lone points are marked") {
  const Picture gap = draw(chart_of({{"", {0, 1, 2, 3, 4}, {1, 1, kNan, 1, 1}}, {"", {0, 4}, {0, 2}}}));
  const Region left = gap.find(kBlue, 0, 800);
  const Region right = gap.find(kBlue, 850, 1600);
  REQUIRE(left.count > 0);
  REQUIRE(right.count > 0);
  CHECK(right.left - left.right > 500);  // a third of the page between them
  CHECK(gap.find(kBlue, left.right + 1, right.left).count == 0);

  const Picture lone = draw(chart_of({{"", {0, 1, 2}, {kInf, 1, kNan}}}));
  CHECK(lone.find(kBlue).count > 60);
  CHECK(lone.find(kBlue).right - lone.find(kBlue).left < 16);
}

TEST_CASE("plot: a logarithmic axis makes a power law straight and leaves out what is not positive") {
  LineChart chart = chart_of({{"", {1, 10, 100, 1000}, {1, 100, 1e4, 1e6}}, {"", {-1, 0, 10}, {1, 1, 0}}});
  chart.log_x = chart.log_y = true;
  const Picture picture = draw(chart);
  const Region line = picture.find(kBlue);
  CHECK(picture.find(kVermilion).count == 0);
  // The middle is on the straight line between the ends.
  CHECK(picture.has((line.left + line.right) / 2, (line.top + line.bottom) / 2, kBlue));
}

TEST_CASE("plot: nothing to show, constant and extreme series are charts too") {
  CHECK(draw(LineChart{}).width() == 1600);
  CHECK(draw(chart_of({})).width() == 1600);
  CHECK(draw(chart_of({{"empty", {}, {}}, {"all nan", {1, 2}, {kNan, kInf}}})).width() == 1600);
  CHECK(draw(chart_of({{"constant", {0, 1}, {2, 2}}})).find(kBlue).count > 1000);
  CHECK(draw(chart_of({{"zero", {0, 0}, {0, 0}}})).find(kBlue).count > 60);
  CHECK(draw(chart_of({{"huge", {0, 1, 2}, {1, 1.7e308, -1.7e308}}})).find(kBlue).count > 60);
  CHECK(draw(chart_of({{"wide", {0, 1}, {-1e299, 1e299}}})).find(kBlue).count > 1000);
  CHECK(draw(chart_of({{"tiny", {0, 1}, {1e-320, 2e-320}}})).find(kBlue).count > 60);
}

TEST_CASE("plot: any bytes may be a label") {
  LineChart chart = chart_of({{std::string(300, 'x'), {0, 1}, {1, 2}}, {"\xC3\x28 \xF0\x9F", {0, 1}, {2, 1}}});
  chart.title = std::string(400, 'W');
  chart.subtitle = "tab\tnewline\n\xFF";
  const Picture picture = draw(chart);
  CHECK(picture.find(kVermilion).count > 1000);
}

TEST_CASE("plot: a series with unlike numbers of x and y is refused") {
  const TemporaryFolder folder;
  const std::string error = error_of([&] { write_png(chart_of({{"softmax", {0, 1}, {1}}}), folder / "a.png"); });
  CHECK(contains(error, (folder / "a.png").string()));
  CHECK(contains(error, "the series 'softmax' has 2 x but 1 y; give one y for each x"));
  CHECK(folder.file_count() == 0);
}

TEST_CASE("plot: a picture that cannot be written leaves everything as it was, and says so") {
  const TemporaryFolder folder;
  const LineChart chart = chart_of({{"a", {0, 1}, {1, 2}}});

  const auto missing = folder / "missing/chart.png";
  const std::string error = error_of([&] { write_png(chart, missing); });
  CHECK(contains(error, "cannot write '" + missing.string() + "': No such file or directory; check that"));

  std::filesystem::create_directory(folder / "taken.png");
  CHECK(contains(error_of([&] { write_png(chart, folder / "taken.png"); }), "it is not a file; choose another name"));
  CHECK(folder.file_count() == 1);

  write_png(chart, folder / "chart.png");
  const std::string before = read(folder / "chart.png");
  {
    const FullDisk disk(100);
    CHECK(contains(error_of([&] { write_png(chart, folder / "chart.png"); }), "File too large; free some space"));
  }
  CHECK(read(folder / "chart.png") == before);
  CHECK(folder.file_count() == 2);  // the folder and the old picture
}

}  // namespace linnet::examples::test
