#include <linnet/nn/data/image_folder.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <png.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/file_errors.h>
#include <linnet/core/files/read_file.h>
#include <linnet/nn/data/check_index.h>
#include <linnet/nn/data/class_numbers.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kColours = 4;  // RGB and alpha; libpng converts every image to these
constexpr int64_t kMostPixels = int64_t{1} << 26;

/// libpng's view of an image in memory, freed at the end.
struct PngImage : png_image {
  explicit PngImage(const std::string& bytes) : png_image{} {
    version = PNG_IMAGE_VERSION;
    png_image_begin_read_from_memory(this, bytes.data(), bytes.size());
    format = PNG_FORMAT_RGBA;
    flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit values are sRGB, like 8-bit ones, and not linear
  }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  ~PngImage() { png_image_free(this); }

  bool has_failed() const { return PNG_IMAGE_FAILED(*this); }
};

/// The 8-bit colours of an image, H × W × 4.
struct Pixels {
  int64_t height = 0, width = 0;
  std::vector<png_byte> colours;
};

Pixels pixels_of(const fs::path& path) {
  const detail::FileErrors errors{path.string(), "a PNG file"};
  const std::string bytes = detail::read_file(path);
  PngImage image(bytes);
  if (image.has_failed()) errors.damaged(image.message);
  Pixels pixels{image.height, image.width, {}};
  // A small file can claim to hold a huge image.
  if (pixels.width > kMostPixels / pixels.height) {
    errors.refused(fmt::format("{} × {} pixels, more than the {} that are read; cut it into parts", pixels.width,
                               pixels.height, kMostPixels));
  }
  // Deflate compresses at most 1,032 bytes into one, and a pixel takes at least one bit.
  if (pixels.width > 8 * 1032 * std::ssize(bytes) / pixels.height) {
    errors.damaged(fmt::format("{} × {} pixels in {} bytes", pixels.width, pixels.height, bytes.size()));
  }
  pixels.colours.resize(static_cast<size_t>(kColours * pixels.width * pixels.height));
  if (png_image_finish_read(&image, nullptr, pixels.colours.data(), 0, nullptr) == 0) errors.damaged(image.message);
  return pixels;
}

void check_channels(int64_t channels) {
  if (channels == 1 || channels == 3 || channels == 4) return;
  throw ValueError(fmt::format("channels must be 1, 3 or 4, not {}", channels));
}

Shape shape_of(const Pixels& pixels, int64_t channels) { return {channels, pixels.height, pixels.width}; }

/// Writes the image's channels one after the other.
void write_planes(const Pixels& pixels, int64_t channels, float* to) {
  const auto plane = static_cast<size_t>(pixels.height * pixels.width);
  const png_byte* colour = pixels.colours.data();
  for (size_t i = 0; i < plane; ++i, colour += kColours) {
    if (channels == 1) {
      to[i] = (0.299F * colour[0] + 0.587F * colour[1] + 0.114F * colour[2]) / 255;
    } else {
      for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
        to[c * plane + i] = static_cast<float>(colour[c]) / 255;
    }
  }
}

bool is_png(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  return extension == ".png";
}

/// The .png files in a class's folder and below, sorted.
std::vector<fs::path> png_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::string other;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_directory()) continue;
    if (is_png(entry.path())) {
      found.push_back(entry.path());
    } else {
      other = entry.path().filename().string();
    }
  }
  if (found.empty()) {
    throw ValueError(fmt::format("the class '{}' has no .png files{}; linnet reads PNG, so convert the images",
                                 folder.string(), other.empty() ? "" : fmt::format(", but '{}'", other)));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

Tensor read_png(const fs::path& path, int64_t channels, Where where) {
  const Call call("read_png", where);
  check_channels(channels);
  const Pixels pixels = pixels_of(path);
  Tensor image = Tensor::empty(shape_of(pixels, channels), DType::float32);
  write_planes(pixels, channels, image.mutable_data<float>().data());
  return image;
}

ImageFolder::ImageFolder(const fs::path& root, ImageFolderOptions options, Where where)
    : options_(std::move(options)) {
  const Call call("ImageFolder", where);
  check_channels(options_.channels);
  std::set<std::string> folders;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
      if (entry.is_directory()) folders.insert(entry.path().filename().string());
    }
    if (options_.classes.empty()) options_.classes.assign(folders.begin(), folders.end());
    const detail::ClassNumbers classes(options_.classes);
    for (const std::string& folder : folders) {
      const std::optional<int64_t> label = classes.find(folder);
      if (!label) {
        throw ValueError(fmt::format("the folder '{}' is {}; add it to ImageFolderOptions::classes",
                                     (root / folder).string(), classes.none_of_them()));
      }
      for (const fs::path& path : png_files(root / folder)) images_.push_back({path, *label});
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(fmt::format("cannot list '{}': {}; check that the folder exists and that you may read it",
                              error.path1().string(), error.code().message()));
  }
  if (folders.empty()) {
    throw ValueError(
        fmt::format("'{}' has no folders; put the images of each class into a folder of its name, as in "
                    "'{}'",
                    root.string(), (root / "cat" / "1.png").string()));
  }
  shape_ = shape_of(pixels_of(images_[0].path), options_.channels);
}

Batch ImageFolder::collate(std::span<const int64_t> indices, RandomKey /*key*/) const {
  Batch batch{Tensor::empty({std::ssize(indices), shape_[0], shape_[1], shape_[2]}, DType::float32),
              Tensor::empty({std::ssize(indices)}, DType::int64),
              {}};
  float* input = batch.inputs.mutable_data<float>().data();
  int64_t* target = batch.targets.mutable_data<int64_t>().data();
  for (const int64_t index : indices) {
    detail::check_index(index, size());
    const Image& image = images_[static_cast<size_t>(index)];
    const Pixels pixels = pixels_of(image.path);
    if (shape_of(pixels, options_.channels) != shape_) {
      throw ShapeError(
          fmt::format("'{}' has {} × {} pixels, but the first image {} × {}; linnet does not resize, so bring the "
                      "files to one size",
                      image.path.string(), pixels.width, pixels.height, shape_[2], shape_[1]));
    }
    write_planes(pixels, options_.channels, input);
    input += shape_.numel();
    *target++ = image.label;
  }
  return batch;
}

}  // namespace linnet::nn
