#include <linnet/core/parallel/cpu_quota.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

// Formats: proc(5) for /proc/self/cgroup and /proc/self/mountinfo; Linux's documentation of control groups, version 1
// (scheduler/sched-bwc) and version 2 (cgroup-v2, "CPU Interface Files").

namespace linnet {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

/// The words in the first line of a file; empty if it cannot be read.
std::vector<std::string> read_words(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return words_of(line);
}

std::optional<double> positive_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0)) return std::nullopt;
  return value;
}

/// The quota of one control group; nothing for "max" or −1, and if the folder is not a group of the CPU controller.
std::optional<double> quota_of(const fs::path& group) {
  std::vector<std::string> words = read_words(group / "cpu.max");
  if (words.empty()) {
    words = read_words(group / "cpu.cfs_quota_us");
    const std::vector<std::string> period = read_words(group / "cpu.cfs_period_us");
    words.insert(words.end(), period.begin(), period.end());
  }
  if (words.size() != 2) return std::nullopt;
  const std::optional<double> time = positive_number(words[0]), period = positive_number(words[1]);
  if (!time || !period) return std::nullopt;
  return *time / *period;
}

/// The process's control groups by kind of hierarchy: "cgroup2", or "cgroup" for version 1 with the CPU controller.
std::map<std::string, fs::path> own_groups(const fs::path& root) {
  std::map<std::string, fs::path> groups;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) groups["cgroup2"] = path;
    if (lists(controllers, "cpu")) groups["cgroup"] = path;
  }
  return groups;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  const std::map<std::string, fs::path> groups = own_groups(root);
  std::optional<double> least;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // id parent device ROOT MOUNT_POINT options … - TYPE source SUPER_OPTIONS
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.end() - dash < 4 || dash - words.begin() < 6) continue;
    const std::string& type = dash[1];
    const auto own = groups.find(type);
    if (own == groups.end() || (type == "cgroup" && !lists(dash[3], "cpu"))) continue;
    const fs::path mount = root / fs::path(words[4]).relative_path();
    // A container may see the hierarchy only from ROOT on. Paths outside of ROOT have no folder here.
    const fs::path below = own->second.lexically_relative(words[3]);
    const bool inside = !below.empty() && *below.begin() != "..";
    for (fs::path group = inside ? (mount / below).lexically_normal() : mount;; group = group.parent_path()) {
      const std::optional<double> quota = quota_of(group);
      if (quota) least = std::min(least.value_or(*quota), *quota);
      if (group.native().size() <= mount.native().size()) break;
    }
  }
  return least;
}

}  // namespace linnet
