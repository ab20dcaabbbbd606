#include <linnet/nn/data/mnist.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/data/idx.h>

namespace linnet::nn {
namespace {

constexpr float kMean = 0.1307f;
constexpr float kStd = 0.3081f;

/// What keeps these from being examples; empty when nothing does.
std::string problem_with(const std::vector<uint8_t>& pixels, const std::vector<uint8_t>& labels) {
  if (pixels.size() != labels.size() * Digits::kPixels) {
    return fmt::format("{} pixels are not {} for each of {} labels", pixels.size(), Digits::kPixels, labels.size());
  }
  const auto wrong = std::find_if(labels.begin(), labels.end(), [](uint8_t l) { return l >= Digits::kClasses; });
  if (wrong == labels.end()) return "";
  return fmt::format("label {} of example {} is above 9", *wrong, wrong - labels.begin());
}

std::filesystem::path find_part(const std::filesystem::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const std::filesystem::path path = folder / (name + ending);
    if (std::filesystem::exists(path)) return path;
  }
  throw IoError(
      fmt::format("neither {0} nor {0}.gz is in {1}; examples/fetch_data.sh gets them", name, folder.string()));
}

Digits read_digits(const std::filesystem::path& folder, const std::string& part, Where where) {
  const Call call("Mnist", where);
  const std::filesystem::path images_path = find_part(folder, part + "-images-idx3-ubyte");
  const std::filesystem::path labels_path = find_part(folder, part + "-labels-idx1-ubyte");
  IdxArray images = read_idx(images_path);
  IdxArray labels = read_idx(labels_path);
  if (images.shape.rank() != 3 || images.shape[1] != Digits::kSide || images.shape[2] != Digits::kSide) {
    throw IoError(fmt::format("{} has shape {}, not [N, 28, 28]", images_path.string(), to_string(images.shape)));
  }
  if (labels.shape.rank() != 1) {
    throw IoError(fmt::format("{} has shape {}, not [N]", labels_path.string(), to_string(labels.shape)));
  }
  if (const std::string problem = problem_with(images.bytes, labels.bytes); !problem.empty()) {
    throw IoError(fmt::format("{} and {}: {}", images_path.string(), labels_path.filename().string(), problem));
  }
  return {std::move(images.bytes), std::move(labels.bytes)};
}

}  // namespace

Digits::Digits(std::vector<uint8_t> pixels, std::vector<uint8_t> labels)
    : pixels_(std::move(pixels)), labels_(std::move(labels)) {
  if (const std::string problem = problem_with(pixels_, labels_); !problem.empty()) throw ValueError(problem);
}

void Digits::set_shift(int64_t pixels) {
  if (pixels < 0) throw ValueError(fmt::format("set_shift: {} pixels; it must be at least 0", pixels));
  shift_ = pixels;
}

Batch Digits::collate(std::span<const int64_t> indices, RandomKey key) const {
  const auto count = static_cast<int64_t>(indices.size());
  Tensor images = Tensor::empty({count, kPixels});
  Tensor labels = Tensor::empty({count}, DType::int64);
  float* out = images.mutable_data<float>().data();
  int64_t* label = labels.mutable_data<int64_t>().data();
  const auto offset = [&](int64_t draw) {
    const auto range = static_cast<uint64_t>(2 * shift_ + 1);
    return static_cast<int64_t>((random_word(key, static_cast<uint64_t>(draw)) * range) >> 32) - shift_;
  };
  for (int64_t b = 0; b < count; ++b) {
    const auto index = static_cast<size_t>(indices[static_cast<size_t>(b)]);
    if (index >= labels_.size())
      throw IndexError(fmt::format("example {} of {}", indices[static_cast<size_t>(b)], size()));
    label[b] = labels_[index];
    const uint8_t* image = pixels_.data() + index * kPixels;
    const int64_t down = offset(2 * b);
    const int64_t right = offset(2 * b + 1);
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const int64_t from_y = y - down;
        const int64_t from_x = x - right;
        const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
        const float value = inside ? static_cast<float>(image[from_y * kSide + from_x]) / 255.0f : 0.0f;
        *out++ = (value - kMean) / kStd;
      }
    }
  }
  return {images, labels};
}

Mnist::Mnist(const std::filesystem::path& folder, Where where)
    : train(read_digits(folder, "train", where)), test(read_digits(folder, "t10k", where)) {}

}  // namespace linnet::nn
