#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace linnet::examples {

/// Reads a file line by line, plain or compressed by gzip. Lines may end with CR LF, and a byte order mark is
/// skipped.
class LineReader {
 public:
  /// Throws: IoError for a file that cannot be read.
  explicit LineReader(std::filesystem::path path);

  /// Goes on to the next line that is not empty; false at the end.
  ///
  /// Throws: IoError for a compressed file that is damaged, and for a line of more than 16 MiB or with a byte 0.
  bool next();
  std::string_view line() const { return line_; }  ///< valid until the next call of `next`
  int64_t number() const { return number_; }       ///< of the line, from 1
  /// "news.tsv, line 3", with the path.
  std::string place() const;

 private:
  struct Close {
    void operator()(void* file) const;
  };

  bool read_line();

  std::filesystem::path path_;
  std::unique_ptr<void, Close> file_;  // a gzFile
  std::string line_;
  int64_t number_ = 0;
};

/// Throws IoError if the text has a byte 0, as UTF-16 has. `place` is the file, or the line in it.
void refuse_byte_0(std::string_view text, const std::string& place);

}  // namespace linnet::examples
