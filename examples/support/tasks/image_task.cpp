#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/format.h"
#include "support/ranks.h"
#include "support/settings/program.h"
#include "support/tasks/data_sets.h"
#include "support/tasks/task.h"

/// An image classifier over patches, on MNIST, on other images in MNIST's file format, or on drawn digits.

namespace linnet::examples {
namespace {

constexpr int64_t kMaxShift = 2;  // pixels: the augmentation of preset mnist-small

/// The tokens of an image.
int64_t patch_count(const NamedImages& data, const Settings& s) {
  const int64_t side = data.train.height() / s.patch;
  return side * side;
}

/// Loads the images. Throws IoError unless they are square and some are for testing, and UsageError if the patches do
/// not tile an image, if the attention's options do not fit their number, or if there are too few images for one
/// batch.
NamedImages images_for(const Settings& s) {
  NamedImages data = load_images(s);
  const int64_t height = data.train.height(), width = data.train.width();
  if (data.test.size() == 0) {
    throw IoError(
        fmt::format("{} has no test images; put some into the files with t10k or test in their names", data.name));
  }
  if (height != width) {
    throw IoError(
        fmt::format("{} has images of {}×{} pixels; the model takes square ones", data.name, height, width));
  }
  if (height % s.patch != 0) {
    std::vector<int64_t> sides;
    for (int64_t side = 1; side <= height; ++side) {
      if (height % side == 0) sides.push_back(side);
    }
    throw UsageError(fmt::format("--patch {}: does not divide images of {} pixels a side; choose one of {}", s.patch,
                                 height, fmt::join(sides, ", ")));
  }
  check_options(s, patch_count(data, s));
  if (s.batch <= data.train.size()) return data;
  throw UsageError(
      fmt::format("--batch {}: there are {} images; lower it", s.batch, format_count(data.train.size())));
}

class ImageTask : public Task {
 public:
  explicit ImageTask(const Settings& s)
      : settings_(s),
        data_(images_for(s)),
        rng_(s.seed),
        model_(rng_, image_model_config(s, data_.train.height(), nn::class_count(data_.train, data_.test)),
               model_dtype(s), device_of(s)),
        loader_(data_.train, {.batch = s.batch, .seed = s.seed, .drop_last = true}) {
    data_.train.set_shift(kMaxShift);
  }

  nn::Module& model() override { return model_; }

  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(model_(batch.inputs), batch.targets); }

  Evaluation evaluate(int64_t batches) override {
    const NoGrad no_grad;
    model_.eval();
    nn::Loader loader(data_.test, {.batch = 250, .shuffle = false, .device = model_.device()});
    const Figures sums = sums_of_batches(batches_to_evaluate(loader, batches), [&](int64_t i) {
      const nn::Batch batch = batch_at(loader, i);
      const Tensor logits = model_(batch.inputs);
      const auto size = static_cast<double>(batch.targets.size(0));
      return Figures{cross_entropy(logits, batch.targets).item<double>() * size,
                     accuracy(logits, batch.targets) * size, size};
    });
    model_.train();
    return {.loss = sums[0] / sums[2], .accuracy = sums[1] / sums[2]};
  }

  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override { return settings_.batch * patch_count(data_, settings_); }
  std::vector<int64_t> lengths() const override { return {patch_count(data_, settings_)}; }
  std::string data_name() const override { return data_.name; }
  std::string sample(int64_t) override { return ""; }

 private:
  Settings settings_;
  NamedImages data_;
  Generator rng_;
  nn::PatchClassifier model_;
  nn::Loader loader_;
};

}  // namespace

nn::PatchClassifierConfig image_model_config(const Settings& s, int64_t side, int64_t classes) {
  return {.side = side,
          .patch = s.patch,
          .classes = classes,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .block = block_config(s),
          .positions = positions_of(s)};
}

std::unique_ptr<Task> make_image_task(const Settings& settings) { return std::make_unique<ImageTask>(settings); }

}  // namespace linnet::examples
