#include "support/plot/heat_map.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/examples/plot/picture.h"

namespace linnet::examples::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Color kGrey = {0.88, 0.88, 0.88};

Picture draw(const HeatMapGrid& grid) {
  const TemporaryFolder folder;
  write_png(grid, folder / "maps.png");
  CHECK(folder.file_count() == 1);
  return Picture(folder / "maps.png");
}

HeatMapGrid grid_of(std::vector<HeatMap> maps) {
  return {.title = "Maps", .subtitle = "synthetic", .maps = std::move(maps)};
}

std::string error_for(const HeatMapGrid& grid) {
  const TemporaryFolder folder;
  const std::string error = error_of([&] { write_png(grid, folder / "maps.png"); });
  CHECK(folder.file_count() == 0);
  return error;
}

// L of OKLab (Ottosson 2020).
double lightness(Color color) {
  const auto linear = [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
  const double r = linear(color.red), g = linear(color.green), b = linear(color.blue);
  return 0.2104542553 * std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) +
         0.7936177850 * std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) -
         0.0040720468 * std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
}

}  // namespace

TEST_CASE("heat map: equal steps of value are equal steps of lightness, in colours that exist") {
  for (int i = 0; i <= 100; ++i) {
    const Color color = heat_color(i / 100.0);
    CAPTURE(i);
    for (const double part : {color.red, color.green, color.blue}) CHECK((part >= 0 && part <= 1));
    CHECK(lightness(color) == doctest::Approx(0.28 + 0.0065 * i).epsilon(1e-4));
  }
  CHECK(lightness(heat_color(-3)) == lightness(heat_color(0)));
  CHECK(lightness(heat_color(3)) == lightness(heat_color(1)));
}

TEST_CASE("heat map: cells stand in reading order and have the colours of their values") {
  const Picture picture = draw(grid_of({{.title = "", .rows = 2, .cols = 2, .values = {0, 5, 10, kNan}}}));
  const Region low = picture.find(heat_color(0), 0, 850);
  const Region middle = picture.find(heat_color(0.5), 0, 850);
  const Region high = picture.find(heat_color(1), 0, 850);
  for (const Region& cell : {low, middle, high}) CHECK(cell.count > 100000);
  CHECK(low.right <= middle.left);
  CHECK(low.bottom <= high.top);
  CHECK(picture.has((middle.left + middle.right) / 2, (high.top + high.bottom) / 2, kGrey));
}

TEST_CASE("heat map: all maps of a picture share one scale") {
  const Picture picture = draw(grid_of({{.title = "a", .rows = 1, .cols = 1, .values = {0}},
                                        {.title = "b", .rows = 1, .cols = 1, .values = {1}},
                                        {.title = "c", .rows = 1, .cols = 1, .values = {0.25}}}));
  CHECK(picture.find(heat_color(0)).count > 100000);
  CHECK(picture.find(heat_color(1)).count > 100000);
  CHECK(picture.find(heat_color(0.25)).count > 100000);
}

TEST_CASE("heat map: any shape, tick labels and values can be drawn") {
  HeatMap words{.title = "words", .rows = 1, .cols = 3, .values = {1, 2, 3}};
  words.x_ticks = {"to", std::string(200, 'b'), "\n"};
  words.y_ticks = {"\xFF"};
  HeatMap large{.title = "large", .rows = 700, .cols = 900, .values = std::vector<double>(700 * 900, 2)};
  HeatMap thin{.title = "thin", .rows = 500, .cols = 1, .values = std::vector<double>(500, 1)};
  thin.y_ticks.assign(500, "y");
  const HeatMap masked{.title = "masked", .rows = 2, .cols = 2, .values = std::vector<double>(4, kNan)};
  HeatMapGrid grid = grid_of({words, large, thin, masked});
  grid.x_label = "key";
  grid.y_label = "query";
  grid.value_label = "weight";
  CHECK(draw(grid).find(kGrey).count > 100000);
  CHECK(draw(grid_of({masked})).find(kGrey).count > 100000);
  // The scale begins at 0, so equal values, such as the weights of an untrained model, are at its bright end.
  CHECK(draw(grid_of({{.title = "", .rows = 2, .cols = 2, .values = {3, 3, 3, 3}}})).find(heat_color(1)).count >
        100000);
}

TEST_CASE("heat map: `columns` sets the maps per row") {
  HeatMapGrid grid = grid_of(std::vector<HeatMap>(6, {.title = "m", .rows = 1, .cols = 1, .values = {0}}));
  grid.columns = 6;
  const Picture wide = draw(grid);
  grid.columns = 1;
  const Picture tall = draw(grid);
  CHECK(wide.width() > 2 * wide.height());
  CHECK(tall.height() > 2 * tall.width());
}

TEST_CASE("heat map: what does not fit together is refused") {
  CHECK(contains(error_for({}), "no heat map to draw; give at least one"));
  CHECK(contains(error_for(grid_of({{.title = "h", .rows = 0, .cols = 3}})),
                 "the heat map 'h' has 0 rows and 3 columns; give at least one of each"));
  HeatMap map{.title = "head 1", .rows = 2, .cols = 3, .values = {1, 2, 3, 4, 5}};
  CHECK(contains(error_for(grid_of({map})), "'head 1' of 2 rows and 3 columns has 5 values; give 6"));
  map.values.push_back(6);
  map.x_ticks = {"a", "b"};
  CHECK(contains(error_for(grid_of({map})), "has 2 x_ticks; give 3, or none"));
  map.x_ticks.clear();
  map.y_ticks = {"a"};
  CHECK(contains(error_for(grid_of({map})), "has 1 y_ticks; give 2, or none"));
}

TEST_CASE("heat map: a picture too large for the format is refused") {
  const HeatMap cell{.title = "", .rows = 1, .cols = 1, .values = {0}};
  HeatMapGrid grid = grid_of(std::vector<HeatMap>(300, cell));
  grid.columns = 300;
  CHECK(contains(error_for(grid), "the picture cannot be drawn"));
}

}  // namespace linnet::examples::test
