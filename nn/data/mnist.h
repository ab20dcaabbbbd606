#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// Grey images of one size, each with a label. A batch is float32 [B, height·width], row by row, normalised with
/// MNIST's mean 0.1307 and standard deviation 0.3081, and int64 [B].
class LabelledImages : public Dataset {
 public:
  /// `pixels` holds height·width bytes an image, row by row. Throws ValueError for a size below 1, and when the
  /// counts differ.
  LabelledImages(std::vector<uint8_t> pixels, std::vector<uint8_t> labels, int64_t height = 28, int64_t width = 28);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  /// As they were given.
  std::span<const uint8_t> pixels() const { return pixels_; }
  std::span<const uint8_t> labels() const { return labels_; }

  /// Moves every image by a random whole number of pixels, at most `pixels` each way, filling in black. 0 for none.
  /// Throws ValueError below that.
  void set_shift(int64_t pixels);

 private:
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int64_t height_, width_;
  int64_t shift_ = 0;
};

/// One more than the highest label of both, which is the number of classes of a model for them.
int64_t class_count(const LabelledImages& train, const LabelledImages& test);

/// How the files of MNIST's kind are read.
struct MnistOptions {
  bool transpose = false;  ///< the files hold images column by column, as EMNIST's do
};

/// MNIST (LeCun et al. 1998): 60,000 images to train and 10,000 to test. Or other data in files of its kind, such as
/// Fashion-MNIST and EMNIST.
struct Mnist {
  /// Reads the four IDX files of `folder`: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, and the same with
  /// `t10k` or `test` for `train`. They may have a `.` before `idx`, end in `.gz` and begin with a name of the data,
  /// as `emnist-letters-train-images-idx3-ubyte.gz`. What is packed by gzip is told by its first bytes. Throws
  /// IoError naming the file that is missing or damaged, or the files of several data sets in one folder, and when
  /// images and labels do not fit together.
  explicit Mnist(const std::filesystem::path& folder, const MnistOptions& options = {}, Where where = {});

  LabelledImages train;
  LabelledImages test;
};

/// A stand-in for MNIST where there is none: digits drawn as strokes, turned, slanted, bent, scaled and moved at
/// random, with pens of random width. Image `i` is of digit `i` modulo 10, and depends on the seed and `i` alone.
/// Throws ValueError for a count below 0.
LabelledImages drawn_digits(int64_t count, uint64_t seed);

}  // namespace linnet::nn
