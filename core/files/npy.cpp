#include <linnet/core/files/npy.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/file_dtype.h>
#include <linnet/core/files/file_errors.h>
#include <linnet/core/files/npy_header.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>
#include <linnet/core/files/zip.h>

namespace linnet {
namespace {

using detail::FileErrors;

constexpr std::string_view kSuffix = ".npy";  // of the names of entries in archives

/// The bytes of a file, or of an entry of an archive.
struct ByteSource {
  int64_t size;
  std::function<void(void* to, int64_t bytes)> read;  ///< reads the next bytes; throws if there are fewer
};

/// An array in the bytes of a file, as its header describes it.
struct NpyArray {
  const detail::FileDType* type;
  bool is_swapped;  ///< big-endian
  bool fortran_order;
  Shape shape;
};

const detail::FileDType& npy_type(std::string_view descr, const FileErrors& errors) {
  constexpr std::string_view kOrders = "<>|=";
  const std::string_view code = descr.substr(std::min<size_t>(1, descr.size()));
  if (descr.size() == 3 && kOrders.find(descr[0]) != std::string_view::npos) {
    for (const detail::FileDType& known : detail::kFileDTypes) {
      if (known.numpy == code) return known;
    }
  }
  const char* kind = code.starts_with('c')                            ? " (complex numbers)"
                     : code.starts_with('U') || code.starts_with('S') ? " (text)"
                     : code.starts_with('O') ? " (Python's objects, which only code that the file holds can restore)"
                                             : "";
  throw errors.refusal(
      fmt::format("its elements are '{}'{}, which linnet does not read; save numbers, for example "
                  "x.astype('float32')",
                  detail::shortened(descr), kind));
}

/// Reads everything before the elements, and checks that as many elements follow as the shape has.
NpyArray read_header(const ByteSource& from, const FileErrors& errors) {
  constexpr uint32_t kMost = 10'000;  // NumPy's own limit
  std::array<char, 8> start{};
  from.read(start.data(), std::ssize(start));
  if (!std::string_view(start.data(), start.size()).starts_with(detail::kNpyMagic)) {
    errors.damaged("byte 0: it does not begin with \\x93NUMPY");
  }
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) errors.damaged(fmt::format("byte 6: version {} of the format", version));
  const int64_t length_bytes = version == 1 ? 2 : 4, begin = std::ssize(start) + length_bytes;
  uint32_t length = 0;
  from.read(&length, length_bytes);
  if (length > kMost) errors.damaged(fmt::format("byte 8: a header of {} bytes, more than {}", length, kMost));
  std::string text(length, '\0');
  from.read(text.data(), length);
  const detail::NpyHeader header = detail::parse_npy_header(text, begin, errors);

  NpyArray array{&npy_type(header.descr, errors), header.descr[0] == '>', header.fortran_order, {}};
  const std::string shown = detail::shortened(fmt::format("{}", fmt::join(header.sizes, ", ")));
  if (std::ssize(header.sizes) > kMaxRank) {
    errors.refused(fmt::format("its shape ({}) has more than {} dims; reshape it", shown, kMaxRank));
  }
  array.shape = Shape(header.sizes);
  const int64_t there = from.size - begin - length;
  if (!checked_product(array.shape, size_of(array.type->dtype)) || array.shape.numel() * array.type->size != there) {
    errors.damaged(fmt::format("byte {}: {} bytes follow, which are not the '{}' elements of shape ({})",
                               begin + length, there, header.descr, shown));
  }
  return array;
}

/// Reads an array from its beginning to its end. If not `keep`, it checks everything but allocates no tensor.
Tensor read_array(const ByteSource& from, const FileErrors& errors, bool keep) {
  constexpr int64_t kChunk = 1 << 16;
  const NpyArray array = read_header(from, errors);
  const int64_t size = array.type->size, wide = size_of(array.type->dtype);
  Shape shape = array.shape;
  if (array.fortran_order) std::reverse(shape.begin(), shape.end());
  Tensor tensor = keep ? Tensor::empty(shape, array.type->dtype) : Tensor();
  const int64_t most = std::min(kChunk / size, array.shape.numel());  // the most elements per read
  std::vector<std::byte> chunk(static_cast<size_t>(most * size)), unused(static_cast<size_t>(keep ? 0 : most * wide));
  auto* to = keep ? static_cast<std::byte*>(detail::view(tensor).data) : unused.data();
  for (int64_t left = array.shape.numel(); left > 0;) {
    const int64_t count = std::min(most, left);
    from.read(chunk.data(), count * size);
    if (array.is_swapped) {
      for (std::byte* element = chunk.data(); element < chunk.data() + count * size; element += size) {
        std::reverse(element, element + size);
      }
    }
    if (array.type->widen == nullptr) {
      std::memcpy(to, chunk.data(), static_cast<size_t>(count * size));
    } else if (const auto too_large = array.type->widen(chunk.data(), count, to)) {
      errors.refused(
          fmt::format("it holds {}, more than {} holds; save it as float64", *too_large, name_of(array.type->dtype)));
    }
    if (array.type->dtype == DType::boolean &&
        std::any_of(to, to + count, [](std::byte b) { return b > std::byte{1}; })) {
      errors.damaged("it is bool, and has bytes other than 0 and 1");
    }
    if (keep) to += count * wide;
    left -= count;
  }
  if (!keep || !array.fortran_order || shape.rank() < 2) return tensor;
  Shape dims;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) dims.push_back(dim);
  return tensor.permute(dims).contiguous();
}

Tensor dense_on_cpu(const Tensor& x) { return x.to(Device::cpu).contiguous(); }
int64_t bytes_in(const Tensor& x) { return x.numel() * size_of(x.dtype()); }

}  // namespace

Tensor read_npy(const std::filesystem::path& path, Where where) {
  const Call call("read_npy", where);
  const NoGrad guard;
  std::ifstream file = detail::open_to_read(path);
  const auto size = detail::file_size(file);
  const FileErrors errors{path.string(), "a .npy file"};
  const auto read = [&](void* to, int64_t bytes) {
    if (!file.read(static_cast<char*>(to), bytes)) errors.damaged("it ends too early");
  };
  return read_array({size, read}, errors, true);
}

void write_npy(const std::filesystem::path& path, const Tensor& x, Where where) {
  const Call call("write_npy", where);
  const NoGrad guard;
  const std::string header = detail::npy_header(x.dtype(), x.shape());
  const Tensor dense = dense_on_cpu(x);
  AtomicFile file(path);
  file.write(header.data(), std::ssize(header));
  file.write(detail::view(dense).data, bytes_in(dense));
  file.commit();
}

TensorMap read_npz(const std::filesystem::path& path, Where where) {
  const Call call("read_npz", where);
  const NoGrad guard;
  std::ifstream file = detail::open_to_read(path);
  FileErrors errors{path.string(), "a .npz file"};
  const auto size = detail::file_size(file);
  const std::vector<detail::ZipEntry> entries = detail::zip_entries(file, size, errors);
  TensorMap tensors;
  for (const bool keep : {false, true}) {
    for (const detail::ZipEntry& entry : entries) {
      const std::string shown = detail::shortened(entry.name);
      errors.part = fmt::format("'{}': ", shown);
      if (!entry.name.ends_with(kSuffix)) errors.refused("it is not an array; linnet reads only archives of arrays");
      const auto [place, is_new] = tensors.try_emplace(entry.name.substr(0, entry.name.size() - kSuffix.size()));
      if (is_new == keep) errors.damaged("the archive has it twice");
      detail::ZipEntryReader reader(file, entry, errors);
      const auto read = [&](void* to, int64_t bytes) { reader.read(to, bytes); };
      place->second = read_array({entry.size, read}, errors, keep);
      reader.finish();
    }
  }
  return tensors;
}

void write_npz(const std::filesystem::path& path, const TensorMap& tensors, Where where) {
  const Call call("write_npz", where);
  const NoGrad guard;
  for (const auto& [name, tensor] : tensors) {
    if (detail::utf8_bytes(name) == name.size() &&
        name.size() + kSuffix.size() <= std::numeric_limits<uint16_t>::max())
      continue;
    throw ValueError(
        fmt::format("the name '{}' is not UTF-8, or too long for a .npz file; rename it", detail::shortened(name)));
  }
  AtomicFile file(path);
  detail::ZipWriter archive(file);
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = dense_on_cpu(tensor);
    const std::string header = detail::npy_header(dense.dtype(), dense.shape());
    archive.add(name + std::string(kSuffix), header, detail::view(dense).data, bytes_in(dense));
  }
  archive.finish();
  file.commit();
}

}  // namespace linnet
