#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/compiler.h"
#include "tests/support/files.h"
#include "tests/support/sources.h"

/// Every snippet in the public doc comments of core, ops and nn and every ```cpp block of the READMEs compiles. In a
/// doc comment, the lines that are indented by four spaces are a snippet: `///     Tensor x;`.

namespace fs = std::filesystem;

namespace {

/// The names that snippets use but do not declare.
constexpr const char* kPrelude = R"cpp(
#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <linnet/core/device/backend.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/linnet.h>

  namespace given {
  using namespace linnet;

  struct Model : nn::DecoderLM {
    using nn::DecoderLM::operator();
    Tensor operator()(const Tensor& x, const Tensor& mask) const;
  };

  extern Tensor x, y, a, b, inputs, targets;
  extern std::vector<Tensor> parameters;
  extern Generator rng, generator;
  extern Model model;
  extern nn::AdamW optimizer;
  extern nn::Schedule rate;
  extern int64_t i, step;
  extern nn::Mnist data;
  extern nn::Loader loader;
  extern nn::Vocabulary vocabulary;
  extern std::string text;
  extern std::filesystem::path folder;
  }  // namespace given
)cpp";

/// The kernel that README's example of a new op adds.
constexpr const char* kSoftsign = R"cpp(
  enum class Unary { softsign };
  namespace detail {
  Tensor unary(Unary op, const Tensor& x);
  }
  struct View {};
  extern View out, x;
  template <class In, class Out, class Function>
  void map(const View&, const View&, Function function) {
    const Out result = function(In(1));
    (void)result;
  }
)cpp";

/// The kernel of its example with a parameter, and the op's declaration.
constexpr const char* kSquareplus = R"cpp(
  enum class Binary { squareplus };
  namespace detail {
  Tensor binary(Binary op, const Tensor& a, const Tensor& b);
  Tensor number_beside(const Tensor& x, Scalar value);
  }  // namespace detail
  Tensor squareplus(const Tensor& x, double b = 4, Where where = {});
)cpp";

struct Snippet {
  fs::path file;
  size_t line;
  std::vector<std::string> lines;
};

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<Snippet> snippets_of_header(const fs::path& path) {
  static const std::regex kCode(R"(^ *///     (.*)$)");
  std::vector<Snippet> snippets;
  bool inside = false;
  size_t number = 0;
  for (const std::string& line : lines_of(path)) {
    ++number;
    std::smatch match;
    if (!std::regex_match(line, match, kCode)) {
      inside = false;
      continue;
    }
    if (!inside) snippets.push_back({path, number, {}});
    inside = true;
    snippets.back().lines.push_back(match[1]);
  }
  return snippets;
}

std::vector<Snippet> snippets_of_readme(const fs::path& path) {
  static const std::regex kBegin(R"(^ *```cpp$)"), kEnd(R"(^ *```$)");
  std::vector<Snippet> snippets;
  bool inside = false;
  size_t number = 0;
  for (const std::string& line : lines_of(path)) {
    ++number;
    if (inside && std::regex_match(line, kEnd)) inside = false;
    if (inside) snippets.back().lines.push_back(line);
    if (std::regex_match(line, kBegin)) {
      inside = true;
      snippets.push_back({path, number + 1, {}});
    }
  }
  return snippets;
}

std::vector<Snippet> all_snippets() {
  std::vector<std::string> files = linnet::test::files_below({"core", "ops", "nn", "cuda", "examples", "tests"});
  files.insert(files.begin(), "README.md");
  std::vector<Snippet> snippets;
  for (const std::string& name : files) {
    const fs::path path = fs::path(LINNET_SOURCE_DIR) / name;
    std::vector<Snippet> found;
    const bool is_kernel = name.starts_with("ops/cpu/");
    const bool is_public =
        !is_kernel && (name.starts_with("core/") || name.starts_with("ops/") || name.starts_with("nn/"));
    if (path.extension() == ".md") found = snippets_of_readme(path);
    if (path.extension() == ".h" && is_public) found = snippets_of_header(path);
    snippets.insert(snippets.end(), found.begin(), found.end());
  }
  return snippets;
}

/// A snippet in its own namespace: declarations unchanged, statements in a function, cases in a switch.
std::string compilable(const Snippet& snippet, size_t number) {
  static const std::regex kComment(R"(^ *//.*)");
  static const std::regex kDeclaration(R"(^ *(#include|struct |class |template|Tensor \w+\().*)");
  static const std::regex kCase(R"(^ *case .*)");
  std::string code;
  for (const std::string& line : snippet.lines) code += line + "\n";
  const auto first = std::ranges::find_if_not(
      snippet.lines, [](const std::string& line) { return line.empty() || std::regex_match(line, kComment); });
  const std::string head = first == snippet.lines.end() ? "" : *first;
  std::string before, after;
  if (std::regex_match(head, kCase)) {
    before = "template <class T> void snippet(Unary op) { switch (op) {\n";
    after = "} }\ntemplate void snippet<float>(Unary);\n";
  } else if (!std::regex_match(head, kDeclaration)) {
    before = "void snippet() {\n";
    after = "}\n";
  }
  return "namespace snippet_" + std::to_string(number) + " {\nusing namespace linnet;\nusing namespace given;\n" +
         (code.find("softsign") == std::string::npos ? "" : kSoftsign) +
         (code.find("squareplus") == std::string::npos ? "" : kSquareplus) + before + "#line " +
         std::to_string(snippet.line) + " \"" + snippet.file.string() + "\"\n" + code + after + "}\n";
}

}  // namespace

#ifdef LINNET_TEST_COMPILER
TEST_CASE("snippets: doc comments and READMEs compile") {
  if (!linnet::test::has_compiler()) {
    std::printf("SKIPPED: snippets: the compiler is not here any more\n");
    return;
  }
  const std::vector<Snippet> snippets = all_snippets();
  CHECK(snippets.size() >= 20);
  std::string code = kPrelude;
  for (size_t i = 0; i < snippets.size(); ++i) code += compilable(snippets[i], i);
  const linnet::test::TemporaryFolder folder;
  linnet::test::write_bytes(folder / "snippets.cpp", code);
  const auto [compiles, messages] = linnet::test::compile(folder / "snippets.cpp");
  CHECK_MESSAGE(compiles, messages);
}
#endif
