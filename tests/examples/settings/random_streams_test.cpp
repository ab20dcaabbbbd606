/// Checks that random numbers outside the model, such as the order of data, have their own streams.

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include <linnet/core/device/profile.h>

#include "support/tasks/data_sets.h"
#include "support/tasks/task.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/nn/data/idx_file.h"
#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::examples::test;
using examples::Settings;
using examples::Stream;
using linnet::test::idx_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

namespace {

Settings tiny_settings(const Workshop& shop) {
  Settings s = examples::preset("shakespeare", "nanogpt-cpu");
  s.data = shop / "data";
  s.layers = 1, s.width = 16, s.heads = 2, s.context = 16, s.batch = 4;
  return s;
}

std::vector<int64_t> ids(const Tensor& x) { return x.to_vector<int64_t>(); }

/// Files in MNIST's format with images of 6×6 pixels, each with a different label.
void write_images(const TemporaryFolder& folder, uint32_t count) {
  std::string pixels, labels;
  for (uint32_t i = 0; i < count; ++i) {
    labels += static_cast<char>(i);
    for (uint32_t pixel = 0; pixel < 36; ++pixel) pixels += static_cast<char>(7 * i + 5 * pixel);
  }
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(folder / (part + "-images-idx3-ubyte"), idx_bytes({count, 6, 6}, pixels));
    write_bytes(folder / (part + "-labels-idx1-ubyte"), idx_bytes({count}, labels));
  }
}

}  // namespace

TEST_CASE("random streams: a run's training and validation windows, and its generator's draws") {
  constexpr int64_t kMost = (int64_t{1} << 62) - 1;
  const auto stream = [](Stream which, int64_t index) { return examples::stream_key(1337, which, index).stream; };
  // A generator counts its draws from 0, and makes fewer than 2^62.
  CHECK(stream(Stream::train, 0) == uint64_t{1} << 62);
  CHECK(stream(Stream::train, kMost) < stream(Stream::validate, 0));
  CHECK(stream(Stream::validate, kMost) > stream(Stream::validate, 0));
  for (const Stream which : {Stream::train, Stream::validate}) CHECK(stream(which, 8) - stream(which, 5) == 3);
}

TEST_CASE("random streams: training batches and validation batches are windows of their own streams") {
  const Workshop shop;
  const Settings s = tiny_settings(shop);
  const auto task = examples::make_task(s);
  const auto source = examples::load_text(s);
  const auto window = [&](std::span<const int64_t> text, Stream stream, int64_t index) {
    return nn::random_windows(text, s.batch, s.context, examples::stream_key(s.seed, stream, index));
  };
  std::set<std::vector<int64_t>> batches;
  for (int64_t i = 0; i < 50; ++i) {
    const nn::Batch batch = task->batch(i);
    CHECK(ids(batch.inputs) == ids(window(source.text.train(), Stream::train, i).inputs));
    batches.insert(ids(batch.inputs));
  }
  CHECK(batches.size() == 50);

  task->model().eval();
  double loss = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const NoGrad no_grad;
    loss += task->loss(window(source.text.validation(), Stream::validate, i)).item<double>() / 3;
  }
  task->model().train();
  CHECK(task->evaluate(3).loss == doctest::Approx(loss).epsilon(1e-12));
}

TEST_CASE("random streams: evaluation and samples leave training as it is") {
  const Workshop shop;
  Settings s = tiny_settings(shop);
  s.dropout = 0.2;
  const auto task = examples::make_task(s);
  const auto draws = [&] { return task->model().generator().state().draws; };
  const uint64_t before = draws();
  const std::vector<int64_t> batch = ids(task->batch(7).inputs);
  const double loss = task->evaluate(2).loss;
  task->sample(20);
  CHECK(draws() == before);
  CHECK(ids(task->batch(7).inputs) == batch);
  (void)task->loss(task->batch(8));
  CHECK(draws() > before);
  CHECK(task->evaluate(2).loss == loss);
}

TEST_CASE("random streams: augmentation of images leaves their order as it is") {
  Settings s = examples::preset("mnist", "mnist-small");
  s.layers = 1, s.width = 16, s.heads = 2, s.batch = 50, s.patch = 3;
  const TemporaryFolder folder;
  write_images(folder, 200);
  s.data = folder.path();
  const auto task = examples::make_task(s);
  const nn::LabelledImages still = examples::load_images(s).train;  // before any random shift
  nn::Loader loader(still, {.batch = s.batch, .seed = s.seed, .drop_last = true});
  bool moved = false;
  for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
    const nn::Batch batch = task->batch(i), plain = *loader.next();
    CHECK(ids(batch.targets) == ids(plain.targets));
    moved = moved || batch.inputs.to_vector<float>() != plain.inputs.to_vector<float>();
  }
  CHECK(moved);
}
