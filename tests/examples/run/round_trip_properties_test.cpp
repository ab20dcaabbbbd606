/// Every format reads back what was written, for all shapes, strides, dtypes, numbers and names.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/run/run_folder.h"
#include "tests/support/files.h"
#include "tests/support/properties.h"
#include "tests/support/values.h"

namespace linnet::examples {
namespace {

using linnet::test::arbitrary_shape;
using linnet::test::bytes_of;
using linnet::test::check_property;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && bytes_of(a) == bytes_of(b);
}

bool same(const TensorMap& a, const TensorMap& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

/// Fills a contiguous tensor with random bits, including NaNs and infinities.
template <class T>
Tensor any_bits(const Shape& shape, Generator& rng) {
  Tensor x = Tensor::empty(shape, dtype_of<T>);
  const std::vector<int64_t> words = randint(0, int64_t{1} << 32, {2 * x.numel()}, rng).template to_vector<int64_t>();
  size_t at = 0;
  for (T& element : x.template mutable_data<T>()) {
    const uint64_t bits = static_cast<uint64_t>(words[at]) << 32 | static_cast<uint64_t>(words[at + 1]);
    at += 2;
    if constexpr (std::is_same_v<T, bool>) {
      element = bits % 2 == 1;
    } else {
      std::memcpy(&element, &bits, sizeof(T));
    }
  }
  return x;
}

Tensor any_elements(const Shape& shape, DType dtype, uint64_t seed) {
  Generator rng(seed);
  switch (dtype) {
    case DType::float32: return any_bits<float>(shape, rng);
    case DType::float64: return any_bits<double>(shape, rng);
    case DType::int32: return any_bits<int32_t>(shape, rng);
    case DType::int64: return any_bits<int64_t>(shape, rng);
    default: return any_bits<bool>(shape, rng);
  }
}

/// A view with permuted dims and steps, of random elements.
Tensor arbitrary_tensor() {
  const std::vector<int64_t> sizes = *arbitrary_shape();
  const auto rank = static_cast<int64_t>(sizes.size());
  std::vector<int64_t> order(sizes.size()), starts, steps;
  std::iota(order.begin(), order.end(), 0);
  for (int64_t d = 0; d < rank; ++d) {
    std::swap(order[static_cast<size_t>(d)], order[static_cast<size_t>(*rc::gen::inRange<int64_t>(d, rank))]);
    starts.push_back(*rc::gen::inRange<int64_t>(0, 2));
    steps.push_back(*rc::gen::inRange<int64_t>(1, 4));
  }
  Shape whole(std::vector<int64_t>(sizes.size()));
  for (size_t d = 0; d < order.size(); ++d) {
    const auto of = static_cast<size_t>(order[d]);
    whole[static_cast<int>(of)] = starts[d] + sizes[d] * steps[d];
  }
  const DType dtype = *rc::gen::element(DType::float32, DType::float64, DType::int32, DType::int64, DType::boolean);
  Tensor x = any_elements(whole, dtype, *rc::gen::arbitrary<uint64_t>()).permute(Shape(order));
  for (size_t d = 0; d < order.size(); ++d) {
    x = x.slice(static_cast<int64_t>(d), starts[d], starts[d] + sizes[d] * steps[d], steps[d]);
  }
  RC_ASSERT(x.shape() == Shape(sizes));
  return x;
}

/// A text of characters of one to four bytes, including those that formats escape or interpret.
std::string arbitrary_text(const std::vector<std::string>& more = {}) {
  std::vector<std::string> pieces{"a", "Z", "0",  "é",  "€",    "😀", "\"", "\\",
                                  "/", " ", "\n", "\t", "\x01", "%",  "{",  ","};
  pieces.insert(pieces.end(), more.begin(), more.end());
  std::string text;
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))) {
    text += piece;
  }
  return text;
}

TensorMap arbitrary_tensors() {
  TensorMap tensors;
  const int count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < count; ++i) tensors[arbitrary_text({".", "weight"})] = arbitrary_tensor();
  return tensors;
}

}  // namespace

TEST_CASE("round trips: safetensors, npy and npz") {
  const TemporaryFolder folder;
  check_property("safetensors", [&] {
    Safetensors content{.tensors = arbitrary_tensors()};
    const int count = *rc::gen::inRange(0, 3);
    for (int i = 0; i < count; ++i) content.metadata[arbitrary_text()] = arbitrary_text();
    write_safetensors(folder / "x.safetensors", content);
    const Safetensors read = read_safetensors(folder / "x.safetensors");
    RC_ASSERT(same(read.tensors, content.tensors));
    RC_ASSERT(read.metadata == content.metadata);
  });
  check_property("npy", [&] {
    const Tensor x = arbitrary_tensor();
    write_npy(folder / "x.npy", x);
    RC_ASSERT(same(read_npy(folder / "x.npy"), x));
  });
  check_property("npz", [&] {
    const TensorMap tensors = arbitrary_tensors();
    write_npz(folder / "x.npz", tensors);
    RC_ASSERT(same(read_npz(folder / "x.npz"), tensors));
  });
}

TEST_CASE("round trips: IDX") {
  const TemporaryFolder folder;
  check_property("IDX", [&] {
    std::vector<int64_t> sizes = *arbitrary_shape();
    sizes.push_back(*rc::gen::inRange<int64_t>(0, 5));
    nn::IdxArray array{Shape(sizes), {}};
    for (int64_t i = 0; i < array.shape.numel(); ++i) array.bytes.push_back(*rc::gen::arbitrary<uint8_t>());
    nn::write_idx(folder / "x.idx", array);
    const nn::IdxArray read = nn::read_idx(folder / "x.idx");
    RC_ASSERT(read.shape == array.shape);
    RC_ASSERT(read.bytes == array.bytes);
  });
}

TEST_CASE("round trips: a checkpoint") {
  const TemporaryFolder folder;
  check_property("checkpoint", [&] {
    TensorMap tensors;
    const int count = *rc::gen::inRange(0, 4);
    for (int i = 0; i < count; ++i) tensors["x" + arbitrary_text()] = arbitrary_tensor();
    auto number = *rc::gen::arbitrary<int64_t>();
    double real = any_elements({1}, DType::float64, *rc::gen::arbitrary<uint64_t>()).data<double>()[0];
    std::string text = arbitrary_text();
    Generator rng(*rc::gen::arbitrary<uint64_t>());
    rng.set_state({.seed = rng.state().seed, .draws = *rc::gen::arbitrary<uint64_t>()});
    const auto with_parts = [&](nn::Checkpoint& checkpoint, const auto& parts) -> nn::Checkpoint& {
      for (const auto& [name, x] : parts) checkpoint.add(name, x);
      return checkpoint.add("number", number).add("real", real).add("text", text).add("rng", rng);
    };
    nn::Checkpoint saved(folder / "x.safetensors");
    with_parts(saved, tensors).save();
    const auto before = std::tuple(number, std::bit_cast<uint64_t>(real), text, rng.state().seed, rng.state().draws);

    TensorMap others;
    for (const auto& [name, x] : tensors) others[name] = zeros(x.shape(), x.dtype());
    number = 0, real = 0, text = "", rng = Generator(0);
    nn::Checkpoint loaded(folder / "x.safetensors");
    with_parts(loaded, others).load();
    RC_ASSERT(same(others, tensors));
    const auto after = std::tuple(number, std::bit_cast<uint64_t>(real), text, rng.state().seed, rng.state().draws);
    RC_ASSERT(before == after);
  });
}

TEST_CASE("round trips: config.json") {
  const TemporaryFolder folder;
  check_property("config.json", [&] {
    const auto task = *rc::gen::elementOf(task_names());
    const Settings published = preset(task, *rc::gen::elementOf(preset_names(task)));
    Settings settings = settings_of(published.attention, published);  // without other mechanisms' options
    settings.seed = *rc::gen::arbitrary<uint64_t>();
    settings.steps = *rc::gen::inRange<int64_t>(settings.warmup + 1, 1'000'000);
    settings.batch = settings.shards * settings.accumulate * *rc::gen::inRange<int64_t>(1, 1000);
    settings.lr = settings.min_lr + 1e-3 * *rc::gen::inRange(1, 1000) / 7;
    settings.dropout = *rc::gen::inRange(0, 1000) / 1001.0;
    settings.weight_decay = *rc::gen::inRange(0, 1000) / 3.0;
    settings.eval_every = *rc::gen::inRange<int64_t>(1, 1000);
    settings.command = {arbitrary_text(), arbitrary_text()};
    settings.out = folder / "run";
    const std::string data = arbitrary_text();
    std::filesystem::remove_all(settings.out);
    RunFolder(settings, data).begin();
    std::string read_data;
    const Settings read = read_config(settings.out, &read_data);
    RC_ASSERT(to_json(read) == to_json(settings));
    RC_ASSERT(read_data == data);
  });
}

TEST_CASE("round trips: a tokenizer") {
  const TemporaryFolder folder, again;
  check_property("tokenizer", [&] {
    const std::string text = arbitrary_text({"the ", "ing", "'s", "\xFF", "\xC3"});
    std::vector<std::string> special{"<|" + arbitrary_text() + "|>"};
    const auto trained = nn::BytePairTokenizer::train(
        text, {.vocab_size = *rc::gen::inRange<int64_t>(257, 280), .special_tokens = special});
    trained.save(folder.path());
    const auto loaded = nn::BytePairTokenizer::load(folder.path());
    RC_ASSERT(loaded.size() == trained.size());
    RC_ASSERT(loaded.special_tokens() == special);
    const std::vector<int64_t> ids = loaded.encode(text);
    RC_ASSERT(ids == trained.encode(text));
    RC_ASSERT(loaded.decode(ids) == text);
    loaded.save(again.path());
    for (const char* name : {"vocab.json", "merges.txt"})
      RC_ASSERT(read_bytes(again / name) == read_bytes(folder / name));
  });
}

}  // namespace linnet::examples
