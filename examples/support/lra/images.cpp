#include "support/lra/images.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/files/read_file.h>

#include "support/lra/public_set.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kClasses = 10;
constexpr int64_t kCifarSide = 32;

const PublicSet kCifar{.name = "CIFAR-10",
                       .folder = "cifar-10-batches-bin",
                       .file = "data_batch_1.bin",
                       .files = "data_batch_{1..5}.bin, test_batch.bin",
                       .source = "published at https://www.cs.toronto.edu/~kriz/cifar.html, the binary version",
                       .stand_in = "Fashion-MNIST"};

/// Whether a folder has images in MNIST's format, whose files have several usual names.
bool holds_mnist(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator files(folder, error);
  return !error && std::any_of(begin(files), end(files), [](const fs::directory_entry& file) {
    return file.path().filename().string().find("train-images") != std::string::npos;
  });
}

const PublicSet kMnist{.name = "MNIST",
                       .folder = "mnist",
                       .file = "",
                       .files = "{train,t10k}-{images-idx3,labels-idx1}-ubyte",
                       .source = "fetched by examples/fetch_data.sh",
                       .stand_in = "drawn digits",
                       .is_in = holds_mnist};

/// Where Debian's package dataset-fashion-mnist puts the files.
constexpr const char* kDebianFashion = "/usr/share/datasets/fashion-mnist";

/// Grey images of one size.
struct GreyImages {
  std::vector<uint8_t> pixels, labels;
};

/// Appends the images of a file of records: a label, and 1,024 bytes each of red, green and blue.
void append_cifar(GreyImages& images, const fs::path& path) {
  constexpr size_t kPixels = kCifarSide * kCifarSide, kRecord = 1 + 3 * kPixels;
  const std::string bytes = linnet::detail::read_file(path);
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    throw IoError(
        fmt::format("{} has {} bytes, which are no whole number of records of {}: it is truncated or of "
                    "another format; fetch it again",
                    path.string(), bytes.size(), kRecord));
  }
  for (size_t begin = 0; begin < bytes.size(); begin += kRecord) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[begin + i]); };
    if (byte(0) >= kClasses) {
      throw IoError(
          fmt::format("{}: byte {} is the label {}; labels are 0 to 9. It is damaged or of another format; "
                      "fetch it again",
                      path.string(), begin, byte(0)));
    }
    images.labels.push_back(byte(0));
    for (size_t i = 1; i <= kPixels; ++i) {
      const double grey = 0.2989 * byte(i) + 0.587 * byte(kPixels + i) + 0.114 * byte(2 * kPixels + i);
      images.pixels.push_back(static_cast<uint8_t>(std::floor(grey * 255.5 / 255)));
    }
  }
}

GreyImages read_cifar(const fs::path& folder, const std::vector<std::string>& files) {
  GreyImages images;
  for (const std::string& file : files) append_cifar(images, folder / file);
  return images;
}

/// Images in MNIST's format, whose labels must be below 10.
GreyImages with_ten_classes(const nn::LabelledImages& images, const std::string& where) {
  for (size_t i = 0; i < images.labels().size(); ++i) {
    if (images.labels()[i] < kClasses) continue;
    throw IoError(fmt::format("{}: image {} has the label {}; labels are 0 to 9", where, i, images.labels()[i]));
  }
  return {{images.pixels().begin(), images.pixels().end()}, {images.labels().begin(), images.labels().end()}};
}

LabelledSequences to_tokens(const GreyImages& images, int64_t height, int64_t width, const Settings& settings) {
  const std::vector<uint8_t> pixels = downsampled(images.pixels, height, width, settings.lra.downsample);
  const size_t length = images.labels.empty() ? 0 : pixels.size() / images.labels.size();
  ByteSequences sequences;
  for (size_t i = 0; i < images.labels.size(); ++i) sequences.append(std::span(pixels).subspan(i * length, length));
  const Ids ids = settings.lra.black_is_padding ? Ids::zero_is_padding : Ids::byte_plus_one;
  return {std::move(sequences), images.labels, {}, ids};
}

/// The first 90 % of the images, and the rest.
std::pair<GreyImages, GreyImages> split_off_dev(const GreyImages& all) {
  const auto count = std::ssize(all.labels), first = count * 9 / 10;
  const auto pixels = count == 0 ? 0 : std::ssize(all.pixels) / count * first;
  return {{{all.pixels.begin(), all.pixels.begin() + pixels}, {all.labels.begin(), all.labels.begin() + first}},
          {{all.pixels.begin() + pixels, all.pixels.end()}, {all.labels.begin() + first, all.labels.end()}}};
}

SequenceData with_dev(std::string name, const GreyImages& train, const GreyImages& test, int64_t height,
                      int64_t width, const Settings& settings) {
  const auto [rest, dev] = split_off_dev(train);
  return {.name = std::move(name),
          .train = to_tokens(rest, height, width, settings),
          .dev = to_tokens(dev, height, width, settings),
          .test = to_tokens(test, height, width, settings)};
}

SequenceData from_mnist(const nn::LabelledImages& train, const nn::LabelledImages& test, const std::string& where,
                        const std::string& name, const Settings& settings) {
  return with_dev(name, with_ten_classes(train, where + ", to train"), with_ten_classes(test, where + ", to test"),
                  train.height(), train.width(), settings);
}

/// The folder of Fashion-MNIST.
FoundData find_fashion(Settings settings) {
  settings.began_with_stand_in = false;  // this is the stand-in
  const std::string name = "fashion-mnist";
  for (const char* file : {"train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"}) {
    if (auto found = find_data(settings, name, file)) return *found;
  }
  if (fs::exists(kDebianFashion)) return {kDebianFashion, name};
  throw IoError(
      fmt::format("--stand-in: no Fashion-MNIST in {}, nor in {}/ of the data folders; install Debian's package "
                  "dataset-fashion-mnist",
                  kDebianFashion, name));
}

}  // namespace

void check_downsample(int64_t height, int64_t width, int64_t factor) {
  if (factor < 1 || height % factor != 0 || width % factor != 0) {
    throw UsageError(fmt::format("--downsample {}: does not divide images of {}×{} pixels; choose a divisor of both",
                                 factor, height, width));
  }
}

std::vector<uint8_t> downsampled(std::span<const uint8_t> pixels, int64_t height, int64_t width, int64_t factor) {
  check_downsample(height, width, factor);
  const int64_t rows = std::ssize(pixels) / width, of_mean = factor * factor;
  std::vector<uint8_t> means;
  means.reserve(pixels.size() / static_cast<size_t>(of_mean));
  for (int64_t top = 0; top < rows; top += factor) {
    for (int64_t left = 0; left < width; left += factor) {
      int64_t sum = of_mean / 2;  // rounds half up
      for (int64_t i = 0; i < of_mean; ++i) {
        sum += pixels[static_cast<size_t>((top + i / factor) * width + left + i % factor)];
      }
      means.push_back(static_cast<uint8_t>(sum / of_mean));
    }
  }
  return means;
}

SequenceData load_cifar(const Settings& settings) {
  if (const auto found = find_public(settings, kCifar)) {
    const GreyImages train = read_cifar(found->path, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                      "data_batch_4.bin", "data_batch_5.bin"});
    const GreyImages test = read_cifar(found->path, {"test_batch.bin"});
    const std::string name =
        name_by_content({std::as_bytes(std::span(train.pixels)), std::as_bytes(std::span(train.labels)),
                         std::as_bytes(std::span(test.pixels)), std::as_bytes(std::span(test.labels))},
                        found->name);
    return with_dev(name, train, test, kCifarSide, kCifarSide, settings);
  }
  const FoundData fashion = find_fashion(settings);
  const nn::Mnist images(fashion.path);
  return from_mnist(images.train, images.test, fashion.path.string(), "stand-in: " + name_of(images, fashion.name),
                    settings);
}

SequenceData load_digits(const Settings& settings) {
  if (const auto found = find_public(settings, kMnist)) {
    const nn::Mnist images(found->path);
    return from_mnist(images.train, images.test, found->path.string(), name_of(images, found->name), settings);
  }
  return from_mnist(nn::drawn_digits(10000, 1), nn::drawn_digits(2000, 2), kMnist.stand_in,
                    "stand-in: " + kMnist.stand_in, settings);
}

}  // namespace linnet::examples
