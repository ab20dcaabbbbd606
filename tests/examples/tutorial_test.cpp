#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/child_program.h"
#include "tests/support/files.h"

// The chapters of examples/tutorial check their own statements and end with status 1 if one is false. The tests run
// them without data sets, and check the form of their text, from which the pages are made.

namespace fs = std::filesystem;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;

namespace {

const fs::path kTutorial = fs::path(LINNET_SOURCE_DIR) / "examples/tutorial";

/// The names of the chapters, in order.
std::vector<std::string> chapters() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kTutorial)) {
    if (entry.path().extension() == ".cpp") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string source_of(const std::string& chapter) { return read_bytes(kTutorial / (chapter + ".cpp")); }

int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

/// Some lines of the chapters' output, in order, by the chapters' numbers.
const std::map<std::string, std::vector<std::string>> kFacts{
    {"01",
     {"dL/dw by hand        2.379421020301", "by difference  2.3794210", "by the engine  2.379421020301",
      "dL/db by hand        1.189710510151", "by the engine  1.189710510151"}},
    {"02",
     {"[[ 0. 10.  2.]", "its transpose, [3, 2], with the strides [1, 3]", "[10.  4.]", "[ 4  8 12 16 20]]",
      "shapes [2, 3] and [2] do not broadcast", "dL/db, [4]", "differ from linnet's by less than 1e-12"}},
    {"03",
     {"d(w²)/dw at 3, added twice: 12", "the second derivative: 2", "needs was edited in place after this call",
      "n = 64: 802817 nodes in the list, 4 in linnet"}},
    {"04", {"digits", "test images are read correctly", "batch x, y", "zero_grad", "takes 13.0 million operations"}},
    {"05",
     {"curvatures at (1, 1): 51.61 and 0.388", "must be below 0.03875", "SGD       loss 5.9e-01 after 50 steps",
      "momentum  loss 1.3e-01", "RMSprop   loss 3.2e-01", "Adam      loss 1.4e-02"}},
    {"06", {"width  16: scores deviate by 4.0", "width 256: scores deviate by 16.0"}},
    {"07", {"N =  256: ", "N = 2048: ", "MiB with the array", "MiB in tiles"}},
    {"08", {"by cumsum          [nan nan]", "attention_pool  [ 0.34610744 -1.16928038]", "be       [ 0.34610744"}},
    {"09", {"both forms and linnet's fastmax agree to 1e-12", "D = 16: 273 features, or 153 without doubles"}},
    {"10", {"the gradients by hand are the tape's, to 1e-12", "4,096 tokens: the tape keeps 10.3 MB"}},
    {"11", {"the same mask to the bit"}},
    {"12", {"guessing ", "counts ", "counts of pairs ", "softmax: ", "fastmax2: ", "2,000 characters: "}},
    {"13", {"all four compute the same product"}},
    {"14", {"64 blocks of 256 threads computed a·b", "a warp's load of b takes 2 accesses, 16 with x and y"}},
    {"15", {"snake: first and second derivatives agree", "learns to repeat", "do not change earlier outputs"}},
};

}  // namespace

TEST_CASE("tutorial: every chapter runs, and prints what its text says") {
  REQUIRE(chapters().size() == kFacts.size());
  for (const std::string& chapter : chapters()) {
    CAPTURE(chapter);
    const Ended ended = run_program("tutorial/" + chapter, {});
    CHECK_MESSAGE(ended.code == 0, ended.err);
    size_t at = 0;
    for (const std::string& fact : kFacts.at(chapter.substr(0, 2))) {
      at = ended.out.find(fact, at);
      CHECK_MESSAGE(at != std::string::npos, fact, " is not in order in\n", ended.out);
    }
  }
}

TEST_CASE("tutorial: the solutions of every chapter's exercises run") {
  for (const std::string& chapter : chapters()) {
    CAPTURE(chapter);
    const Ended ended = run_program("tutorial/solutions/" + chapter, {});
    CHECK_MESSAGE(ended.code == 0, ended.err);
    CHECK(std::regex_search(ended.out, std::regex("1\\.[^]*\n2\\.[^]*\n3\\.")));
  }
}

TEST_CASE("tutorial: chapters have the form that their pages are made from") {
  int number = 0;
  for (const std::string& chapter : chapters()) {
    CAPTURE(chapter);
    const std::string source = source_of(chapter);
    ++number;
    CHECK(std::stoi(chapter) == number);
    CHECK(source.starts_with("// # " + std::to_string(number) + ". "));
    CHECK(lines_of(source) <= 120);
    CHECK(lines_of(read_bytes(kTutorial / "solutions" / (chapter + ".cpp"))) <= 120);
    CHECK(std::regex_search(source, std::regex("\n// <!-- output -->\n")));
    CHECK(std::regex_search(source, std::regex("\n// ## Exercises\n//\n// 1\\. [^]*\n// 2\\. [^]*\n// 3\\. ")));
    // Formulas must end in the line where they begin, so that every Markdown renderer finds their end.
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("//")) CHECK_MESSAGE(std::count(line.begin(), line.end(), '$') % 2 == 0, line);
    }
    // The program must draw each picture that the text shows.
    static const std::regex kPicture(R"(!\[[^\]]*\]\(([^)]*)\))");
    for (std::sregex_iterator picture(source.begin(), source.end(), kPicture), end; picture != end; ++picture) {
      const std::string name = (*picture)[1];
      CHECK(name.starts_with(chapter.substr(0, 2) + "_"));
      CHECK_MESSAGE(source.find('"' + name + '"') != std::string::npos, name);
    }
  }
}

TEST_CASE("tutorial: page.awk makes text of comments, and code of all other lines") {
  const linnet::test::TemporaryFolder folder;
  const fs::path source = folder.path() / "01_chapter.cpp", output = folder.path() / "01_chapter.txt";
  linnet::test::write_bytes(source,
                            "// # 1. A chapter\n//\n// Text with $x$.\n\nint x;\n\nint y;  // code\n\n// More.\n"
                            "int main() {\n  // code\n}\n// <!-- output -->\n// The end.\n");
  linnet::test::write_bytes(output, "1\n2\n");
  const std::vector<std::string> arguments{"-v", "output=" + output.string(), "-f", (kTutorial / "page.awk").string(),
                                           source.string()};
  const Ended page = run_program("/usr/bin/awk", arguments);
  CHECK(page.code == 0);
  CHECK(
      page.out ==
      "# 1. A chapter\n\nText with $x$.\n\n```cpp\nint x;\n\nint y;  // code\n```\n\nMore.\n\n```cpp\nint main() {\n"
      "  // code\n}\n```\n\nThe program prints:\n\n```text\n1\n2\n```\n\nThe "
      "end.\n\n[Solutions](solutions/01_chapter.md)\n");
  fs::remove(output);
  const Ended without = run_program("/usr/bin/awk", arguments);
  CHECK(without.code == 1);
  CHECK(without.err.find("cannot read " + output.string()) != std::string::npos);
}
