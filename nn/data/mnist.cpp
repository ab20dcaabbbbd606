#include <linnet/nn/data/mnist.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/nn/data/check_index.h>
#include <linnet/nn/data/idx.h>
#include <linnet/nn/data/random_choices.h>

namespace linnet::nn {
namespace {

namespace fs = std::filesystem;

constexpr float kMean = 0.1307f;
constexpr float kStd = 0.3081f;

/// The reason why pixels and labels do not fit together; empty if they do.
std::string problem_with(size_t pixels, size_t labels, int64_t height, int64_t width) {
  if (height < 1 || width < 1) return fmt::format("images of {}×{} pixels are empty", height, width);
  int64_t each = 0;
  if (__builtin_mul_overflow(height, width, &each))
    return fmt::format("images of {}×{} pixels are too large", height, width);
  size_t all = 0;
  if (!__builtin_mul_overflow(labels, static_cast<size_t>(each), &all) && pixels == all) return "";
  return fmt::format("{} pixels are not {} for each of {} labels", pixels, each, labels);
}

/// The file of `kind`, an array of `rank` dims, for the half of the data (train or test) that `half` matches.
fs::path find_file(const fs::path& folder, const std::string& half, const std::string& kind, int rank) {
  const std::regex usual(fmt::format("(.*-)?({})-{}[-.]idx{}-ubyte(\\.gz)?", half, kind, rank));
  std::error_code error;
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) files.insert(entry.path());
  if (error) {
    throw IoError(fmt::format("cannot read the folder {}: {}; examples/fetch_data.sh gets MNIST", folder.string(),
                              error.message()));
  }
  std::map<std::string, fs::path> by_data_set;  // a file without .gz takes precedence
  for (const fs::path& file : files) {
    const std::string name = file.filename();
    if (std::smatch match; std::regex_match(name, match, usual)) by_data_set.emplace(match[1], file);
  }
  if (by_data_set.empty()) {
    throw IoError(
        fmt::format("no {}-{}-idx{}-ubyte is in {}, under any of its usual names; examples/fetch_data.sh gets MNIST",
                    half.substr(0, half.find('|')), kind, rank, folder.string()));
  }
  const auto& [prefix, file] = *by_data_set.begin();
  if (by_data_set.size() == 1 || prefix.empty()) return file;
  std::vector<std::string> names;
  names.reserve(by_data_set.size());
  for (const auto& [other, path] : by_data_set) names.push_back(other.substr(0, other.size() - 1));
  throw IoError(fmt::format("{} holds several data sets: {}; put the four files of one into a folder of their own",
                            folder.string(), fmt::join(names, ", ")));
}

/// [N, H, W] → [N, W, H]
IdxArray transposed(const IdxArray& images) {
  const int64_t count = images.shape[0], height = images.shape[1], width = images.shape[2];
  IdxArray result{{count, width, height}, std::vector<uint8_t>(images.bytes.size())};
  const uint8_t* from = images.bytes.data();
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* image = result.bytes.data() + i * height * width;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) image[x * height + y] = *from++;
    }
  }
  return result;
}

LabelledImages read_images(const fs::path& folder, const std::string& half, const MnistOptions& options,
                           Where where) {
  const Call call("Mnist", where);
  const fs::path images_path = find_file(folder, half, "images", 3);
  const fs::path labels_path = find_file(folder, half, "labels", 1);
  IdxArray images = read_idx(images_path);
  IdxArray labels = read_idx(labels_path);
  if (images.shape.rank() != 3) {
    throw IoError(
        fmt::format("{} has shape {}, not [N, height, width]", images_path.string(), to_string(images.shape)));
  }
  if (labels.shape.rank() != 1) {
    throw IoError(fmt::format("{} has shape {}, not [N]", labels_path.string(), to_string(labels.shape)));
  }
  if (options.transpose) images = transposed(images);
  const int64_t height = images.shape[1], width = images.shape[2];
  const std::string problem = problem_with(images.bytes.size(), labels.bytes.size(), height, width);
  if (!problem.empty()) {
    throw IoError(fmt::format("{} and {}: {}", images_path.string(), labels_path.filename().string(), problem));
  }
  return {std::move(images.bytes), std::move(labels.bytes), height, width};
}

}  // namespace

LabelledImages::LabelledImages(std::vector<uint8_t> pixels, std::vector<uint8_t> labels, int64_t height,
                               int64_t width)
    : pixels_(std::move(pixels)), labels_(std::move(labels)), height_(height), width_(width) {
  const std::string problem = problem_with(pixels_.size(), labels_.size(), height, width);
  if (!problem.empty()) throw ValueError(problem);
}

void LabelledImages::set_shift(int64_t pixels) {
  if (pixels < 0) throw ValueError(fmt::format("set_shift: {} pixels; it must be at least 0", pixels));
  shift_ = pixels;
}

Batch LabelledImages::collate(std::span<const int64_t> indices, RandomKey key) const {
  const auto count = static_cast<int64_t>(indices.size());
  Tensor images = Tensor::empty({count, height_ * width_});
  Tensor labels = Tensor::empty({count}, DType::int64);
  float* out = images.mutable_data<float>().data();
  int64_t* label = labels.mutable_data<int64_t>().data();
  for (int64_t b = 0; b < count; ++b) {
    detail::check_index(indices[static_cast<size_t>(b)], size());
    const auto index = static_cast<size_t>(indices[static_cast<size_t>(b)]);
    label[b] = labels_[index];
    const uint8_t* image = pixels_.data() + index * static_cast<size_t>(height_ * width_);
    const auto draw = static_cast<uint64_t>(2 * b);
    detail::shift_plane(image, out + b * height_ * width_, height_, width_, detail::random_offset(key, draw, shift_),
                        detail::random_offset(key, draw + 1, shift_),
                        [](uint8_t pixel) { return (static_cast<float>(pixel) / 255.0f - kMean) / kStd; });
  }
  return {images, labels};
}

int64_t class_count(const LabelledImages& train, const LabelledImages& test) {
  int64_t count = 0;
  for (const auto labels : {train.labels(), test.labels()}) {
    for (const uint8_t label : labels) count = std::max<int64_t>(count, label + 1);
  }
  return count;
}

Mnist::Mnist(const fs::path& folder, const MnistOptions& options, Where where)
    : train(read_images(folder, "train", options, where)), test(read_images(folder, "t10k|test", options, where)) {
  const Call call("Mnist", where);
  if (train.height() == test.height() && train.width() == test.width()) return;
  throw IoError(fmt::format("{} has images of {}×{} pixels to train and of {}×{} to test", folder.string(),
                            train.height(), train.width(), test.height(), test.width()));
}

}  // namespace linnet::nn
