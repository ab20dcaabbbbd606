#include "support/plot/image_sheet.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include <linnet/linnet.h>

#include "tests/examples/plot/picture.h"

namespace linnet::examples::test {
namespace {

constexpr int kEdge = 44;  // in the sheet's pixels, two for each point
constexpr int kPixel = 4;
constexpr int kGap = 8;

Picture draw(const ImageSheet& sheet) {
  const TemporaryFolder folder;
  write_png(sheet, folder / "sheet.png");
  CHECK(folder.file_count() == 1);
  return Picture(folder / "sheet.png");
}

std::string error_for(const ImageSheet& sheet) {
  const TemporaryFolder folder;
  const std::string error = error_of([&] { write_png(sheet, folder / "sheet.png"); });
  CHECK(folder.file_count() == 0);
  return error;
}

}  // namespace

TEST_CASE("image sheet: each pixel is a square of its grey, and images stand in reading order") {
  // Three images of 2 rows and 3 columns, whose greys are all different.
  const Tensor images = arange(18).to(DType::float64).reshape({3, 2, 3}) / 18;
  const Picture picture = draw({.images = images, .columns = 2});
  CHECK(picture.width() == 2 * kEdge + 2 * 3 * kPixel + kGap);
  CHECK(picture.height() == 2 * kEdge + 2 * 2 * kPixel + kGap);
  for (int i = 0; i < 18; ++i) {
    CAPTURE(i);
    const double grey = i / 18.0;
    const Region square = picture.find({grey, grey, grey});
    CHECK(square.count == kPixel * kPixel);
    CHECK(square.left == kEdge + i / 6 % 2 * (3 * kPixel + kGap) + i % 3 * kPixel);
    CHECK(square.top == kEdge + i / 12 * (2 * kPixel + kGap) + i / 3 % 2 * kPixel);
  }
}

TEST_CASE("image sheet: a title moves the images down, and columns beyond the images leave no room") {
  const ImageSheet plain{.images = zeros({2, 5, 40}), .columns = 9};
  ImageSheet titled = plain;
  titled.title = "Digits";
  titled.subtitle = "made up";
  const Picture without = draw(plain), with = draw(titled);
  CHECK(without.width() == 2 * kEdge + 2 * 40 * kPixel + kGap);
  CHECK(with.width() == without.width());
  CHECK(with.height() > without.height() + 60);
  CHECK(without.find({0, 0, 0}).top == kEdge);
  CHECK(with.find({0, 0, 0}).count == without.find({0, 0, 0}).count);
  CHECK(with.has(kEdge, with.height() - kEdge - 1, {0, 0, 0}));
}

TEST_CASE("image sheet: numbers beyond 0 and 1, any floating dtype, and images that are not contiguous") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor column = tensor({-3, infinity, nan, -infinity, 1.5, 0.25}, dtype);
    const Picture picture = draw({.images = column.reshape({3, 2}).transpose(0, 1).unsqueeze(0)});
    const auto at = [&](int row, int col, double grey) {
      return picture.has(kEdge + col * kPixel, kEdge + row * kPixel, {grey, grey, grey});
    };
    CHECK(at(0, 0, 0));
    CHECK(at(1, 0, 1));
    CHECK(at(0, 1, 0.5));
    CHECK(at(1, 1, 0));
    CHECK(at(0, 2, 1));
    CHECK(at(1, 2, 0.25));
  }
}

TEST_CASE("image sheet: what is no list of images is refused") {
  CHECK(contains(error_for({}), "sheet.png: images must be [count, height, width]"));
  CHECK(contains(error_for({}), "not undefined"));
  CHECK(contains(error_for({.images = zeros({2, 1, 28, 28})}), "not [2, 1, 28, 28]; reshape them"));
  CHECK(contains(error_for({.images = zeros({0, 28, 28})}), "not [0, 28, 28]"));
  CHECK(contains(error_for({.images = zeros({1, 28, 28}, DType::int64)}), "not int64; convert bytes with"));
  CHECK(contains(error_for({.images = zeros({1, 28, 28}), .columns = 0}), "give columns of at least 1"));
}

}  // namespace linnet::examples::test
