#pragma once

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/examples/run/tiny_run.h"
#include "tests/support/files.h"

namespace linnet::examples::test {

/// A file of `count` small expressions, from number `first` on.
inline std::string expressions(int first, int count) {
  std::string lines = "Source\tTarget\n";
  for (int i = first; i < first + count; ++i) {
    const int a = i % 10, b = (3 * i + i / 10) % 10, c = (7 * i + 1) % 10;
    lines += i % 3 == 0 ? fmt::format("( ( ( [MAX {} ) {} ) ] )\t{}\n", a, b, std::max(a, b))
                        : fmt::format("( ( ( ( [SM {} ) {} ) {} ) ] )\t{}\n", a, b, c, (a + b + c) % 10);
  }
  return lines;
}

/// A folder with a small ListOps (24 expressions in each part) where programs look for it. Programs can write there.
class Expressions {
 public:
  Expressions() {
    std::filesystem::create_directories(folder_ / "data/listops");
    int first = 0;
    for (const std::string part : {"train", "val", "test"}) {
      linnet::test::write_bytes(folder_ / ("data/listops/basic_" + part + ".tsv"), expressions(first, 24));
      first += 24;
    }
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// The flags of a very short run into the folder `out`.
  Arguments tiny(const std::string& out, const std::string& attention = "softmax") const {
    return {"--preset", "lra-listops", "--data",       folder_ / "data",
            "--out",    folder_ / out, "--attention",  attention,
            "--layers", "1",           "--width",      "16",
            "--heads",  "2",           "--steps",      "6",
            "--batch",  "8",           "--eval-every", "2"};
  }

 private:
  linnet::test::TemporaryFolder folder_;
};

inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::istringstream lines(linnet::test::read_bytes(run / "metrics.jsonl"));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

inline nlohmann::json results_of(const std::filesystem::path& run) {
  return nlohmann::json::parse(linnet::test::read_bytes(run / "results.json"));
}

}  // namespace linnet::examples::test
