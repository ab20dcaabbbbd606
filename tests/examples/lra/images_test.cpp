/// Images as sequences of grey pixels.

#include "support/lra/images.h"

#include <cstdio>

#include <doctest/doctest.h>
#include <linnet/core/error.h>

#include "support/settings/program.h"
#include "tests/examples/lra/surroundings.h"
#include "tests/examples/run/ended_checks.h"
#include "tests/nn/data/idx_file.h"
#include "tests/support/cut_file.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"
#include "tests/support/real_data.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::examples::test::stand_in_hidden;
using linnet::examples::test::Surroundings;
using linnet::test::cut_everywhere;
using linnet::test::gzipped;
using linnet::test::idx_bytes;
using linnet::test::Quiet;
using linnet::test::real_data;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;
using Load = SequenceData (*)(const Settings&);

Settings images_in(const fs::path& data, int64_t downsample = 1) {
  Settings settings;
  settings.data = data;
  settings.lra.downsample = downsample;
  return settings;
}

Bytes bytes_of(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

/// A record of CIFAR-10: an image of one colour with a white first pixel.
std::string record(int label, int red, int green, int blue) {
  std::string bytes{static_cast<char>(label)};
  for (const int channel : {red, green, blue}) bytes += '\xFF' + std::string(1023, static_cast<char>(channel));
  return bytes;
}

/// Two records in each file: the labels 0 to 9 to train, 1 and 2 to test.
void write_cifar(const fs::path& folder) {
  fs::create_directories(folder);
  for (int i = 0; i < 5; ++i) {
    write_bytes(folder / ("data_batch_" + std::to_string(i + 1) + ".bin"),
                record(2 * i, 10 * i, 10 * i, 10 * i) + record(2 * i + 1, 0, 0, 0));
  }
  write_bytes(folder / "test_batch.bin", record(1, 255, 0, 0) + record(2, 0, 255, 0) + record(3, 0, 0, 255));
}

/// 20 images to train and 3 to test of this size; image i has the label i modulo 10 and pixels of i.
void write_mnist(const fs::path& folder, uint32_t height, uint32_t width, int last_label = 2) {
  fs::create_directories(folder);
  for (const std::string part : {"train", "t10k"}) {
    std::string images, labels;
    const uint32_t count = part == "train" ? 20 : 3;
    for (uint32_t i = 0; i < count; ++i) {
      images += std::string(height * width, static_cast<char>(i));
      labels += static_cast<char>(i % 10);
    }
    if (part == "t10k") labels.back() = static_cast<char>(last_label);
    write_bytes(folder / (part + "-images-idx3-ubyte.gz"), gzipped(idx_bytes({count, height, width}, images)));
    write_bytes(folder / (part + "-labels-idx1-ubyte.gz"), gzipped(idx_bytes({count}, labels)));
  }
}

std::string refusal(const Load load, const fs::path& data) {
  try {
    load(images_in(data));
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

void check_part(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("image: CIFAR-10 in grey, nine tenths to train and the rest for dev") {
  const TemporaryFolder folder;
  write_cifar(folder / "cifar-10-batches-bin");
  const SequenceData data = load_cifar(images_in(folder.path()));
  CHECK(data.name.starts_with("cifar-10-batches-bin ("));
  CHECK(bytes_of(data.train.labels()) == Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(bytes_of(data.dev.labels()) == Bytes{9});
  CHECK(bytes_of(data.test.labels()) == Bytes{1, 2, 3});
  CHECK(data.train.lengths() == std::vector<int64_t>(9, 1024));
  const auto grey = [&](const LabelledSequences& part, int64_t i) { return bytes_of(part.first()[i].first(2)); };
  CHECK(grey(data.test, 0) == Bytes{255, 76});   // 0.2989 · 255.5 = 76.4
  CHECK(grey(data.test, 1) == Bytes{255, 149});  // 0.587 · 255.5 = 149.98
  CHECK(grey(data.test, 2) == Bytes{255, 29});   // 0.114 · 255.5 = 29.1
  CHECK(grey(data.train, 4) == Bytes{255, 20});
  CHECK(grey(data.dev, 0) == Bytes{255, 0});

  const std::vector<int64_t> first{0};
  const nn::Batch batch = data.dev.collate(first, {});
  CHECK(batch.inputs.to_vector<int64_t>()[0] == 256);
  CHECK(batch.inputs.to_vector<int64_t>()[1] == 1);
  CHECK(batch.others[0].to_vector<int64_t>()[1] == 1);
  Settings settings = images_in(folder.path());
  settings.lra.black_is_padding = true;
  const nn::Batch hidden = load_cifar(settings).dev.collate(first, {});
  CHECK(hidden.inputs.to_vector<int64_t>()[0] == 255);
  CHECK(hidden.inputs.to_vector<int64_t>()[1] == 0);
  CHECK(hidden.others[0].to_vector<int64_t>()[0] == 1);
  CHECK(hidden.others[0].to_vector<int64_t>()[1] == 0);
}

TEST_CASE("image: a file of CIFAR-10 cut off at any byte is refused, or has fewer images where one ends") {
  const TemporaryFolder folder;
  const fs::path cifar = folder / "cifar-10-batches-bin";
  write_cifar(cifar);
  for (int i = 1; i < 5; ++i) write_bytes(cifar / ("data_batch_" + std::to_string(i) + ".bin"), record(i, 0, 0, 0));
  cut_everywhere(
      cifar / "data_batch_5.bin",
      [&] {
        const SequenceData data = load_cifar(images_in(folder.path()));
        return data.train.size() + data.dev.size();
      },
      [](const std::string& part, const std::optional<int64_t>& images) {
        CHECK(images == (part.size() == 3073 ? std::optional<int64_t>(5) : std::nullopt));
      });
}

TEST_CASE("image: damaged files of CIFAR-10 are refused by name, with the byte") {
  const TemporaryFolder folder;
  const fs::path cifar = folder / "cifar-10-batches-bin";
  write_cifar(cifar);
  write_bytes(cifar / "data_batch_3.bin", record(0, 0, 0, 0) + record(1, 0, 0, 0).substr(0, 3072));
  check_part(refusal(load_cifar, folder.path()),
             (cifar / "data_batch_3.bin").string() + " has 6145 bytes, which are no whole number of records of 3073");
  write_bytes(cifar / "data_batch_3.bin", "");
  check_part(refusal(load_cifar, folder.path()), "data_batch_3.bin has 0 bytes");
  write_bytes(cifar / "data_batch_3.bin", record(9, 0, 0, 0) + record(10, 0, 0, 0));
  check_part(refusal(load_cifar, folder.path()), "data_batch_3.bin: byte 3073 is the label 10; labels are 0 to 9");
  fs::remove(cifar / "data_batch_3.bin");
  check_part(refusal(load_cifar, folder.path()), "data_batch_3.bin': No such file or directory");
  fs::remove_all(cifar);
  fs::create_directories(cifar);  // an empty folder is no set
  check_part(refusal(load_cifar, folder.path()), "no CIFAR-10 (data_batch_{1..5}.bin, test_batch.bin) in ");
  check_part(refusal(load_cifar, folder.path()),
             "; it is published at https://www.cs.toronto.edu/~kriz/cifar.html, the binary version, and --stand-in "
             "goes on with Fashion-MNIST");
}

TEST_CASE("image: Fashion-MNIST stands in for CIFAR-10 only where that is absent, and by name") {
  const TemporaryFolder folder;
  write_mnist(folder / "fashion-mnist", 4, 4);
  const Quiet quiet(STDERR_FILENO);
  check_part(refusal(load_cifar, folder.path()), "no CIFAR-10");
  Settings settings = images_in(folder.path(), 2);
  settings.lra.stand_in = true;
  const SequenceData data = load_cifar(settings);
  CHECK(data.name.starts_with("stand-in: fashion-mnist ("));
  CHECK(data.train.size() == 18);
  CHECK(data.dev.size() == 2);
  CHECK(data.test.size() == 3);
  CHECK(bytes_of(data.dev.first()[1]) == Bytes{19, 19, 19, 19});
  write_cifar(folder / "cifar-10-batches-bin");
  CHECK(load_cifar(settings).name.starts_with("cifar-10-batches-bin ("));
  fs::remove_all(folder / "cifar-10-batches-bin");
  fs::remove_all(folder / "fashion-mnist");
  if (fs::exists("/usr/share/datasets/fashion-mnist")) {
    std::printf("SKIPPED: the error without Fashion-MNIST: Debian's package is installed\n");
    return;
  }
  CHECK_THROWS_WITH_AS(load_cifar(settings), doctest::Contains("install Debian's package dataset-fashion-mnist"),
                       IoError);
}

TEST_CASE("digits: MNIST's pixels one by one") {
  const TemporaryFolder folder;
  write_mnist(folder / "mnist", 4, 6);
  const SequenceData data = load_digits(images_in(folder.path()));
  CHECK(data.name.starts_with("mnist ("));
  CHECK(data.train.lengths() == std::vector<int64_t>(18, 24));
  CHECK(bytes_of(data.dev.labels()) == Bytes{8, 9});
  CHECK(bytes_of(data.test.labels()) == Bytes{0, 1, 2});
  CHECK(bytes_of(data.dev.first()[0]) == Bytes(24, 18));
  CHECK(load_digits(images_in(folder.path(), 2)).test.lengths() == std::vector<int64_t>(3, 6));
  CHECK_THROWS_WITH_AS(load_digits(images_in(folder.path(), 4)),
                       "--downsample 4: does not divide images of 4×6 pixels; choose a divisor of both", UsageError);
  write_mnist(folder / "mnist", 4, 6, 10);
  CHECK(refusal(load_digits, folder.path()) ==
        (folder / "mnist").string() + ", to test: image 2 has the label 10; labels are 0 to 9");
}

TEST_CASE("digits: drawn digits stand in for MNIST only with --stand-in") {
  if (stand_in_hidden("mnist")) return;
  const TemporaryFolder folder;
  const Surroundings surroundings(folder.path(), folder.path());
  const Quiet quiet(STDERR_FILENO);
  check_part(refusal(load_digits, {}),
             "no MNIST ({train,t10k}-{images-idx3,labels-idx1}-ubyte) in a folder mnist/ in ");
  check_part(refusal(load_digits, {}),
             "; it is fetched by examples/fetch_data.sh, and --stand-in goes on with drawn digits");
  Settings settings;
  settings.lra.stand_in = true;
  const SequenceData data = load_digits(settings);
  CHECK(data.name == "stand-in: drawn digits");
  CHECK(data.train.size() == 9000);
  CHECK(data.dev.size() == 1000);
  CHECK(data.test.size() == 2000);
}

TEST_CASE("digits: a folder without images counts as no MNIST, whatever else it holds") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "mnist");
  write_bytes(folder / "notes.txt", "no images");
  const Quiet quiet(STDERR_FILENO);
  Settings settings = images_in(folder.path());
  for (const fs::path& data : {folder.path(), folder / "mnist"}) {
    settings.data = data;
    settings.lra.stand_in = false;
    check_part(refusal(load_digits, data), "no MNIST ({train,t10k}-{images-idx3,labels-idx1}-ubyte) in " +
                                               data.string() + " or " + (data / "mnist").string());
    settings.lra.stand_in = true;
    CHECK(load_digits(settings).name == "stand-in: drawn digits");
  }
  write_mnist(folder / "mnist", 4, 4);
  CHECK(load_digits(settings).name.starts_with("mnist ("));
}

TEST_CASE("digits: the real MNIST") {
  const auto mnist = real_data("mnist");
  if (!mnist) return;
  const SequenceData data = load_digits(images_in(*mnist, 2));
  CHECK(data.name == "MNIST");
  CHECK(data.train.size() == 54000);
  CHECK(data.dev.size() == 6000);
  CHECK(data.test.size() == 10000);
  CHECK(data.test.lengths()[9999] == 196);
}

TEST_CASE("images: means of squares of pixels, rounded half up") {
  const Bytes pixels{0,   1,   10, 20,  //
                     1,   0,   30, 43,  //
                     255, 255, 0,  1,   //
                     255, 255, 1,  1};
  CHECK(downsampled(pixels, 4, 4, 1) == pixels);
  CHECK(downsampled(pixels, 4, 4, 2) == Bytes{1, 26, 255, 1});  // 0.5, 25.75, 255, 0.75
  CHECK(downsampled(pixels, 4, 4, 4) == Bytes{71});             // 70.5
  CHECK(downsampled(pixels, 2, 4, 2) == Bytes{1, 26, 255, 1});  // two images
  CHECK(downsampled(Bytes{1, 2, 5, 6, 1, 4}, 2, 3, 1) == Bytes{1, 2, 5, 6, 1, 4});
  CHECK_THROWS_AS(downsampled(pixels, 4, 4, 3), UsageError);
  CHECK_THROWS_AS(downsampled(pixels, 4, 4, 0), UsageError);
}
