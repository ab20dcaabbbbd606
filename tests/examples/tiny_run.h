#pragma once

#include <string>
#include <vector>

#include "tests/support/child_program.h"

namespace linnet::examples::test {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A folder with a small text where programs look for Tiny Shakespeare, and room for what they write.
class Workshop {
 public:
  Workshop() {
    std::filesystem::create_directories(folder_ / "data/tinyshakespeare");
    const std::vector<std::string> words{"to be,", "or not", "to be:", "that is", "the question.\n", "Whether 'tis"};
    std::string text;
    for (size_t i = 0; text.size() < 6000; ++i) text += words[i * i % 7 % words.size()] + " ";
    set_text(text);
  }

  void set_text(const std::string& text) const {
    linnet::test::write_bytes(folder_ / "data/tinyshakespeare/input.txt", text);
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// The flags of a run of a moment, on that text, into the folder `out`.
  Arguments tiny(const std::string& out) const {
    return Arguments{"--data",  folder_ / "data", "--out",   folder_ / out, "--steps", "20", "--layers", "1", "--width",
                     "16",      "--heads",        "2",       "--context",   "16",      "--batch",       "4",
                     "--eval-every", "10",        "--eval-batches", "2"};
  }

 private:
  linnet::test::TemporaryFolder folder_;
};

}  // namespace linnet::examples::test
