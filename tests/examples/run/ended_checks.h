#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json.hpp>

#include "tests/examples/run/tiny_run.h"

/// Checks that several tests share: how programs end, with which exit code and line on stderr, and which files their
/// runs leave.

namespace linnet::examples::test {

/// Checks that a program ended with this code, and that `part` is in its output on stderr.
inline void check_says(const linnet::test::Ended& ended, int code, const std::string& part) {
  CAPTURE(ended.out);
  CAPTURE(ended.err);
  CHECK(ended.code == code);
  CHECK(ended.err.find(part) != std::string::npos);
}

/// Checks a wrong command line: one line on stderr, which begins with the program's name.
inline void check_usage(const std::string& program, const linnet::test::Ended& ended, const std::string& part) {
  check_says(ended, 2, part);
  CHECK(ended.err.starts_with(program + ": "));
  CHECK(std::ranges::count(ended.err, '\n') == 1);
}

/// Checks exit code 1: one line on stderr, after another line if a stand-in for the data was used.
inline void check_fails(const linnet::test::Ended& ended, const std::string& part, bool with_stand_in = false) {
  check_says(ended, 1, part);
  CHECK(std::ranges::count(ended.err, '\n') == (with_stand_in ? 2 : 1));
}

/// The mechanisms of the tested runs, on texts and on images.
inline const Arguments kMechanisms = nn::causal_mechanisms();
inline const Arguments kImageMechanisms = nn::attention_mechanisms();

/// Whether the data set is in data/ beside the project. Programs then find it and use no stand-in, so this prints
/// that the test is skipped.
inline bool stand_in_hidden(const std::string& data_set) {
  if (!std::filesystem::exists(std::filesystem::path(LINNET_SOURCE_DIR) / "data" / data_set)) return false;
  std::printf("SKIPPED: data/%s takes the stand-in's place\n", data_set.c_str());
  return true;
}

inline void check_done(const linnet::test::Ended& ended) {
  CHECK(ended.code == 0);
  CHECK(ended.err == "");
}

/// Checks a run without data: one line on stderr says so.
inline void check_done_with(const std::string& stand_in, const linnet::test::Ended& ended) {
  CHECK(ended.code == 0);
  CHECK(ended.err.ends_with("taking " + stand_in + " instead\n"));
  CHECK(std::ranges::count(ended.err, '\n') == 1);
}

/// The same for a program that finds its text, but no digits.
inline void check_done(const std::string& program, const linnet::test::Ended& ended) {
  program == "train_mnist" ? check_done_with("drawn digits", ended) : check_done(ended);
}

inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& folder) {
  std::istringstream lines(linnet::test::read_bytes(folder / "metrics.jsonl"));
  std::vector<nlohmann::json> metrics;
  for (std::string line; std::getline(lines, line);) metrics.push_back(nlohmann::json::parse(line));
  return metrics;
}

}  // namespace linnet::examples::test
