#include <linnet/nn/data/idx.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/read_file.h>

namespace linnet::nn {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int64_t kMaxBytes = int64_t{1} << 31;
constexpr int64_t kChunk = 1 << 20;

/// A file read through zlib, which unpacks gzip and reads plain files as they are.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) detail::cannot_read(path);
  }

  void read(std::span<uint8_t> out, const char* what) {
    const int got = read_some(out);
    if (got < std::ssize(out)) fail_truncated(got, std::ssize(out), what);
  }

  /// Reads the rest of the file, which must be `count` bytes. A first pass only counts them. The memory is allocated
  /// after this pass, so that none is allocated for a wrong size in a header, or for compressed data that do not
  /// match it.
  std::vector<uint8_t> read_rest(int64_t count, const char* what) {
    const z_off_t begin = gztell(file_.get());
    std::vector<uint8_t> chunk(static_cast<size_t>(std::min(count + 1, kChunk)));
    int64_t there = 0;
    while (const int got = read_some(chunk)) {  // at the end zlib verifies the checksum of a gzip stream
      there += got;
      if (there > count) throw IoError(fmt::format("{} is longer than its header says", path_.string()));
    }
    if (there < count) fail_truncated(there, count, what);
    if (gzseek(file_.get(), begin, SEEK_SET) < 0) {
      throw IoError(fmt::format("{} cannot be read twice; give a file, not a pipe", path_.string()));
    }
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t size = std::min(kChunk, count - done);
      read(std::span(bytes).subspan(static_cast<size_t>(done), static_cast<size_t>(size)), what);
    }
    return bytes;
  }

 private:
  /// Reads bytes into `out`; fewer than its size only at the end of the file.
  int read_some(std::span<uint8_t> out) {
    const int got = gzread(file_.get(), out.data(), static_cast<unsigned>(out.size()));
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw IoError(fmt::format("{} cannot be read: {}; fetch it again", path_.string(), text));
    }
    return got;
  }

  [[noreturn]] void fail_truncated(int64_t done, int64_t count, const char* what) const {
    throw IoError(fmt::format("{} is truncated: {} of {} bytes of its {} are there; fetch it again", path_.string(),
                              done, count, what));
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

uint32_t big_endian(const std::array<uint8_t, 4>& b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  Reader reader(path);
  std::array<uint8_t, 4> magic;
  reader.read(magic, "magic number");
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
    throw IoError(fmt::format("{} is not an IDX file: it starts with {:02x} {:02x} {:02x} {:02x}", path.string(),
                              magic[0], magic[1], magic[2], magic[3]));
  }
  if (magic[2] != kUnsignedByte) {
    throw IoError(fmt::format("{} has IDX element type 0x{:02x}; only unsigned bytes (0x08) are read", path.string(),
                              magic[2]));
  }
  if (magic[3] > kMaxRank) {
    throw IoError(
        fmt::format("{} claims {} dims, more than {}: its header is corrupt", path.string(), magic[3], kMaxRank));
  }
  IdxArray array;
  int64_t bytes = 1;
  for (int d = 0; d < magic[3]; ++d) {
    std::array<uint8_t, 4> size;
    reader.read(size, "header");
    array.shape.push_back(big_endian(size));
    bytes *= big_endian(size);
    if (bytes > kMaxBytes) {
      throw IoError(fmt::format("{} claims a shape of {}, more than 2 GiB: its header is corrupt", path.string(),
                                to_string(array.shape)));
    }
  }
  array.bytes = reader.read_rest(bytes, "elements");
  return array;
}

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  const Shape& shape = array.shape;
  if (shape.rank() == 0) throw ValueError("write_idx: IDX has no arrays without dims; give it the shape [1]");
  std::vector<uint8_t> header{0, 0, kUnsignedByte, static_cast<uint8_t>(shape.rank())};
  for (const int64_t size : shape) {
    if (!std::in_range<uint32_t>(size)) {
      throw ValueError(fmt::format("write_idx: the shape {} has a size that 32 bits do not hold", to_string(shape)));
    }
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<uint8_t>(size >> shift));
  }
  if (checked_numel(shape) > kMaxBytes) {
    throw ValueError(fmt::format(
        "write_idx: an array of shape {} has more than {} bytes, which read_idx refuses; write several files",
        to_string(shape), kMaxBytes));
  }
  if (std::ssize(array.bytes) != checked_numel(shape)) {
    throw ShapeError(
        fmt::format("write_idx: {} bytes do not fill the shape {}", array.bytes.size(), to_string(shape)));
  }
  AtomicFile file(path);
  file.write(header.data(), std::ssize(header));
  file.write(array.bytes.data(), std::ssize(array.bytes));
  file.commit();
}

}  // namespace linnet::nn
