#include <linnet/nn/data/image_folder.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/core/error.h>
#include <linnet/nn/data/loader.h>

#include "tests/nn/data/png_file.h"
#include "tests/support/files.h"

/// PNG files as images, and folders of them as data sets.

namespace linnet::test {
namespace {

/// 3 × 2 pixels: red, green, blue, and then white, black, grey.
const std::string kColourful = png_bytes(
    3, 8, kRgb, {std::string("\xFF\0\0\0\xFF\0\0\0\xFF", 9), std::string("\xFF\xFF\xFF\0\0\0\x33\x33\x33", 9)});

std::string grey_image(uint32_t width, const std::vector<std::string>& rows) {
  return png_bytes(width, 8, kGrey, rows);
}

using Numbers = std::vector<double>;

Numbers pixels(const std::string& bytes, int64_t channels) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.png", bytes);
  return nn::read_png(folder / "x.png", channels).to_vector<double>();
}

void check_near(const Numbers& values, const Numbers& expected) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

std::string error_of(const std::string& bytes) {
  try {
    pixels(bytes, 3);
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("read_png: channels come one after the other, from 0 to 1") {
  const TemporaryFolder folder;
  write_bytes(folder / "x.png", kColourful);
  const Tensor x = nn::read_png(folder / "x.png");
  CHECK(x.shape() == Shape{3, 2, 3});
  CHECK(x.dtype() == DType::float32);
  check_near(x.to_vector<double>(), {1, 0, 0, 1, 0, 0.2, 0, 1, 0, 1, 0, 0.2, 0, 0, 1, 1, 0, 0.2});
  check_near(pixels(kColourful, 1), {0.299, 0.587, 0.114, 1, 0, 0.2});
  CHECK(nn::read_png(folder / "x.png", 4).shape() == Shape{4, 2, 3});
}

TEST_CASE("read_png: greys, 16 bits, one bit, palettes and alpha") {
  check_near(pixels(grey_image(2, {std::string("\x00\x33", 2), "\x66\xFF"}), 1), {0, 0.2, 0.4, 1});
  check_near(pixels(png_bytes(2, 16, kGrey, {std::string("\x33\x33\xFF\xFF", 4)}), 1), {0.2, 1});
  check_near(pixels(png_bytes(3, 1, kGrey, {"\xA0"}), 1), {1, 0, 1});
  const std::string palette = chunk("PLTE", std::string("\xFF\0\0\0\x33\xFF", 6));
  check_near(pixels(png_bytes(2, 8, kPalette, {std::string("\x01\0", 2)}, palette), 3), {0, 1, 0.2, 0, 1, 0});
  const std::string clear = png_bytes(1, 8, kRgba, {std::string("\xFF\x33\x66\x99", 4)});
  check_near(pixels(clear, 3), {1, 0.2, 0.4});  // the colour itself, not darkened by its transparency
  check_near(pixels(clear, 4), {1, 0.2, 0.4, 0.6});
}

TEST_CASE("read_png: files that are cut off, damaged or something else") {
  for (size_t length = 0; length < kColourful.size() - 12; ++length) {  // the last chunk only marks the end
    CAPTURE(length);
    CHECK(error_of(kColourful.substr(0, length)).find("is damaged, truncated or not a PNG file") !=
          std::string::npos);
  }
  std::string flipped = kColourful;
  flipped[flipped.find("IDAT") + 6] ^= '\x10';
  CHECK(error_of(flipped).find("is damaged") != std::string::npos);
  CHECK(error_of("GIF89a").find("make or copy it again") != std::string::npos);

  // Images too large for a small file, or for any memory.
  const auto pretended = [](uint32_t width, uint32_t height) {
    std::string bytes = kColourful;
    const std::string header = big_endian(width) + big_endian(height) + std::string{8, kRgb, '\0', '\0', '\0'};
    const std::string whole = chunk("IHDR", header);
    return bytes.replace(bytes.find("IHDR") - 4, whole.size(), whole);
  };
  CHECK(error_of(pretended(3, 3)).find("is damaged") != std::string::npos);
  CHECK(error_of(pretended(5000, 5000)).find("5000 × 5000 pixels in ") != std::string::npos);
  CHECK(error_of(pretended(100'000, 100'000)).find("more than the 67108864 that are read; cut it into parts") !=
        std::string::npos);

  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(nn::read_png(folder / "y.png"),
                       doctest::Contains("y.png': No such file or directory; check that the file exists"), IoError);
  CHECK_THROWS_WITH_AS(nn::read_png(folder.path()), doctest::Contains("': Is a directory; check that"), IoError);
  CHECK_THROWS_WITH_AS(nn::read_png(folder / "y.png", 2), doctest::Contains("channels must be 1, 3 or 4, not 2"),
                       ValueError);
}

namespace {

/// Images of 2 × 1 pixels: two cats, and a dog in a subfolder for its breed.
struct Animals {
  TemporaryFolder folder;

  Animals() {
    std::filesystem::create_directories(folder / "dogs/beagle");
    std::filesystem::create_directories(folder / "cats");
    write_bytes(folder / "cats/b.png", grey_image(2, {std::string("\x33\0", 2)}));
    write_bytes(folder / "cats/a.PNG", grey_image(2, {std::string("\0\xFF", 2)}));
    write_bytes(folder / "cats/notes.txt", "not an image");
    write_bytes(folder / "dogs/beagle/c.png", grey_image(2, {"\x66\x66"}));
  }
};

}  // namespace

TEST_CASE("ImageFolder: classes by their folders' names, images by theirs") {
  const Animals animals;
  // A link to a folder is followed.
  const TemporaryFolder elsewhere;
  std::filesystem::rename(animals.folder / "dogs/beagle", elsewhere / "beagle");
  std::filesystem::create_directory_symlink(elsewhere / "beagle", animals.folder / "dogs/beagle");
  const nn::ImageFolder data(animals.folder.path(), {.channels = 1});
  CHECK(data.classes() == std::vector<std::string>{"cats", "dogs"});
  REQUIRE(data.size() == 3);
  const std::vector<int64_t> indices{2, 0, 1};
  const nn::Batch batch = data.collate(indices, {});
  CHECK(batch.inputs.shape() == Shape{3, 1, 1, 2});
  check_near(batch.inputs.to_vector<double>(), {0.4, 0.4, 0, 1, 0.2, 0});
  CHECK(batch.targets.to_vector<int64_t>() == std::vector<int64_t>{1, 0, 0});
  CHECK_THROWS_WITH_AS(data.collate(std::vector<int64_t>{3}, {}), doctest::Contains("example 3 of 3"), IndexError);

  nn::Loader loader(data, {.batch = 2, .shuffle = false, .num_workers = 2});
  std::vector<int64_t> labels;
  for (const auto& [images, targets] : loader) {
    for (const int64_t label : targets.to_vector<int64_t>()) labels.push_back(label);
  }
  CHECK(labels == std::vector<int64_t>{0, 0, 1});
}

TEST_CASE("ImageFolder: the classes of another folder") {
  const Animals animals;
  const std::filesystem::path& root = animals.folder.path();
  const nn::ImageFolder data(root, {.channels = 1, .classes = {"birds", "dogs", "cats"}});
  CHECK(data.classes() == std::vector<std::string>{"birds", "dogs", "cats"});
  REQUIRE(data.size() == 3);
  const nn::Batch batch = data.collate(std::vector<int64_t>{0, 1, 2}, {});
  check_near(batch.inputs.to_vector<double>(), {0, 1, 0.2, 0, 0.4, 0.4});
  CHECK(batch.targets.to_vector<int64_t>() == std::vector<int64_t>{2, 2, 1});
  CHECK_THROWS_WITH_AS(
      nn::ImageFolder(root, {.classes = {"dogs", "birds"}}),
      doctest::Contains("cats' is none of the classes 'dogs', 'birds'; add it to ImageFolderOptions::classes"),
      ValueError);
  CHECK_THROWS_WITH_AS(nn::ImageFolder(root, {.classes = {"dogs", "cats", "dogs"}}),
                       doctest::Contains("the class 'dogs' is given twice"), ValueError);
}

TEST_CASE("ImageFolder: folders that are no data set, and images of another size") {
  const Animals animals;
  const TemporaryFolder& folder = animals.folder;
  write_bytes(folder / "dogs/large.png", grey_image(1, {"\x01"}));
  const nn::ImageFolder data(folder.path());
  CHECK_THROWS_WITH_AS(
      data.collate(std::vector<int64_t>{3}, {}),
      doctest::Contains("large.png' has 1 × 1 pixels, but the first image 2 × 1; linnet does not resize"),
      ShapeError);

  std::filesystem::create_directory(folder / "birds");
  const auto refused = [&](const std::filesystem::path& root) {
    try {
      const nn::ImageFolder never(root);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(refused(folder.path()).find("birds' has no .png files; linnet reads PNG") != std::string::npos);
  write_bytes(folder / "birds/tit.jpg", "JFIF");
  CHECK(refused(folder.path()).find("has no .png files, but 'tit.jpg'") != std::string::npos);
  CHECK(refused(folder / "dogs/beagle").find("has no folders; put the images of each class") != std::string::npos);
  CHECK(refused(folder / "nowhere").find("cannot list '") != std::string::npos);
  CHECK_THROWS_AS(nn::ImageFolder(folder.path(), {.channels = 5}), ValueError);
  write_bytes(folder / "birds/a.png", "no image");
  CHECK(refused(folder.path()).find("a.png' is damaged") != std::string::npos);
}

}  // namespace linnet::test
