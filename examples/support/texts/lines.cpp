#include "support/texts/lines.h"

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>

namespace linnet::examples {
namespace {

constexpr size_t kLongest = size_t{1} << 24;

gzFile gz(void* file) { return static_cast<gzFile>(file); }

/// Opens the file, after checking that it is a file. (zlib would open a folder.)
gzFile opened(const std::filesystem::path& path) {
  linnet::detail::read_file(path, 1);
  errno = 0;
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) linnet::detail::cannot_read(path);
  return file;
}

}  // namespace

void LineReader::Close::operator()(void* file) const { gzclose(gz(file)); }

LineReader::LineReader(std::filesystem::path path) : path_(std::move(path)), file_(opened(path_)) {}

bool LineReader::next() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  while (read_line()) {
    ++number_;
    if (number_ == 1 && line_.starts_with(kByteOrderMark)) line_.erase(0, kByteOrderMark.size());
    if (line_.ends_with('\n')) line_.pop_back();
    if (line_.ends_with('\r')) line_.pop_back();
    if (line_.empty()) continue;
    refuse_byte_0(line_, place());
    return true;
  }
  return false;
}

std::string LineReader::place() const { return fmt::format("{}, line {}", path_.string(), number_); }

/// Reads a line with its end; false at the end of the file.
bool LineReader::read_line() {
  line_.clear();
  std::array<char, 4096> part;
  while (!line_.ends_with('\n')) {
    // gzgets stops at a line's end. Its result may contain zero bytes, so the position tells how much it read.
    const z_off_t before = gztell(gz(file_.get()));
    const bool is_read = gzgets(gz(file_.get()), part.data(), part.size()) != nullptr;
    int code = Z_OK;
    const char* const why = gzerror(gz(file_.get()), &code);
    if (code != Z_OK && code != Z_STREAM_END) {
      throw IoError(fmt::format("{}, after line {}: damaged ({}); copy it again", path_.string(), number_, why));
    }
    if (!is_read) break;
    line_.append(part.data(), static_cast<size_t>(gztell(gz(file_.get())) - before));
    if (line_.size() > kLongest) {
      throw IoError(fmt::format("{}, line {}: more than {} bytes; a text must be shorter", path_.string(),
                                number_ + 1, kLongest));
    }
  }
  return !line_.empty();
}

void refuse_byte_0(std::string_view text, const std::string& place) {
  if (text.find('\0') == std::string_view::npos) return;
  throw IoError(fmt::format("{}: a byte 0, so it is not UTF-8 text; save it as UTF-8", place));
}

}  // namespace linnet::examples
