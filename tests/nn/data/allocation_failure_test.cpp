#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include <linnet/linnet.h>

#include "tests/nn/data/idx_file.h"
#include "tests/nn/data/png_file.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/files.h"
#include "tests/support/threads.h"

/// Every allocation of reading and writing data and of making batches fails once. Each time an error is thrown,
/// nothing leaks, and the same call then gives the same numbers.

namespace linnet::test {
namespace {

using Numbers = std::vector<double>;

void append(Numbers& numbers, const Tensor& x) {
  for (const double number : x.to_vector<double>()) numbers.push_back(number);
}

/// Checks that the numbers are right if no error was thrown, and when `read` is called again.
void fail_each_request_of(const std::function<Numbers()>& read) {
  const WithThreads with(1);
  const Numbers expected = read();
  REQUIRE_FALSE(expected.empty());
  Numbers numbers;
  const int64_t calls = fail_each_request([&] { numbers = read(); },
                                          [&](bool failed) {
                                            if (!failed) REQUIRE(numbers == expected);
                                            REQUIRE(read() == expected);
                                          });
  CHECK(calls > 5);
}

/// Checks that after an error the old file is unchanged, and that no temporary file is left.
void fail_each_request_of_writing(const std::function<void(const std::filesystem::path& path)>& write_old,
                                  const std::function<void(const std::filesystem::path& path)>& write_new) {
  const WithThreads with(1);
  const TemporaryFolder folder;
  write_new(folder / "file");
  const std::string wanted = read_bytes(folder / "file");
  write_old(folder / "file");
  const std::string old = read_bytes(folder / "file");
  REQUIRE(old != wanted);
  fail_each_request([&] { write_new(folder / "file"); },
                    [&](bool failed) {
                      REQUIRE(folder.file_count() == 1);
                      REQUIRE(read_bytes(folder / "file") == (failed ? old : wanted));
                      write_bytes(folder / "file", old);
                    });
}

/// A folder with two images of 2 × 1 pixels, one of them with a palette.
struct TwoImages {
  TemporaryFolder folder;
  TwoImages() {
    std::filesystem::create_directories(folder / "cats");
    std::filesystem::create_directories(folder / "dogs");
    write_bytes(folder / "cats/a.png", png_bytes(2, 8, kGrey, {std::string("\x33\0", 2)}));
    const std::string palette = chunk("PLTE", std::string("\xFF\0\0\0\x33\xFF", 6));
    write_bytes(folder / "dogs/b.png", png_bytes(2, 8, kPalette, {std::string("\x01\0", 2)}, palette));
  }
};

/// Six rows. If `fails_at` is set, one allocation fails on a thread that makes a batch of them.
class Rows : public nn::Dataset {
 public:
  int64_t size() const override { return data_.size(); }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override {
    if (!fails_at) return data_.collate(indices, key);
    const AllocationFailure failure(*fails_at);
    try {
      nn::Batch batch = data_.collate(indices, key);
      if (failure.happened()) ++failures;
      return batch;
    } catch (...) {
      ++failures;
      throw;
    }
  }
  std::optional<int64_t> fails_at;
  mutable std::atomic<int64_t> failures = 0;

 private:
  nn::TensorDataset data_{{arange(12).reshape({6, 2}), arange(6)}};
};

void append_rest_of_epoch(Numbers& numbers, nn::Loader& loader) {
  while (const std::optional<nn::Batch> batch = loader.next()) {
    append(numbers, batch->inputs);
    append(numbers, batch->targets);
  }
}

Numbers epoch_of(const nn::Dataset& data, const nn::LoaderOptions& options) {
  Numbers numbers;
  nn::Loader loader(data, options);
  append_rest_of_epoch(numbers, loader);
  return numbers;
}

}  // namespace

TEST_CASE("memory: a CSV file that could not be read for want of memory is read afterwards") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const TemporaryFolder folder;
  write_bytes(folder / "x.csv",
              "area,city,note\n1.5,\"Ulm, near the Danube\",a text that takes memory\n2.5,Bonn,b\n");
  fail_each_request_of([&] {
    const nn::Table table = nn::read_csv(folder / "x.csv");
    Numbers numbers;
    append(numbers, table.columns({"area"}));
    append(numbers, table.categories("city").indices);
    for (const std::string& text : table.texts("note")) numbers.push_back(static_cast<double>(text.size()));
    return numbers;
  });
}

TEST_CASE("memory: text, a tokenizer and an IDX file that could not be read for want of memory are read afterwards") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const TemporaryFolder folder;
  write_bytes(folder / "text", "to be or not to be, \u00e9\r\n");
  const auto numbers_of = [](std::span<const int64_t> ids) { return Numbers(ids.begin(), ids.end()); };
  fail_each_request_of([&] {
    const auto text = nn::CharText::read(folder / "text", {.normalise_newlines = true});
    return numbers_of(text.train());
  });
  nn::BytePairTokenizer::train("to be or to be", {.vocab_size = 260}).save(folder.path());
  fail_each_request_of([&] {
    const auto tokenizer = nn::BytePairTokenizer::load(folder.path());
    return numbers_of(tokenizer.encode("to be \u00e9"));
  });
  nn::WordVocabulary::build(std::vector<std::string>{"to be or to be"}).save(folder / "words");
  fail_each_request_of([&] { return numbers_of(nn::WordVocabulary::load(folder / "words").encode("to be")); });
  write_bytes(folder / "plain", idx_bytes({2, 3}, "abcdef"));
  write_bytes(folder / "packed.gz", gzipped(idx_bytes({2, 3}, "abcdef")));
  for (const char* name : {"plain", "packed.gz"}) {
    fail_each_request_of([&] {
      const nn::IdxArray array = nn::read_idx(folder / name);
      return Numbers(array.bytes.begin(), array.bytes.end());
    });
  }
}

TEST_CASE("memory: an array that could not be read or written for want of memory is read or written afterwards") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const std::filesystem::path folder = LINNET_TEST_DATA "/goldens/numpy";
  fail_each_request_of([&] { return read_npy(folder / "fortran.npy").to_vector<double>(); });
  for (const char* archive : {"little.npz", "big.npz"}) {  // stored, and compressed by zlib, which allocates too
    CAPTURE(archive);
    fail_each_request_of([&] {
      Numbers numbers;
      for (const auto& [name, x] : read_npz(folder / archive)) append(numbers, isfinite(x));
      return numbers;
    });
  }

  const Tensor old = zeros({2}), wanted = ones({3, 2});
  fail_each_request_of_writing([&](auto& path) { write_npy(path, old); },
                               [&](auto& path) { write_npy(path, wanted.t()); });
  fail_each_request_of_writing(
      [&](auto& path) { write_npz(path, {{"x", old}}); },
      [&](auto& path) { write_npz(path, {{"x", wanted}, {"a name that takes memory", old}}); });
}

TEST_CASE("memory: images that could not be read for want of memory are read afterwards") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const TwoImages images;
  fail_each_request_of([&] { return nn::read_png(images.folder / "cats/a.png").to_vector<double>(); });
  const std::vector<int64_t> both{1, 0};
  const nn::ImageFolder data(images.folder.path());  // libstdc++ 12 ends a program that cannot list a folder
  fail_each_request_of([&] {
    const nn::Batch batch = data.collate(both, {});
    Numbers numbers;
    append(numbers, batch.inputs);
    append(numbers, batch.targets);
    return numbers;
  });
}

TEST_CASE("memory: a loader that ran out of memory gives the same batches afterwards") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const Rows data;
  for (const int64_t workers : {0, 2}) {
    CAPTURE(workers);
    const nn::LoaderOptions options{.batch = 2, .seed = 3, .num_workers = workers};
    fail_each_request_of([&] { return epoch_of(data, options); });
    // The same loader continues where it was.
    const WithThreads with(1);
    const Numbers expected = epoch_of(data, options);
    std::optional<nn::Loader> loader;
    std::optional<nn::Batch> first;
    fail_each_request(
        [&] {
          loader.emplace(data, options);
          first = loader->next();
        },
        [&](bool) {
          Numbers numbers;
          if (first) append(numbers, first->inputs);
          if (first) append(numbers, first->targets);
          if (loader) append_rest_of_epoch(numbers, *loader);
          if (loader) REQUIRE(numbers == expected);
          loader.reset();
          first.reset();
        });
  }
}

TEST_CASE("memory: a worker that ran out of memory hands the error on, and the batch is made again") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(1);
  Rows data;
  const nn::LoaderOptions options{.batch = 2, .seed = 3, .num_workers = 2};
  const Numbers expected = epoch_of(data, options);
  int64_t errors = 0;
  for (int64_t n = 0;; ++n) {
    CAPTURE(n);
    cpu_memory::release_cached();  // so that tensors allocate too
    const int64_t live = memory_stats().live;
    data.fails_at = n;
    data.failures = 0;
    {
      nn::Loader loader(data, options);
      Numbers numbers;
      bool failed = false;
      try {
        append_rest_of_epoch(numbers, loader);
      } catch (const std::bad_alloc&) {
        failed = true;
      } catch (const MemoryError&) {
        failed = true;
      }
      data.fails_at.reset();  // no worker runs, neither after an error nor at the end of an epoch
      if (failed) append_rest_of_epoch(numbers, loader);
      REQUIRE(numbers == expected);
      errors += failed;
    }
    REQUIRE(memory_stats().live == live);
    if (data.failures == 0) break;
  }
  CHECK(errors > 5);
}

}  // namespace linnet::test
