/// nn::Checkpoint: a loader continues only with the batches that it had.

#include <doctest/doctest.h>

#include <linnet/linnet.h>

#include "tests/support/files.h"
#include "tests/support/values.h"

using namespace linnet;
using test::TemporaryFolder;
using test::uniform;

TEST_CASE("Checkpoint: a loader with other batches is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  const nn::TensorDataset data({uniform({10, 3}, 1)});
  nn::Loader saved(data, {.batch = 2, .seed = 1});
  nn::Checkpoint(path).add("loader", saved).save();
  const std::vector<int64_t> lengths{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  for (const nn::LoaderOptions& options : {nn::LoaderOptions{.batch = 3, .seed = 1},
                                           {.batch = 2, .seed = 2},
                                           {.batch = 2, .shuffle = false, .seed = 1},
                                           {.batch = 2, .seed = 1, .drop_last = true},
                                           {.batch = 2, .seed = 1, .lengths = lengths}}) {
    nn::Loader other(data, options);
    CHECK_THROWS_WITH_AS(nn::Checkpoint(path).add("loader", other).load(),
                         doctest::Contains("is of another run: loader: its options are batch "), ValueError);
  }
  nn::Loader same(data, {.batch = 2, .seed = 1, .prefetch = 0, .num_workers = 3});  // these options change no batch
  nn::Checkpoint(path).add("loader", same).load();

  nn::Loader by_length(data, {.batch = 2, .seed = 1, .lengths = lengths});
  nn::Checkpoint(path).add("loader", by_length).save();
  nn::Checkpoint(path).add("loader", by_length).load();
  std::vector<int64_t> exchanged = lengths;
  std::swap(exchanged[2], exchanged[3]);
  nn::Loader other(data, {.batch = 2, .seed = 1, .lengths = exchanged});
  CHECK_THROWS_WITH_AS(nn::Checkpoint(path).add("loader", other).load(),
                       doctest::Contains("drop_last false, lengths"), ValueError);
}

TEST_CASE("Checkpoint: inside an epoch the data set has as many examples as before") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  const nn::TensorDataset data({uniform({10, 3}, 1)}), grown({uniform({12, 3}, 1)});
  nn::Loader saved(data, {.batch = 2}), other(grown, {.batch = 2}), same(data, {.batch = 2});
  const auto save_after = [&](int64_t batches) {
    for (int64_t i = 0; i < batches; ++i) saved.next();
    nn::Checkpoint(path).add("loader", saved).save();
  };
  save_after(3);
  nn::Checkpoint(path).add("loader", same).load();
  CHECK_THROWS_WITH_AS(
      nn::Checkpoint(path).add("loader", other).load(),
      doctest::Contains("loader: the position is inside an epoch of 10 examples, but the data set has "
                        "12; finish the epoch with the 10"),
      ValueError);
  CHECK(other.position().batch == 0);
  Safetensors old = read_safetensors(path);  // older versions did not save the number
  old.metadata.erase("loader_examples");
  write_safetensors(path, old);
  nn::Checkpoint(path).add("loader", other).load();
  CHECK(other.position().batch == 3);
  save_after(3);  // to the end of the epoch
  CHECK(saved.position().epoch == 1);
  nn::Checkpoint(path).add("loader", other).load();
  CHECK(other.position().epoch == 1);
  CHECK(other.position().batch == 0);
}

TEST_CASE("Checkpoint: a load that fails leaves a loader in its epoch, even if the data set has grown since") {
  struct Growing : nn::Dataset {
    int64_t count = 10;
    int64_t size() const override { return count; }
    nn::Batch collate(std::span<const int64_t> indices, RandomKey) const override {
      return {tensor(std::vector<int64_t>(indices.begin(), indices.end())), {}};
    }
  };
  for (const int64_t prefetch : {0, 2}) {
    Growing data;
    const TemporaryFolder folder;
    nn::Loader loader(data, {.batch = 2, .prefetch = prefetch}), same(data, {.batch = 2, .prefetch = 0});
    nn::Checkpoint(folder / "run").add("loader", loader).save();
    for (int i = 0; i < 3; ++i) {
      loader.next();
      same.next();
    }
    data.count = 12;
    int64_t step = 0;
    CHECK_THROWS_AS(nn::Checkpoint(folder / "run").add("loader", loader).add("step", step).load(), IoError);
    CHECK(loader.position().batch == 3);
    CHECK(loader.position().examples == 10);
    for (int i = 0; i < 2; ++i) {
      CHECK(loader.next()->inputs.to_vector<int64_t>() == same.next()->inputs.to_vector<int64_t>());
    }
    CHECK_FALSE(loader.next());
    CHECK(loader.batches_per_epoch() == 6);
  }
}
