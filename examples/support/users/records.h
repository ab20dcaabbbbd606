#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/texts/lines.h"

namespace linnet::examples {

/// Reads a file with one record per line. A malformed line is skipped and counted, or ends the program.
class RecordReader {
 public:
  /// With `strict`, a malformed line is an error. Throws: as LineReader.
  RecordReader(const std::filesystem::path& path, bool strict);

  /// Calls `use` with each line that is not empty. `use` throws `Malformed` for a malformed line. Afterwards, a line
  /// on stderr says how many lines were skipped, and why the first one was.
  ///
  /// Throws: IoError, with the number of the first malformed line, if `strict` or if no line is left; and for a file
  /// without lines.
  template <class Use>
  void for_each(const Use& use) {
    while (file_.next()) {
      try {
        use(file_.line());
        ++used_;
      } catch (const Malformed& malformed) {
        leave_out(malformed.what());
      }
    }
    report();
  }

  /// An error in a line; the message says what was expected.
  struct Malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

 private:
  void leave_out(const std::string& why);
  void report() const;

  std::string path_;
  bool strict_;
  LineReader file_;
  int64_t used_ = 0, left_out_ = 0;
  std::string first_;  // why the first line was skipped
};

/// The parts of a line between separators. An empty text has one, which is empty.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace linnet::examples
