#pragma once

#include <cstdint>
#include <string>

namespace linnet::examples {

/// The lines of data that cannot be read. They are skipped, with a line on stderr for each of the first ones, unless
/// they end the program.
class MalformedLines {
 public:
  explicit MalformedLines(bool strict) : strict_(strict) {}

  /// A line at `place`: "news.tsv, line 3". `why` says what is wrong and what was expected.
  ///
  /// Throws: IoError, if strict.
  void add(const std::string& place, const std::string& why);
  int64_t count() const { return count_; }
  /// Says on stderr how many lines were skipped, if any.
  void report(const std::string& data) const;

 private:
  bool strict_;
  int64_t count_ = 0;
};

}  // namespace linnet::examples
