#include <linnet/nn/data/idx.h>

#include <memory>
#include <span>

#include <fmt/format.h>
#include <zlib.h>

#include <linnet/core/error.h>

namespace linnet::nn {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 31;

/// zlib's reader takes plain files as they are and unpacks gzip ones.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) throw IoError(fmt::format("cannot open {}", path.string()));
  }

  void read(std::span<uint8_t> out, const char* what) {
    for (size_t done = 0; done < out.size();) {
      const auto wanted = static_cast<unsigned>(std::min<size_t>(out.size() - done, 1u << 20));
      const int got = gzread(file_.get(), out.data() + done, wanted);
      check_stream(got);
      if (got == 0) {
        throw IoError(fmt::format("{} is truncated: {} of {} bytes of its {} are there; fetch it again",
                                  path_.string(), done, out.size(), what));
      }
      done += static_cast<size_t>(got);
    }
  }

  /// Also verifies the checksum at the end of a gzip stream.
  void expect_end() {
    uint8_t more = 0;
    const int got = gzread(file_.get(), &more, 1);
    check_stream(got);
    if (got > 0) throw IoError(fmt::format("{} is longer than its header says", path_.string()));
  }

 private:
  void check_stream(int got) {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (got >= 0 && (code == Z_OK || code == Z_STREAM_END)) return;
    throw IoError(fmt::format("{} is corrupt: {}; fetch it again", path_.string(), text));
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

uint32_t big_endian(const uint8_t* b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  constexpr uint8_t kUnsignedByte = 0x08;
  Reader reader(path);
  uint8_t magic[4];
  reader.read(magic, "magic number");
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
    throw IoError(fmt::format("{} is not an IDX file: it starts with {:02x} {:02x} {:02x} {:02x}", path.string(),
                              magic[0], magic[1], magic[2], magic[3]));
  }
  if (magic[2] != kUnsignedByte) {
    throw IoError(fmt::format("{} has IDX element type 0x{:02x}; only unsigned bytes (0x08) are read", path.string(),
                              magic[2]));
  }
  IdxArray array;
  int64_t bytes = 1;
  for (int d = 0; d < magic[3]; ++d) {
    uint8_t size[4];
    reader.read(size, "header");
    array.shape.push_back(big_endian(size));
    bytes *= big_endian(size);
    if (bytes > kMaxBytes) {
      throw IoError(fmt::format("{} claims a shape of {}, more than 2 GiB: its header is corrupt", path.string(),
                                to_string(array.shape)));
    }
  }
  array.bytes.resize(static_cast<size_t>(bytes));
  reader.read(array.bytes, "elements");
  reader.expect_end();
  return array;
}

}  // namespace linnet::nn
