#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/child_program.h"

namespace linnet::examples::test {

using Arguments = std::vector<std::string>;

/// The flags of both. For a flag that both have, the value is that of `b`.
inline Arguments operator+(Arguments a, const Arguments& b) {
  for (const std::string& flag : b) {
    const auto before = flag.starts_with("--") ? std::find(a.begin(), a.end(), flag) : a.end();
    if (before != a.end()) a.erase(before, before + 2);
  }
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A folder with a small text where programs look for Tiny Shakespeare. Programs can write there.
class Workshop {
 public:
  /// The programs' name for that text.
  static inline const std::string kTextName = "tinyshakespeare/input.txt (6000 bytes, crc32 5bd9502e)";

  Workshop() {
    std::filesystem::create_directories(folder_ / "data/tinyshakespeare");
    const std::vector<std::string> words{"to be,", "or not", "to be:", "that is", "the question.\n", "Whether 'tis"};
    std::string text;
    for (size_t i = 0; text.size() < 6000; ++i) text += words[(i * i + i / 5) % words.size()] + " ";
    set_text(text);
  }

  void set_text(const std::string& text) const {
    linnet::test::write_bytes(folder_ / "data/tinyshakespeare/input.txt", text);
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// The flags of a small model for that text, for `bench step`.
  Arguments tiny_model() const {
    return {"--data", folder_ / "data", "--layers", "1", "--width", "16", "--heads", "2", "--context", "16"};
  }
  /// The flags of a very short run on that text, into the folder `out`.
  Arguments tiny(const std::string& out) const {
    return Arguments{"--data", folder_ / "data"} + model_flags(out) +
           Arguments{"--steps", "20", "--context", "16", "--batch", "4", "--eval-every", "10"};
  }
  /// The same for train_mnist, on the stand-in.
  Arguments tiny_images(const std::string& out) const {
    return model_flags(out) + Arguments{"--steps", "4", "--patch", "7", "--batch", "32", "--eval-every", "2"};
  }

 private:
  Arguments model_flags(const std::string& out) const {
    return {"--out", folder_ / out, "--layers", "1", "--width", "16", "--heads", "2", "--eval-batches", "2"};
  }

  linnet::test::TemporaryFolder folder_;
};

/// Runs a program, which must succeed.
inline linnet::test::Ended done(const std::string& program, const Arguments& flags) {
  linnet::test::Ended ended = linnet::test::run_program(program, flags);
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  return ended;
}

/// Checks that a program printed one line, which contains `part`.
inline void check_refused(const linnet::test::Ended& ended, int code, const std::string& part) {
  CAPTURE(ended.err);
  CHECK(ended.code == code);
  CHECK(ended.err.find(part) != std::string::npos);
  CHECK(std::ranges::count(ended.err, '\n') == 1);
}

inline nlohmann::json config_of(const std::filesystem::path& run) {
  return nlohmann::json::parse(linnet::test::read_bytes(run / "config.json"));
}

/// The names in a folder, in alphabetical order.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace linnet::examples::test
