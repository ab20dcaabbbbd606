#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/files.h"

// The papers' page names places as `ops/fastmax/reference.cpp`: `[FAST eq.5]`, a file and a text in it; programs as
// `build/bin/bench …`; and, in a column of its tables, results that a README has.

namespace fs = std::filesystem;

namespace {

std::string project_file(const std::string& name) {
  return linnet::test::read_bytes(fs::path(LINNET_SOURCE_DIR) / name);
}

/// All matches of `pattern` in `text`, as their groups.
std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream stream(row);
  for (std::string cell; std::getline(stream, cell, '|');) cells.push_back(cell);
  return cells;
}

}  // namespace

TEST_CASE("papers: each place that the page names exists") {
  const std::string page = project_file("examples/docs/papers.md");
  static const std::regex kPlace(R"(`([^`\s]+\.(?:cpp|h|cu|cuh))`(?::\s+`([^`]+)`)?)");
  const std::vector<std::smatch> places = matches(page, kPlace);
  CHECK(places.size() > 40);
  for (const std::smatch& place : places) {
    const std::string file = place[1], text = place[2];
    CAPTURE(file);
    REQUIRE(fs::exists(fs::path(LINNET_SOURCE_DIR) / file));
    CHECK_MESSAGE(!text.empty(), "no text of the file is named");
    CHECK_MESSAGE(project_file(file).find(text) != std::string::npos, "it has no ", text);
  }
}

TEST_CASE("papers: each program that the page names exists, and each equation of the other tests is there") {
  const std::string page = project_file("examples/docs/papers.md");
  const std::vector<std::smatch> programs = matches(page, std::regex("build/bin/([a-z_]+)"));
  CHECK(programs.size() > 15);
  for (const std::smatch& program : programs) {
    CHECK_MESSAGE(fs::exists(fs::path(LINNET_SOURCE_DIR) / ("examples/" + program.str(1) + ".cpp")), program.str(1));
  }
  for (const char* subject : {"figure 1", "figure 2", "figure 3", "figure 4", "table 1", "table 2"}) {
    CHECK_MESSAGE(matches(page, std::regex(std::string("\n\\| ") + subject + " \\|")).size() == 2, subject);
  }
}

TEST_CASE("papers: each result on the page is one of a README") {
  const std::string readmes = project_file("README.md") + project_file("examples/README.md");
  std::istringstream page(project_file("examples/docs/papers.md"));
  static const std::regex kNumber(R"([0-9][0-9,]*(?:\.[0-9]+)?)");
  int results = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| figure") && !line.starts_with("| table")) continue;
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE_MESSAGE(cells.size() >= 6, line);
    for (const std::smatch& number : matches(cells[4], kNumber)) {
      ++results;
      CHECK_MESSAGE(readmes.find(number.str()) != std::string::npos, line);
    }
  }
  CHECK(results > 8);
}
