#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/sources.h"

// The pages of derivations quote the lines of code that compute their steps, as `path:number` `code`.

namespace fs = std::filesystem;

namespace {

std::vector<std::string> lines_of(const std::string& file) {
  std::istringstream text(linnet::test::read_bytes(fs::path(LINNET_SOURCE_DIR) / file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The numbers of the lines that hold `code`, from 1 on.
std::vector<size_t> places_of(const std::string& code, const std::string& file) {
  const std::vector<std::string> lines = lines_of(file);
  std::vector<size_t> places;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(code) != std::string::npos) places.push_back(i + 1);
  }
  return places;
}

std::vector<std::string> pages() {
  std::vector<std::string> found;
  for (const std::string& file : linnet::test::files_below({"ops"})) {
    if (file.ends_with("_gradient.md")) found.push_back(file);
  }
  return found;
}

}  // namespace

TEST_CASE("derivations: each line of code that a page quotes is where the page says, and nowhere else in the file") {
  static const std::regex kQuote(R"re(`([\w/]+\.(?:cpp|h)):(\d+)`\s+`([^`]+)`)re");
  static const std::regex kNumber(R"re(\.(?:cpp|h):\d+)re");
  REQUIRE(pages().size() >= 7);
  for (const std::string& page : pages()) {
    const std::string text = linnet::test::read_bytes(fs::path(LINNET_SOURCE_DIR) / page);
    size_t quotes = 0;
    for (std::sregex_iterator match(text.begin(), text.end(), kQuote), end; match != end; ++match, ++quotes) {
      const std::string file = (*match)[1], code = (*match)[3];
      const std::vector<size_t> places = places_of(code, file);
      CHECK_MESSAGE(places.size() == 1, page, ": ", file, " has `", code, "` in ", places.size(),
                    " lines, not in one");
      if (places.size() != 1) continue;
      CHECK_MESSAGE(places[0] == std::stoul((*match)[2]), page, ": `", code, "` is at ", file, ":", places[0]);
    }
    CHECK_MESSAGE(quotes >= 4, page, " quotes ", quotes, " lines of code");
    const auto numbers =
        std::distance(std::sregex_iterator(text.begin(), text.end(), kNumber), std::sregex_iterator());
    CHECK_MESSAGE(numbers == static_cast<std::ptrdiff_t>(quotes), page, " has a line's number without a quote");
  }
}

TEST_CASE("derivations: ops/README.md lists every page") {
  const std::string list = linnet::test::read_bytes(fs::path(LINNET_SOURCE_DIR) / "ops/README.md");
  for (const std::string& page : pages()) {
    const std::string link = "(" + page.substr(std::string("ops/").size()) + ")";
    CHECK_MESSAGE(list.find(link) != std::string::npos, "ops/README.md has no link to ", page);
  }
}
