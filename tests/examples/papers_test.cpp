#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/child_program.h"
#include "tests/support/files.h"

// The papers' page names places (a file and a text in it) as `ops/fastmax/reference.cpp`: `[FAST eq.5]`, and commands
// as `build/bin/bench …`. A column of its tables has results, which must be in a README.

namespace fs = std::filesystem;

namespace {

std::string project_file(const std::string& name) {
  return linnet::test::read_bytes(fs::path(LINNET_SOURCE_DIR) / name);
}

std::string papers_page() { return project_file("examples/docs/papers.md"); }

/// All matches of `pattern` in `text`, with their groups.
std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

/// The cells of a table's row, after an empty first cell. Empty for other lines.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream stream(row.starts_with("| ") ? row : "");
  for (std::string cell; std::getline(stream, cell, '|');) cells.push_back(cell);
  return cells;
}

/// The lines of the page from the heading of a paper up to the next one.
std::vector<std::string> lines_on(const std::string& paper) {
  std::istringstream page(papers_page());
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line.find(paper) != std::string::npos;
    if (inside) lines.push_back(line);
  }
  return lines;
}

/// The numbers of equations in a row's first cell, such as " 11, 12 " or " 13–15 "; none for another cell.
std::vector<int> equations_of(const std::string& cell) {
  static const std::regex kCell(R"( (\d+)(?:(, |–)(\d+))? )");
  std::smatch match;
  if (!std::regex_match(cell, match, kCell)) return {};
  const int first = std::stoi(match[1]), last = match[3].matched ? std::stoi(match[3]) : first;
  std::vector<int> numbers;
  if (match[2] == ", " && last != first + 1) return {first, last};
  for (int number = first; number <= last; ++number) numbers.push_back(number);
  return numbers;
}

/// The integers and decimals of a text, except those that are parts of words, as in Fastmax1.
std::set<std::string> numbers_of(const std::string& text) {
  static const std::regex kNumber(R"((?:^|[^\w.,])(\d+(?:,\d{3})*(?:\.\d+)?)(?!\w))");
  std::set<std::string> numbers;
  for (const std::smatch& match : matches(text, kNumber)) numbers.insert(match[1]);
  return numbers;
}

/// The numbers of each paragraph of the READMEs together with the next one, which may be its table.
std::vector<std::set<std::string>> numbers_of_readmes() {
  std::vector<std::set<std::string>> paragraphs(1);
  for (const char* readme : {"README.md", "examples/README.md"}) {
    std::istringstream lines(project_file(readme));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) paragraphs.emplace_back();
      paragraphs.back().merge(numbers_of(line));
    }
  }
  for (size_t i = 0; i + 1 < paragraphs.size(); ++i) {
    paragraphs[i].insert(paragraphs[i + 1].begin(), paragraphs[i + 1].end());
  }
  return paragraphs;
}

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream stream(command);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

TEST_CASE("papers: each place that the page names exists") {
  const std::string page = papers_page();
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

TEST_CASE("papers: each equation, figure and table has one row") {
  struct Paper {
    std::string name;
    int equations, figures, tables;
  };
  for (const Paper& paper : {Paper{"Wu et al. 2021", 6, 4, 9}, Paper{"Gerami et al. 2024", 37, 6, 2}}) {
    CAPTURE(paper.name);
    std::map<std::string, int> rows;
    for (const std::string& line : lines_on(paper.name)) {
      const std::vector<std::string> cells = cells_of(line);
      if (cells.size() < 2) continue;
      for (const int number : equations_of(cells[1])) ++rows["equation " + std::to_string(number)];
      if (std::regex_match(cells[1], std::regex(R"( (?:figure|table) \d+ )"))) {
        ++rows[cells[1].substr(1, cells[1].size() - 2)];
      }
    }
    std::map<std::string, int> expected;
    const auto expect = [&](const std::string& what, int count) {
      for (int number = 1; number <= count; ++number) expected[what + " " + std::to_string(number)] = 1;
    };
    expect("equation", paper.equations), expect("figure", paper.figures), expect("table", paper.tables);
    for (const auto& [what, count] : expected) CHECK_MESSAGE(rows[what] == 1, what);
    for (const auto& [what, count] : rows) CHECK_MESSAGE(expected.contains(what), what);
  }
}

TEST_CASE("papers: the program of each command takes its flags") {
  const std::string page = papers_page();
  const std::vector<std::smatch> commands = matches(page, std::regex("`build/bin/([^`]+)`"));
  CHECK(commands.size() > 15);
  for (const std::smatch& command : commands) {
    std::vector<std::string> words = words_of(command[1]);
    const std::string program = words.front();
    words.erase(words.begin());
    words.emplace_back("--no-such-flag");  // if the error names only this flag, the others are right
    const linnet::test::Ended ended = linnet::test::run_program(program, words);
    CHECK_MESSAGE(ended.code == 2, command.str());
    CHECK_MESSAGE(ended.err.find("not expected: --no-such-flag;") != std::string::npos, command.str(), ": ",
                  ended.err);
  }
}

TEST_CASE("papers: the results of each row are those of one paragraph of a README") {
  const std::vector<std::set<std::string>> readmes = numbers_of_readmes();
  std::istringstream page(papers_page());
  static const std::regex kRow(R"(\| (?:figure|table) \d+ \|.*)");
  int results = 0;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, kRow)) continue;
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE_MESSAGE(cells.size() >= 6, line);
    const std::set<std::string> numbers = numbers_of(cells[4]);
    if (!numbers.empty()) ++results;
    const bool found = std::ranges::any_of(
        readmes, [&](const std::set<std::string>& paragraph) { return std::ranges::includes(paragraph, numbers); });
    CHECK_MESSAGE(found, line);
  }
  CHECK(results >= 8);
}
