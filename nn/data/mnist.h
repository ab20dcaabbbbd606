#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// Grey images of one size, each with a label. Pixels are normalised with MNIST's mean 0.1307 and standard deviation
/// 0.3081.
///
/// Shapes: inputs of a batch [B, height·width], row by row; targets [B].
/// Dtypes: inputs float32, targets int64.
class LabelledImages : public Dataset {
 public:
  /// `pixels` holds height·width bytes for each image, row by row.
  ///
  /// Throws: ValueError for a size below 1, and when the counts differ.
  LabelledImages(std::vector<uint8_t> pixels, std::vector<uint8_t> labels, int64_t height = 28, int64_t width = 28);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  int64_t height() const { return height_; }  ///< rows of an image
  int64_t width() const { return width_; }    ///< columns of an image
  /// The pixels and labels given to the constructor.
  std::span<const uint8_t> pixels() const { return pixels_; }
  std::span<const uint8_t> labels() const { return labels_; }

  /// Moves every image by a random whole number of pixels, at most `pixels` in each direction, and fills in black. 0
  /// moves none.
  ///
  /// Throws: ValueError for `pixels` below 0.
  void set_shift(int64_t pixels);

 private:
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int64_t height_, width_;
  int64_t shift_ = 0;
};

/// The number of classes of a model for both data sets: one more than the highest label.
int64_t class_count(const LabelledImages& train, const LabelledImages& test);

/// Options of Mnist.
struct MnistOptions {
  bool transpose = false;  ///< the files hold images column by column, as EMNIST's do
};

/// MNIST, with 60,000 images for training and 10,000 for testing, or other data in the same format, such as
/// Fashion-MNIST and EMNIST.
///
/// Source: LeCun et al. 1998.
struct Mnist {
  /// Reads the four IDX files of `folder`: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, and the same with
  /// `t10k` or `test` in place of `train`. They may have a `.` before `idx`, end in `.gz` and begin with the name of
  /// a data set, as in `emnist-letters-train-images-idx3-ubyte.gz`. Gzip is detected by the first bytes.
  ///
  /// Throws: IoError, with its name, for a file that is missing or damaged; for files of several data sets in one
  /// folder; and when images and labels do not match.
  explicit Mnist(const std::filesystem::path& folder, const MnistOptions& options = {}, Where where = {});

  LabelledImages train;  ///< the images to train on
  LabelledImages test;   ///< the images to test with
};

/// A substitute for MNIST when its files are not available. Digits are drawn as strokes, randomly rotated, slanted,
/// bent, scaled and moved, with pens of random width. Image `i` shows digit `i` modulo 10, and depends on the seed
/// and `i` alone.
///
/// Throws: ValueError for a count below 0.
LabelledImages drawn_digits(int64_t count, uint64_t seed);

}  // namespace linnet::nn
