#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <linnet/core/tensor.h>
#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// Reads a PNG file of any kind. libpng converts palettes, greys and 16-bit channels to 8-bit colours, and colours
/// with another gamma to sRGB.
///
/// Shapes: → [channels, H, W]; `channels` are 1 (grey, 0.299 R + 0.587 G + 0.114 B), 3 (RGB) or 4 (RGB and alpha).
/// With 1 and 3, alpha is ignored.
/// Dtypes: → float32 in [0, 1].
/// Throws: ValueError for other channels; IoError for a file that is missing, damaged or not a PNG file, and for more
/// than 2²⁶ pixels.
Tensor read_png(const std::filesystem::path& path, int64_t channels = 3, Where where = {});

/// Options of an ImageFolder.
struct ImageFolderOptions {
  int64_t channels = 3;  ///< as in read_png
  /// The classes in the order of their labels. If none are given, they are the folders, sorted by their bytes. Give
  /// those of the training images for images to test with, which may lack a class.
  std::vector<std::string> classes = {};
};

/// Images of one size with a folder for each class, `root/cat/1.png`, as in torchvision. Each file is read when a
/// batch needs it. Several workers of a Loader read at the same time.
///
///     const nn::ImageFolder data("photos", {.channels = 1});
///     nn::Loader loader(data, {.batch = 64, .num_workers = 4});
///     const nn::ImageFolder test("new_photos", {.channels = 1, .classes = data.classes()});
///
/// Shapes: inputs of a batch [B, channels, H, W], float32 in [0, 1]; targets [B], int64: the index of the class in
/// classes().
class ImageFolder : public Dataset {
 public:
  /// Lists the .png files below each class's folder, and skips other files.
  ///
  /// Throws: ValueError for other channels, for a root without folders, for a folder without .png files, for one that
  /// is none of the given classes and for a class that is given twice; IoError for a root that is not a folder, and
  /// if the first image cannot be read.
  explicit ImageFolder(const std::filesystem::path& root, ImageFolderOptions options = {}, Where where = {});

  int64_t size() const override { return std::ssize(images_); }
  /// Throws: IndexError; IoError for a file that cannot be read; ShapeError for an image of another size than the
  /// first one.
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  /// The names of the classes, in the order of their labels.
  const std::vector<std::string>& classes() const { return options_.classes; }

 private:
  struct Image {
    std::filesystem::path path;
    int64_t label;
  };

  ImageFolderOptions options_;
  std::vector<Image> images_;  // sorted by the folder's name and path
  Shape shape_;                // of each image
};

}  // namespace linnet::nn
