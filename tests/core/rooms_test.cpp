#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/sources.h"

// A folder of sources is a room. The headers of a room may only include those of rooms below it. So one can read the
// rooms one after the other, and a change in a room cannot affect those below.

namespace fs = std::filesystem;
using linnet::test::files_below;

namespace {

using Includes = std::map<std::string, std::set<std::string>>;

const std::vector<std::string> kTop{"core", "ops", "nn", "cuda", "examples"};

/// The files of the project that `file` includes; all by their paths from its root.
std::vector<std::string> includes_of(const std::string& file) {
  const fs::path root = LINNET_SOURCE_DIR;
  static const std::regex kInclude(R"re(#include (?:<linnet/|")([\w/]+\.(?:h|cuh))[>"])re");
  const std::string text = linnet::test::read_bytes(root / file);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), kInclude), end; match != end; ++match) {
    for (const char* folder : {"", "examples"}) {
      const fs::path path = fs::path(folder) / (*match)[1].str();
      if (fs::exists(root / path)) found.push_back(path.string());
    }
  }
  return found;
}

/// A cycle along `arrows`; empty if there is none.
std::vector<std::string> find_cycle(const Includes& arrows) {
  std::set<std::string> done;
  std::vector<std::string> way;
  const std::function<bool(const std::string&)> closes = [&](const std::string& from) {
    const auto seen = std::find(way.begin(), way.end(), from);
    if (seen != way.end()) {
      way.erase(way.begin(), seen);
      return true;
    }
    if (done.contains(from)) return false;
    way.push_back(from);
    const auto to = arrows.find(from);
    if (to != arrows.end()) {
      for (const std::string& next : to->second) {
        if (closes(next)) return true;
      }
    }
    way.pop_back();
    done.insert(from);
    return false;
  };
  for (const auto& [from, to] : arrows) {
    if (closes(from)) return way;
  }
  return {};
}

std::string joined(const std::vector<std::string>& way) {
  std::ostringstream text;
  for (const std::string& step : way) text << step << " → ";
  return text.str() + (way.empty() ? "" : way.front());
}

/// The functions, with their parameters, and the constants and types with internal linkage in `text`.
std::set<std::string> helpers_of(const std::string& text) {
  static const std::regex kFunction(R"re(\n[a-z][\w:<>,&* ]* [&*]?(\w+\([^{};]*\)) \{)re");
  static const std::regex kOther(
      R"re(\n(?:struct|class|enum class|constexpr [\w:<>, ]+) (\w+)(?:\[\w*\])?(?: =|\{| [{:]))re");
  const auto begin = text.find("\nnamespace {\n"), end = text.find("\n}  // namespace\n");
  if (begin == std::string::npos || end == std::string::npos) return {};
  const std::string helpers = text.substr(begin, end - begin);
  std::set<std::string> found;
  for (const std::regex* kind : {&kFunction, &kOther}) {
    for (std::sregex_iterator match(helpers.begin(), helpers.end(), *kind), last; match != last; ++match) {
      found.insert((*match)[1].str());
    }
  }
  return found;
}

}  // namespace

TEST_CASE("rooms: headers include those of lower rooms alone, and none of them each other") {
  Includes files, rooms;
  for (const std::string& file : files_below(kTop)) {
    const bool is_header = file.ends_with(".h") || file.ends_with(".cuh");
    if (!is_header || file == "nn/linnet.h") continue;  // nn/linnet.h includes all headers
    for (const std::string& included : includes_of(file)) {
      files[file].insert(included);
      const std::string from = fs::path(file).parent_path(), to = fs::path(included).parent_path();
      if (from != to) rooms[from].insert(to);
    }
  }
  REQUIRE(rooms.size() > 20);
  CHECK(joined(find_cycle(files)) == "");
  CHECK(joined(find_cycle(rooms)) == "");
}

TEST_CASE("rooms: no file includes a header of a higher top-level folder") {
  const std::map<std::string, int> rank{{"core", 0}, {"ops", 1}, {"nn", 2}, {"examples", 3}};
  const auto top_of = [](const std::string& path) { return path.substr(0, path.find('/')); };
  int checked = 0;
  for (const std::string& file : files_below(kTop)) {
    if (!std::regex_search(file, std::regex("[.](h|cpp|cu|cuh)$"))) continue;
    for (const std::string& included : includes_of(file)) {
      ++checked;
      const std::string from = top_of(file), to = top_of(included);
      const bool goes_down =
          from == "cuda" ? to == "core" || to == "cuda" : to != "cuda" && rank.at(to) <= rank.at(from);
      CHECK_MESSAGE(goes_down, file, " includes ", included);
    }
  }
  CHECK(checked > 2000);
}

TEST_CASE("rooms: a folder has no more files than one can look through") {
  std::map<std::string, int> count;
  for (const std::string& file : files_below(kTop)) ++count[fs::path(file).parent_path().string()];
  REQUIRE(count["ops/cpu/fastmax"] > 0);
  for (const auto& [room, files] : count) CHECK_MESSAGE(files <= 26, room, " has ", files, " files");
}

TEST_CASE("rooms: CMAKE_UNITY_BUILD joins the files of a room, so no two of them have the same helper") {
  std::map<std::string, std::string> file_of;  // by room and helper
  for (const std::string& file : files_below({"ops/cpu", "examples/support"})) {
    // These are not joined with the others of their rooms: examples/CMakeLists.txt.
    static const std::regex kApart("(bar_chart|heat_map|settings_json|generated_conversions)[.]cpp$");
    if (!file.ends_with(".cpp") || std::regex_search(file, kApart)) continue;
    const std::string room = fs::path(file).parent_path();
    for (const std::string& helper : helpers_of(linnet::test::read_bytes(fs::path(LINNET_SOURCE_DIR) / file))) {
      const auto [other, is_new] = file_of.emplace(room + ": " + helper, file);
      CHECK_MESSAGE(is_new, other->second, " and ", file, " both define ", helper);
    }
  }
  CHECK(file_of.size() > 300);
}
