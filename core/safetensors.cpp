#include <linnet/core/safetensors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/atomic_file.h>
#include <linnet/core/error.h>
#include <linnet/core/tape.h>

// The format: the size of the header (8 bytes, little-endian), the header, the tensors' bytes end to end. The
// header is JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …,
// "__metadata__": {"key": "text"}}.

namespace linnet {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

using nlohmann::json;

constexpr int64_t kPrefix = 8;
constexpr int64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr const char* kMetadata = "__metadata__";

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<DTypeName, 5> kDTypes = {{{DType::float32, "F32"},
                                               {DType::float64, "F64"},
                                               {DType::int32, "I32"},
                                               {DType::int64, "I64"},
                                               {DType::boolean, "BOOL"}}};

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t begin, end;  // in the data
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code ignored;
    if (!file_ || !std::filesystem::is_regular_file(path_, ignored)) {
      throw IoError(
          fmt::format("cannot read '{}'; check that the file exists and that you may read it", path.string()));
    }
    size_ = static_cast<int64_t>(std::filesystem::file_size(path_));
  }

  Safetensors read() {
    const json header = read_header();
    Safetensors content{.tensors = {}, .metadata = {}};
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata)
        content.metadata = metadata(value);
      else
        entries.push_back(entry(name, value));
    }
    // Every byte of the data belongs to one tensor. This also catches a name that the header has twice.
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    int64_t position = 0;
    for (const Entry& e : entries) {
      if (e.begin < position) fail(fmt::format("tensor '{}' overlaps another one", e.name));
      if (e.begin > position) fail(fmt::format("bytes {}…{} belong to no tensor", position, e.begin));
      content.tensors[e.name] = read_tensor(e);
      position = e.end;
    }
    if (position != data_size_) {
      fail(fmt::format("its tensors take {} bytes, but {} follow the header", position, data_size_));
    }
    return content;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("'{}' is damaged, truncated or not a safetensors file: {}; make or copy it again",
                              path_.string(), what));
  }

  void read_bytes(void* target, int64_t bytes) {
    file_.read(static_cast<char*>(target), bytes);
    if (!file_) fail("it ends too early");
  }

  json read_header() {
    if (size_ < kPrefix) fail(fmt::format("it has {} bytes", size_));
    uint64_t length = 0;
    read_bytes(&length, kPrefix);
    if (length > static_cast<uint64_t>(std::min(kMaxHeader, size_ - kPrefix))) {
      fail(fmt::format("a header of {} bytes, in a file of {} (at most {} are allowed)", length, size_, kMaxHeader));
    }
    data_size_ = size_ - kPrefix - static_cast<int64_t>(length);
    std::string text(length, '\0');
    read_bytes(text.data(), static_cast<int64_t>(length));
    json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) fail("its header is not a JSON object");
    return header;
  }

  std::map<std::string, std::string> metadata(const json& value) const {
    if (!value.is_object()) fail("its metadata is not a JSON object");
    std::map<std::string, std::string> result;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(fmt::format("its metadata '{}' is not a string", key));
      result[key] = text.get<std::string>();
    }
    return result;
  }

  Entry entry(const std::string& name, const json& value) const {
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets") || !value["dtype"].is_string()) {
      fail(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", name));
    }
    const std::vector<int64_t> sizes = naturals(name, value["shape"]);
    const std::vector<int64_t> offsets = naturals(name, value["data_offsets"]);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size_) {
      fail(fmt::format("tensor '{}' lies at {} of {} bytes", name, value["data_offsets"].dump(), data_size_));
    }
    const DType dtype = dtype_from(name, value["dtype"].get<std::string>());
    const std::optional<Shape> shape = possible_shape(sizes, computed_in(dtype));
    if (!shape) {
      fail(
          fmt::format("tensor '{}' has shape {}, more dims or bytes than there can be", name, value["shape"].dump()));
    }
    if (shape->numel() * size_of(dtype) != offsets[1] - offsets[0]) {
      fail(fmt::format("tensor '{}', {} of shape {}, lies in {} bytes", name, name_of(dtype), value["shape"].dump(),
                       offsets[1] - offsets[0]));
    }
    return {name, dtype, *shape, offsets[0], offsets[1]};
  }

  std::vector<int64_t> naturals(const std::string& name, const json& value) const {
    if (!value.is_array()) fail(fmt::format("tensor '{}' has {} where a list belongs", name, value.dump()));
    std::vector<int64_t> result;
    for (const json& number : value) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
        fail(fmt::format("tensor '{}' has the size or offset {}", name, number.dump()));
      }
      result.push_back(number.get<int64_t>());
    }
    return result;
  }

  DType dtype_from(const std::string& tensor, const std::string& name) const {
    for (const DTypeName& known : kDTypes) {
      if (known.name == name) return known.dtype;
    }
    if (name == "BF16") return DType::bfloat16;  // read, but not written
    throw IoError(fmt::format(
        "'{}': tensor '{}' is {}, which linnet does not read; save it as F32, F64, BF16, I32, I64 or BOOL",
        path_.string(), tensor, name));
  }

  /// The sizes as a shape, or nothing when no tensor can have it.
  static std::optional<Shape> possible_shape(const std::vector<int64_t>& sizes, DType dtype) {
    if (std::ssize(sizes) > kMaxRank) return std::nullopt;
    Shape shape(sizes.begin(), sizes.end());
    if (!checked_product(shape, size_of(dtype))) return std::nullopt;
    return shape;
  }

  /// The upper halves of float32 numbers.
  Tensor read_bfloat16(const Entry& e) {
    std::vector<uint16_t> halves(static_cast<size_t>(e.shape.numel()));
    read_bytes(halves.data(), e.end - e.begin);
    Tensor tensor = Tensor::empty(e.shape);
    std::transform(halves.begin(), halves.end(), tensor.mutable_data<float>().begin(),
                   [](uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); });
    return tensor;
  }

  Tensor read_tensor(const Entry& e) {
    if (e.dtype == DType::bfloat16) return read_bfloat16(e);
    Tensor tensor = Tensor::empty(e.shape, e.dtype);
    read_bytes(tensor.view().data, e.end - e.begin);
    if (e.dtype == DType::boolean) {
      const auto* bytes = static_cast<const unsigned char*>(tensor.view().data);
      if (std::any_of(bytes, bytes + tensor.numel(), [](unsigned char byte) { return byte > 1; })) {
        fail(fmt::format("tensor '{}' is BOOL, and has bytes other than 0 and 1", e.name));
      }
    }
    return tensor;
  }

  std::filesystem::path path_;
  std::ifstream file_;
  int64_t size_ = 0;
  int64_t data_size_ = 0;
};

std::string_view format_name(const std::string& tensor, DType dtype) {
  for (const DTypeName& known : kDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  throw DTypeError(fmt::format("tensor '{}' is {}; convert it with to(DType::float32)", tensor, name_of(dtype)));
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path, Where where) {
  const Call call("read_safetensors", where);
  return Reader(path).read();
}

void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where) {
  const Call call("write_safetensors", where);
  const NoGrad guard;
  if (content.tensors.contains(kMetadata)) {
    throw ValueError(fmt::format("'{}' cannot be the name of a tensor; rename it", kMetadata));
  }
  // Wide elements first: then all are aligned, since the header is padded to 8 bytes.
  std::vector<TensorMap::const_iterator> order;
  for (auto it = content.tensors.begin(); it != content.tensors.end(); ++it) order.push_back(it);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });

  json header = json::object();
  if (!content.metadata.empty()) header[kMetadata] = content.metadata;
  int64_t position = 0;
  for (const auto& it : order) {
    const auto& [name, tensor] = *it;
    const int64_t end = position + tensor.numel() * size_of(tensor.dtype());
    header[name] = {{"dtype", format_name(name, tensor.dtype())},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw ValueError("a name or a text is not UTF-8, which the format asks for");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');

  AtomicFile file(path);
  const uint64_t length = text.size();
  file.write(&length, kPrefix);
  file.write(text.data(), static_cast<int64_t>(length));
  for (const auto& it : order) {
    const Tensor dense = it->second.to(Device::cpu).contiguous();
    file.write(dense.view().data, dense.numel() * size_of(dense.dtype()));
  }
  file.commit();
}

}  // namespace linnet
