#include <linnet/core/files/safetensors.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/file_dtype.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/safetensors_header.h>
#include <linnet/core/files/utf8.h>

// The format: the size of the header (8 bytes, little-endian), the header, the tensors' bytes end to end. The
// header is JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …,
// "__metadata__": {"key": "text"}}.

namespace linnet {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

using nlohmann::json;

constexpr int64_t kPrefix = 8;
constexpr int64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr uint32_t kZip = 0x04034b50;        // a zip archive begins with this: "PK\3\4"

/// A tensor as the header describes it.
struct Entry {
  TensorMap::iterator place;  // its name, and the place for the tensor
  const detail::FileDType* type;
  Shape shape;
  int64_t begin, end;  // bytes in the data
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::function<bool(const std::string&)> only)
      : path_(path), only_(std::move(only)), file_(detail::open_to_read(path)), size_(detail::file_size(file_)) {}

  Safetensors read() {
    read_header();
    // Every byte of the data must belong to exactly one tensor.
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    int64_t position = 0;
    for (const Entry& e : entries_) {
      if (e.begin < position) fail(fmt::format("tensor '{}' overlaps another one", shown(e)));
      if (e.begin > position) fail(fmt::format("bytes {}…{} belong to no tensor", position, e.begin));
      position = e.end;
    }
    if (position != data_size_) {
      fail(fmt::format("its tensors take {} bytes, but {} follow the header", position, data_size_));
    }
    for (const Entry& e : entries_) {
      if (only_(e.place->first)) {
        e.place->second = read_tensor(e);
      } else {
        file_.seekg(e.end - e.begin, std::ios::cur);
        content_.tensors.erase(e.place);
      }
    }
    return std::move(content_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("'{}' is damaged, truncated or not a safetensors file: {}; make or copy it again",
                              path_.string(), what));
  }

  static std::string shown(const Entry& e) { return detail::shortened(e.place->first); }

  void read_bytes(void* target, int64_t bytes) {
    file_.read(static_cast<char*>(target), bytes);
    if (!file_) fail("it ends too early");
  }

  void read_header() {
    if (size_ < kPrefix) fail(fmt::format("it has {} bytes", size_));
    uint64_t length = 0;
    read_bytes(&length, kPrefix);
    if (length > static_cast<uint64_t>(std::min(kMaxHeader, size_ - kPrefix))) {
      if (static_cast<uint32_t>(length) == kZip) {
        throw IoError(
            fmt::format("'{}' is a zip archive, as torch.save writes; in Python, write the weights by "
                        "safetensors.torch.save_file(model.state_dict(), path)",
                        path_.string()));
      }
      fail(fmt::format("a header of {} bytes, in a file of {} (at most {} are allowed)", length, size_, kMaxHeader));
    }
    data_size_ = size_ - kPrefix - static_cast<int64_t>(length);
    std::string text(length, '\0');
    read_bytes(text.data(), static_cast<int64_t>(length));
    if (!text.starts_with('{')) fail("its header does not begin with {, so it is not a JSON object");
    detail::SafetensorsHeader header(
        content_, [this](auto&&... fields) { entries_.push_back(checked(fields...)); },
        [this](const std::string& what) { fail(what); });
    try {
      detail::prepare_json(text);
      if (!json::sax_parse(text, &header)) fail("its header is not a JSON object");
    } catch (const json::exception& error) {
      fail(fmt::format("its header is not a JSON object: {}", detail::message_of(error)));
    }
  }

  Entry checked(TensorMap::iterator place, const std::string& dtype, const std::vector<int64_t>& sizes,
                const std::vector<int64_t>& offsets) const {
    const std::string name = detail::shortened(place->first);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size_) {
      fail(fmt::format("tensor '{}' has invalid data_offsets [{}] of {} bytes of data", name, fmt::join(offsets, ","),
                       data_size_));
    }
    const detail::FileDType& type = type_of(name, dtype);
    const std::optional<Shape> shape = possible_shape(sizes, type.dtype);
    if (!shape) {
      fail(fmt::format("tensor '{}' has shape [{}], more dims or bytes than there can be", name,
                       fmt::join(sizes, ",")));
    }
    if (shape->numel() * type.size != offsets[1] - offsets[0]) {
      fail(fmt::format("tensor '{}', {} of shape [{}], lies in {} bytes", name, type.safetensors,
                       fmt::join(sizes, ","), offsets[1] - offsets[0]));
    }
    return {place, &type, *shape, offsets[0], offsets[1]};
  }

  const detail::FileDType& type_of(const std::string& tensor, const std::string& name) const {
    for (const detail::FileDType& known : detail::kFileDTypes) {
      if (known.safetensors == name) return known;
    }
    throw IoError(fmt::format("'{}': tensor '{}' is {}, which linnet does not read; save it as F32 or as I64",
                              path_.string(), tensor, detail::shortened(name)));
  }

  /// The sizes as a shape, or nothing if no tensor can have that shape.
  static std::optional<Shape> possible_shape(const std::vector<int64_t>& sizes, DType dtype) {
    if (std::ssize(sizes) > kMaxRank) return std::nullopt;
    Shape shape(sizes.begin(), sizes.end());
    if (!checked_product(shape, size_of(dtype))) return std::nullopt;
    return shape;
  }

  Tensor read_tensor(const Entry& e) {
    Tensor tensor = Tensor::empty(e.shape, e.type->dtype);
    if (e.type->widen != nullptr) {
      read_wider(e, tensor);
      return tensor;
    }
    read_bytes(detail::view(tensor).data, e.end - e.begin);
    if (tensor.dtype() == DType::boolean) {
      const auto* bytes = static_cast<const unsigned char*>(detail::view(tensor).data);
      if (std::any_of(bytes, bytes + tensor.numel(), [](unsigned char byte) { return byte > 1; })) {
        fail(fmt::format("tensor '{}' is BOOL, and has bytes other than 0 and 1", shown(e)));
      }
    }
    return tensor;
  }

  /// Reads and converts in chunks, so that a tensor is never in memory in both dtypes.
  void read_wider(const Entry& e, Tensor& tensor) {
    constexpr int64_t kChunk = 1 << 16;
    std::vector<std::byte> chunk(
        static_cast<size_t>(std::min(kChunk, e.end - e.begin)));  // aligned for every element type
    auto* to = static_cast<std::byte*>(detail::view(tensor).data);
    for (int64_t left = e.end - e.begin; left > 0;) {
      const int64_t bytes = std::min(kChunk, left), count = bytes / e.type->size;
      read_bytes(chunk.data(), bytes);
      if (const std::optional<std::string> too_large = e.type->widen(chunk.data(), count, to)) {
        throw IoError(fmt::format("'{}': tensor '{}' is {} and holds {}, more than {} holds; save it as F64",
                                  path_.string(), shown(e), e.type->safetensors, *too_large,
                                  name_of(tensor.dtype())));
      }
      to += count * size_of(tensor.dtype());
      left -= bytes;
    }
  }

  std::filesystem::path path_;
  std::function<bool(const std::string&)> only_;
  std::ifstream file_;
  int64_t size_ = 0;
  int64_t data_size_ = 0;
  Safetensors content_;
  std::vector<Entry> entries_;
};

std::string_view format_name(const std::string& tensor, DType dtype) {
  for (const detail::FileDType& known : detail::kFileDTypes) {
    if (known.dtype == dtype && known.widen == nullptr) return known.safetensors;
  }
  throw DTypeError(fmt::format("tensor '{}' is {}; convert it with to(DType::float32)", tensor, name_of(dtype)));
}

/// A tensor to be written.
struct Item {
  std::string name;
  Shape shape;
  DType dtype;
  std::function<Tensor()> make;
};

/// All tensors in the order of the file. Those with the widest elements come first. So all are aligned, because the
/// header is padded to 8 bytes.
std::vector<Item> items_of(const Safetensors& content) {
  std::vector<Item> items;
  for (const auto& [name, tensor] : content.tensors) {
    items.push_back({name, tensor.shape(), tensor.dtype(), [from = &tensor] { return *from; }});
  }
  for (const auto& [name, deferred] : content.deferred) {
    if (content.tensors.contains(name)) {
      throw ValueError(fmt::format("two tensors have the name '{}'; rename one", name));
    }
    items.push_back({name, deferred.shape, deferred.dtype, deferred.make});
  }
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    const int64_t a_size = size_of(a.dtype), b_size = size_of(b.dtype);
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
  for (const Item& item : items) {
    if (item.name != detail::kSafetensorsMetadata) continue;
    throw ValueError(fmt::format("'{}' cannot be the name of a tensor; rename it", item.name));
  }
  return items;
}

Tensor tensor_of(const Item& item) {
  Tensor tensor = item.make();
  if (tensor.shape() == item.shape && tensor.dtype() == item.dtype) return tensor;
  throw ValueError(fmt::format("tensor '{}' was to be {} {}, and was made as {} {}", item.name, to_string(item.shape),
                               name_of(item.dtype), to_string(tensor.shape()), name_of(tensor.dtype())));
}

/// `text` as a JSON string. Throws ValueError if it is not UTF-8.
std::string quoted(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw ValueError("a name or a string of the metadata is not UTF-8, which the format requires");
  }
}

/// A JSON object with these keys and values. It is written without nlohmann's tree, because that allocates memory in
/// its destructor, which may fail.
std::string object_of(const std::map<std::string, std::string>& values) {
  std::string text = "{";
  for (const auto& [key, value] : values) {
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", quoted(key), value);
  }
  return text + "}";
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path, Where where) {
  const Call call("read_safetensors", where);
  return Reader(path, [](const std::string&) { return true; }).read();
}

Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& only, Where where) {
  const Call call("read_safetensors", where);
  return Reader(path, only).read();
}

void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where) {
  const Call call("write_safetensors", where);
  const NoGrad guard;
  const std::vector<Item> items = items_of(content);
  std::map<std::string, std::string> header;  // values are JSON
  if (!content.metadata.empty()) {
    std::map<std::string, std::string> texts;
    for (const auto& [key, text] : content.metadata) texts[key] = quoted(text);
    header[detail::kSafetensorsMetadata] = object_of(texts);
  }
  int64_t position = 0;
  for (const Item& item : items) {
    const int64_t end = position + item.shape.numel() * size_of(item.dtype);
    header[item.name] = fmt::format(R"({{"data_offsets":[{},{}],"dtype":"{}","shape":[{}]}})", position, end,
                                    format_name(item.name, item.dtype), fmt::join(item.shape, ","));
    position = end;
  }
  std::string text = object_of(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (std::ssize(text) > kMaxHeader) {
    throw ValueError(
        fmt::format("the header takes {} bytes, and no reader allows more than {}; shorten the metadata and the "
                    "names, or write several files",
                    text.size(), kMaxHeader));
  }

  AtomicFile file(path);
  const uint64_t length = text.size();
  file.write(&length, kPrefix);
  file.write(text.data(), static_cast<int64_t>(length));
  for (const Item& item : items) {
    const Tensor dense = tensor_of(item).to(Device::cpu).contiguous();
    file.write(detail::view(dense).data, dense.numel() * size_of(dense.dtype()));
  }
  file.commit();
}

}  // namespace linnet
