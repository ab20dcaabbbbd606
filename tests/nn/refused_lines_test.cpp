#include <algorithm>
#include <cstdio>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compiler.h"
#include "tests/support/files.h"

/// For every line of another library that linnet refuses, the compiler's message says what to write instead.

#ifdef LINNET_TEST_COMPILER

using linnet::test::TemporaryFolder;

namespace {

/// A line of tests/nn/first_lines/refused.txt, and what the compiler must say of it; nothing if the line is right.
struct RefusedLine {
  std::string code, says;
};

std::vector<RefusedLine> refused_lines() {
  const std::string mark = "// says: ";
  std::vector<RefusedLine> lines;
  std::ifstream file(LINNET_TEST_DATA "/nn/first_lines/refused.txt");
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(mark);
    if (at == std::string::npos) {
      lines.push_back({line, ""});
    } else {
      lines.push_back({line.substr(0, at), line.substr(at + mark.size())});
    }
  }
  return lines;
}

/// Takes the lines of the next program: all but those whose message would also pass for a line that
/// the program already has.
std::vector<RefusedLine> next_program(std::vector<RefusedLine>& lines) {
  std::vector<RefusedLine> program, left;
  for (const RefusedLine& line : lines) {
    const bool shared = !line.says.empty() && std::ranges::any_of(program, [&](const RefusedLine& other) {
      return !other.says.empty() &&
             (other.says.find(line.says) != std::string::npos || line.says.find(other.says) != std::string::npos);
    });
    (shared ? left : program).push_back(line);
    if (line.says.empty()) left.push_back(line);  // each program needs it
  }
  lines = left;
  return program;
}

}  // namespace

// The compiler must not see the wanted texts, since it prints lines of its input. It says some messages only once, so
// lines that share one are compiled one after the other.
TEST_CASE("first lines: what is refused says what to write instead") {
  if (!linnet::test::has_compiler()) {
    std::printf("SKIPPED: first lines: the compiler is not here any more\n");
    return;
  }
#ifdef __clang__
  const std::string all_errors = "-ferror-limit=0";
#else
  const std::string all_errors = "-fmax-errors=0";
#endif
  const TemporaryFolder folder;
  const auto refused = [](const RefusedLine& line) { return !line.says.empty(); };
  std::vector<RefusedLine> lines = refused_lines();
  CHECK(std::ranges::count_if(lines, refused) >= 100);
  while (std::ranges::any_of(lines, refused)) {
    const std::vector<RefusedLine> program = next_program(lines);
    std::string text;
    for (const RefusedLine& line : program) text += line.code + "\n";
    linnet::test::write_bytes(folder / "refused.txt", text);
    const auto [compiles, messages] = linnet::test::compile(folder / "refused.txt", all_errors);
    CHECK_FALSE(compiles);
    const std::string said = std::regex_replace(messages, std::regex(R"(\\")"), "\"");  // clang 14 writes \" for "
    for (const RefusedLine& line : program) {
      CHECK_MESSAGE(said.find(line.says) != std::string::npos, line.code, "must say: ", line.says);
    }
  }
}

#endif
