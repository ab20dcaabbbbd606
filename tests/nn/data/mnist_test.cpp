#include <linnet/nn/data/mnist.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <linnet/core/error.h>
#include <linnet/nn/data/loader.h>

#include "tests/nn/data/idx_file.h"
#include "tests/support/files.h"
#include "tests/support/real_data.h"

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr RandomKey kKey{1, 2};
constexpr int64_t kSide = 28, kPixels = kSide * kSide;

/// Two images: one with a single white pixel at row 3, column 5, and one that is all grey.
nn::LabelledImages two_digits() {
  std::vector<uint8_t> pixels(2 * kPixels, 0);
  pixels[3 * kSide + 5] = 255;
  std::fill(pixels.begin() + kPixels, pixels.end(), uint8_t{51});
  return {pixels, {7, 0}};
}

/// Writes the four files of MNIST with `count` images each. The labels are 0, 1, 2, …
void write_mnist(const TemporaryFolder& folder, uint32_t count) {
  std::string labels;
  for (uint32_t i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  const std::string pixels(count * kPixels, '\x10');
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(folder / (part + "-images-idx3-ubyte"), idx_bytes({count, 28, 28}, pixels));
    write_bytes(folder / (part + "-labels-idx1-ubyte.gz"), gzipped(idx_bytes({count}, labels)));
  }
}

/// How often each label occurs.
std::array<int64_t, 10> label_counts(const nn::LabelledImages& digits) {
  std::vector<int64_t> all(static_cast<size_t>(digits.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  std::array<int64_t, 10> counts{};
  for (const int64_t label : digits.collate(all, kKey).targets.data<int64_t>())
    ++counts.at(static_cast<size_t>(label));
  return counts;
}

}  // namespace

TEST_CASE("LabelledImages: a batch is normalised pixels and labels, in the order asked for") {
  const nn::LabelledImages digits = two_digits();
  const std::array<int64_t, 3> wanted{1, 0, 1};
  const nn::Batch batch = digits.collate(wanted, kKey);
  CHECK(batch.inputs.shape() == Shape{3, 784});
  CHECK(batch.inputs.dtype() == DType::float32);
  CHECK(batch.targets.dtype() == DType::int64);
  const auto labels = batch.targets.data<int64_t>();
  CHECK(std::vector<int64_t>(labels.begin(), labels.end()) == std::vector<int64_t>{0, 7, 0});
  const auto pixels = batch.inputs.data<float>();
  CHECK(pixels[0] == doctest::Approx((0.2 - 0.1307) / 0.3081));
  CHECK(pixels[784] == doctest::Approx(-0.1307 / 0.3081));
  CHECK(pixels[784 + 3 * 28 + 5] == doctest::Approx((1 - 0.1307) / 0.3081));
}

TEST_CASE("LabelledImages: a shift moves whole images, within its bound, by the key alone") {
  nn::LabelledImages digits = two_digits();
  digits.set_shift(2);
  const std::array<int64_t, 1> first{0};
  std::map<int64_t, int> places;
  for (uint64_t stream = 0; stream < 400; ++stream) {
    const Tensor image = digits.collate(first, {5, stream}).inputs;
    const auto pixels = image.data<float>();
    const auto brightest = std::max_element(pixels.begin(), pixels.end()) - pixels.begin();
    CHECK(*(pixels.begin() + brightest) == doctest::Approx((1 - 0.1307) / 0.3081));
    CHECK(std::abs(brightest / 28 - 3) <= 2);
    CHECK(std::abs(brightest % 28 - 5) <= 2);
    ++places[brightest];
  }
  CHECK(places.size() == 25);  // every possible place, each about 16 times
  for (const auto& [place, count] : places) CHECK(count < 50);

  const Tensor once = digits.collate(first, {5, 1}).inputs;
  const Tensor again = digits.collate(first, {5, 1}).inputs;
  CHECK(std::ranges::equal(once.data<float>(), again.data<float>()));
}

TEST_CASE("LabelledImages: what does not fit together is refused") {
  using Bytes = std::vector<uint8_t>;
  CHECK_THROWS_WITH_AS(nn::LabelledImages(Bytes(2 * 784), Bytes(3)),
                       doctest::Contains("1568 pixels are not 784 for each of 3"), ValueError);
  CHECK_THROWS_WITH_AS(nn::LabelledImages(Bytes(2 * 784), Bytes(2), 28, 27),
                       doctest::Contains("1568 pixels are not 756 for each of 2"), ValueError);
  CHECK_THROWS_WITH_AS(nn::LabelledImages({}, {}, 0, 28), doctest::Contains("images of 0×28 pixels are empty"),
                       ValueError);
  nn::LabelledImages digits = two_digits();
  CHECK_THROWS_WITH_AS(digits.set_shift(-1), doctest::Contains("set_shift: -1 pixels; it must be at least 0"),
                       ValueError);
  const std::array<int64_t, 1> behind{2}, before{-1};
  CHECK_THROWS_WITH_AS(two_digits().collate(behind, kKey), doctest::Contains("example 2 of 2"), IndexError);
  CHECK_THROWS_WITH_AS(two_digits().collate(before, kKey), doctest::Contains("example -1 of 2"), IndexError);
}

TEST_CASE("Mnist: reads plain and gzip files") {
  const TemporaryFolder folder;
  write_mnist(folder, 20);
  const nn::Mnist mnist(folder.path());
  CHECK(mnist.train.size() == 20);
  CHECK(mnist.test.size() == 20);
  CHECK(label_counts(mnist.train) == std::array<int64_t, 10>{2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
}

TEST_CASE("Mnist: names the file that is missing or wrong") {
  const TemporaryFolder folder;
  const auto images = folder / "train-images-idx3-ubyte";
  const auto labels = folder / "train-labels-idx1-ubyte.gz";
  const auto refused = [&](const char* part) {
    CHECK_THROWS_WITH_AS(nn::Mnist{folder.path()}, doctest::Contains(part), IoError);
    CHECK_THROWS_WITH_AS(nn::Mnist{folder.path()}, doctest::Contains("(mnist_test.cpp:"), IoError);
    write_mnist(folder, 20);
  };
  refused("no train-images-idx3-ubyte is in");
  std::filesystem::remove(labels);
  refused("no train-labels-idx1-ubyte is in");
  write_bytes(images, idx_bytes({20, 28 * 28}, std::string(20 * 784, 'x')));
  refused("train-images-idx3-ubyte has shape [20, 784], not [N, height, width]");
  write_bytes(images, idx_bytes({20, 28, 29}, std::string(20 * 28 * 29, 'x')));
  refused("has images of 28×29 pixels to train and of 28×28 to test");
  write_bytes(images, idx_bytes({19, 28, 28}, std::string(19 * 784, 'x')));
  refused("train-labels-idx1-ubyte.gz: 14896 pixels are not 784 for each of 20 labels");
  write_bytes(labels, gzipped(idx_bytes({20, 1}, std::string(20, '\0'))));
  refused("train-labels-idx1-ubyte.gz has shape [20, 1], not [N]");
}

TEST_CASE("Mnist: the files' names in circulation, and gzip told by its first bytes") {
  const std::string images = idx_bytes({1, 2, 2}, "abcd"), labels = idx_bytes({1}, std::string(1, '\5'));
  const auto reads = [&](const std::vector<std::string>& names, bool packed) {
    CAPTURE(names.front());
    const TemporaryFolder folder;
    for (const std::string& name : names) {
      const std::string& bytes = name.find("images") != std::string::npos ? images : labels;
      write_bytes(folder / name, packed ? gzipped(bytes) : bytes);
    }
    const nn::Mnist mnist(folder.path());
    CHECK(mnist.train.labels()[0] == 5);
    CHECK(mnist.test.pixels()[3] == 'd');
  };
  for (const std::string dot : {"-", "."}) {
    for (const std::string prefix : {"", "emnist-letters-"}) {
      for (const std::string half : {"t10k", "test"}) {
        for (const std::string end : {"", ".gz"}) {
          std::vector<std::string> names;
          for (const std::string& part : {std::string("train"), half}) {
            names.push_back(prefix + part + "-images" + dot + "idx3-ubyte" + end);
            names.push_back(prefix + part + "-labels" + dot + "idx1-ubyte" + end);
          }
          reads(names, true);
          reads(names, false);
        }
      }
    }
  }
}

TEST_CASE("Mnist: files of several data sets in one folder are refused; those of MNIST's own names come first") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& prefix) {
    for (const std::string part : {"train", "test"}) {
      write_bytes(folder / (prefix + part + "-images-idx3-ubyte"), idx_bytes({1, 1, 1}, "x"));
      write_bytes(folder / (prefix + part + "-labels-idx1-ubyte"), idx_bytes({1}, "0"));
    }
  };
  write("emnist-digits-");
  CHECK(nn::Mnist(folder.path()).train.size() == 1);
  write("emnist-letters-");
  CHECK_THROWS_WITH_AS(
      nn::Mnist{folder.path()},
      doctest::Contains("holds several data sets: emnist-digits, emnist-letters; put the four files"), IoError);
  write("");
  CHECK(nn::Mnist(folder.path()).train.size() == 1);
}

TEST_CASE("Mnist: other sizes and classes, and images stored column by column") {
  const TemporaryFolder folder;
  for (const std::string part : {"train", "test"}) {
    write_bytes(folder / (part + "-images-idx3-ubyte"), idx_bytes({2, 2, 3}, "abcdefABCDEF"));
    write_bytes(folder / (part + "-labels-idx1-ubyte"), idx_bytes({2}, part == "train" ? "\1\2" : "\2\75"));
  }
  const nn::Mnist mnist(folder.path());
  CHECK(mnist.train.height() == 2);
  CHECK(mnist.train.width() == 3);
  CHECK(nn::class_count(mnist.train, mnist.test) == 62);
  const std::array<int64_t, 2> both{0, 1};
  CHECK(mnist.train.collate(both, kKey).inputs.shape() == Shape{2, 6});
  const nn::Mnist turned(folder.path(), {.transpose = true});
  CHECK(turned.train.height() == 3);
  CHECK(turned.train.width() == 2);
  CHECK(std::string(turned.train.pixels().begin(), turned.train.pixels().end()) == "adbecfADBECF");
}

TEST_CASE("Mnist: an empty data set is an error of the loader, which names it") {
  const TemporaryFolder folder;
  write_mnist(folder, 0);
  const nn::Mnist mnist(folder.path());
  CHECK(mnist.train.size() == 0);
  CHECK_THROWS_WITH_AS(nn::Loader(mnist.train, {}), doctest::Contains("the data set is empty"), ValueError);
}

TEST_CASE("drawn_digits: ten classes alike in number, an image depends on seed and index alone") {
  const nn::LabelledImages few = nn::drawn_digits(30, 1), many = nn::drawn_digits(50, 1),
                           others = nn::drawn_digits(30, 2);
  CHECK(label_counts(few) == std::array<int64_t, 10>{3, 3, 3, 3, 3, 3, 3, 3, 3, 3});
  std::array<int64_t, 30> first;
  std::iota(first.begin(), first.end(), int64_t{0});
  const Tensor a = few.collate(first, kKey).inputs, b = many.collate(first, kKey).inputs,
               c = others.collate(first, kKey).inputs;
  CHECK(std::ranges::equal(a.data<float>(), b.data<float>()));
  CHECK_FALSE(std::ranges::equal(a.data<float>(), c.data<float>()));
}

TEST_CASE("drawn_digits: dark, with ink, whole within the frame, and no two alike") {
  const nn::LabelledImages digits = nn::drawn_digits(200, 3);
  std::vector<std::vector<float>> seen;
  for (int64_t i = 0; i < digits.size(); ++i) {
    CAPTURE(i);
    const std::array<int64_t, 1> one{i};
    const Tensor image = digits.collate(one, kKey).inputs;
    const auto pixels = image.data<float>();
    const float dark = -0.1307f / 0.3081f;
    int64_t inked = 0, on_edge = 0;
    for (int64_t p = 0; p < 784; ++p) {
      const bool ink = pixels[static_cast<size_t>(p)] > dark + 1.6f;  // half of white
      inked += ink;
      on_edge += ink && (p / 28 == 0 || p / 28 == 27 || p % 28 == 0 || p % 28 == 27);
    }
    CHECK(inked > 20);
    CHECK(inked < 300);
    CHECK(on_edge == 0);
    std::vector<float> copy(pixels.begin(), pixels.end());
    CHECK(std::find(seen.begin(), seen.end(), copy) == seen.end());
    seen.push_back(std::move(copy));
  }
}

TEST_CASE("drawn_digits: in the middle of the frame on average") {
  constexpr int64_t kCount = 400;
  const nn::LabelledImages digits = nn::drawn_digits(kCount, 5);
  double rows = 0, columns = 0;  // Σ first + last one with ink
  for (int64_t i = 0; i < kCount; ++i) {
    const std::array<int64_t, 1> one{i};
    const Tensor image = digits.collate(one, kKey).inputs;
    std::vector<int64_t> inked_rows, inked_columns;
    for (int64_t p = 0; p < kPixels; ++p) {
      if (image.data<float>()[static_cast<size_t>(p)] <= 0) continue;
      inked_rows.push_back(p / kSide);
      inked_columns.push_back(p % kSide);
    }
    rows += static_cast<double>(inked_rows.front() + inked_rows.back());
    const auto [left, right] = std::ranges::minmax(inked_columns);
    columns += static_cast<double>(left + right);
  }
  CHECK(std::abs(rows / kCount - (kSide - 1)) < 0.5);
  CHECK(std::abs(columns / kCount - (kSide - 1)) < 0.5);
}

TEST_CASE("MNIST as published: 60,000 and 10,000 images with the known numbers of each digit") {
  const auto folder = real_data("mnist");
  if (!folder) return;
  const nn::Mnist mnist(*folder);
  CHECK(label_counts(mnist.train) ==
        std::array<int64_t, 10>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  CHECK(label_counts(mnist.test) == std::array<int64_t, 10>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});

  double sum = 0;
  nn::Loader loader(mnist.train, {.batch = 1000, .shuffle = false});
  for (const nn::Batch& batch : loader) {
    for (const float pixel : batch.inputs.data<float>()) sum += pixel;
  }
  CHECK(std::abs(sum / (60000 * 784)) < 1e-3);  // the mean is as it should be after normalising
}

TEST_CASE("Mnist: sizes whose product overflows are refused") {
  const int64_t side = int64_t{1} << 31, most = (int64_t{1} << 32) - 1;
  CHECK_THROWS_AS(nn::LabelledImages({}, {0, 0, 0, 0}, side, side), ValueError);
  CHECK_THROWS_AS(nn::LabelledImages({}, {}, most, most), ValueError);
  CHECK_THROWS_WITH_AS(nn::LabelledImages({}, {}, int64_t{1} << 40, int64_t{1} << 40), doctest::Contains("too large"),
                       ValueError);
}
