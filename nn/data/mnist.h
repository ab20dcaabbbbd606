#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// Grey images of 28×28 pixels with a label from 0 to 9. A batch is float32 [B, 784], normalised with MNIST's mean
/// 0.1307 and standard deviation 0.3081, and int64 [B].
class Digits : public Dataset {
 public:
  static constexpr int64_t kSide = 28;
  static constexpr int64_t kPixels = kSide * kSide;
  static constexpr int64_t kClasses = 10;

  /// `pixels` holds kPixels bytes an image, row by row. Throws ValueError when the counts differ or a label is
  /// above 9.
  Digits(std::vector<uint8_t> pixels, std::vector<uint8_t> labels);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  /// As they were given.
  std::span<const uint8_t> pixels() const { return pixels_; }
  std::span<const uint8_t> labels() const { return labels_; }

  /// Moves every image by a random whole number of pixels, at most `pixels` each way, filling in black. 0 for none.
  /// Throws ValueError below that.
  void set_shift(int64_t pixels);

 private:
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int64_t shift_ = 0;
};

/// MNIST (LeCun et al. 1998): 60,000 images to train and 10,000 to test.
struct Mnist {
  /// Reads the four IDX files of `folder`, plain or `.gz`. Throws IoError naming the file that is missing, damaged or
  /// not what MNIST holds.
  explicit Mnist(const std::filesystem::path& folder, Where where = {});

  Digits train;
  Digits test;
};

/// A stand-in for MNIST where there is none: digits drawn as strokes, turned, slanted, bent, scaled and moved at
/// random, with pens of random width. Image `i` is of digit `i` modulo 10, and depends on the seed and `i` alone.
/// Throws ValueError for a count below 0.
Digits drawn_digits(int64_t count, uint64_t seed);

}  // namespace linnet::nn
