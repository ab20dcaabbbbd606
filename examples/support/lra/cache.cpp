#include "support/lra/cache.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>
#include <unistd.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/lra/atomic_folder.h"
#include "support/run/progress.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<const char*, 3> kPartNames{"train", "dev", "test"};
constexpr const char* kManifest = "manifest.json";
constexpr const char* kChecksums = "crc32";

std::string sequences_file(const std::string& part) { return part + "-sequences-idx2-ubyte"; }
std::string labels_file(const std::string& part) { return part + "-labels-idx1-ubyte"; }

std::string options_text(const GeneratedSet& set) {
  std::string text;
  for (const auto& [name, value] : set.options) text += fmt::format("{} {}, ", name, value);
  return text;
}

/// "listops-501-1999-seed-1"
std::string folder_name(const GeneratedSet& set) {
  std::string name = set.generator;
  for (const auto& [option, value] : set.options) name += fmt::format("-{}", value);
  return name + fmt::format("-seed-{}", set.seed);
}

/// Whether folders may be made in it. A folder without any write permission is left alone, even if root could write.
bool is_writable(const fs::path& folder) {
  constexpr fs::perms kWrite = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  std::error_code ignored;
  const fs::file_status status = fs::status(folder, ignored);
  return fs::is_directory(status) && (status.permissions() & kWrite) != fs::perms::none &&
         ::access(folder.c_str(), W_OK) == 0;
}

/// The folder of a set, whether it is there or not.
fs::path cache_folder(const Settings& settings, const GeneratedSet& set) {
  const fs::path name = fs::path("lra") / folder_name(set);
  std::error_code ignored;
  if (!settings.data.empty()) {
    if (fs::is_directory(settings.data, ignored)) return settings.data / name;
    throw IoError(fmt::format("--data {}: there is no such folder; {} is made and kept in it", settings.data.string(),
                              set.generator));
  }
  const std::vector<fs::path> folders = data_folders();
  const auto found =
      std::ranges::find_if(folders, [&](const fs::path& folder) { return fs::exists(folder / name, ignored); });
  if (found != folders.end()) return *found / name;
  const auto writable = std::ranges::find_if(folders, is_writable);
  return (writable != folders.end() ? *writable : folders.back()) / name;
}

/// What the manifest says about a set, except the checksums.
json description(const GeneratedSet& set) {
  json options = json::object(), counts = json::object();
  for (const auto& [name, value] : set.options) options[name] = value;
  for (size_t part = 0; part < kPartNames.size(); ++part) counts[kPartNames[part]] = set.counts[part];
  return {{"generator", set.generator},
          {"version", set.version},
          {"seed", set.seed},
          {"options", options},
          {"counts", counts}};
}

std::string checksum(const std::vector<uint8_t>& bytes) {
  return fmt::format("{:08x}", crc32_z(0, bytes.data(), bytes.size()));
}

/// Examples `begin` to `end` of all.
Examples slice(const Examples& all, int64_t begin, int64_t end) {
  const int64_t length = all.sequences.shape[1];
  const auto from = all.sequences.bytes.begin();
  return {{{end - begin, length}, {from + begin * length, from + end * length}},
          {all.labels.begin() + begin, all.labels.begin() + end}};
}

void write(const fs::path& folder, const GeneratedSet& set, const Examples& all) {
  json manifest = description(set);
  int64_t begin = 0;
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    const Examples part = slice(all, begin, begin + set.counts[i]);
    begin += set.counts[i];
    const std::string sequences = sequences_file(kPartNames[i]), labels = labels_file(kPartNames[i]);
    nn::write_idx(folder / sequences, part.sequences);
    nn::write_idx(folder / labels, {{std::ssize(part.labels)}, part.labels});
    manifest[kChecksums][sequences] = checksum(part.sequences.bytes);
    manifest[kChecksums][labels] = checksum(part.labels);
  }
  replace_file(folder / kManifest, manifest.dump(2) + '\n');
}

/// Reads the folder of a set.
class CacheReader {
 public:
  explicit CacheReader(fs::path folder) : folder_(std::move(folder)) {}

  std::array<Examples, 3> read(const GeneratedSet& set) const {
    const json manifest = read_manifest(set);
    std::array<Examples, 3> parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].sequences = read_array(sequences_file(kPartNames[i]), 2, set.counts[i], manifest);
      parts[i].labels = read_array(labels_file(kPartNames[i]), 1, set.counts[i], manifest).bytes;
    }
    return parts;
  }

 private:
  json read_manifest(const GeneratedSet& set) const {
    try {
      const std::string text =
          linnet::detail::read_file(folder_ / kManifest, linnet::detail::kMaxJsonTree + 1, kRemedyOfCache);
      json manifest = linnet::detail::parse_json(text);
      const json wanted = description(set);
      for (const auto& [key, expected] : wanted.items()) {
        if (manifest.at(key) == expected) continue;
        refuse(kManifest, fmt::format("its {} is {}, where {} is needed", key,
                                      linnet::detail::shortened(manifest.at(key).dump()), expected.dump()));
      }
      return manifest;
    } catch (const json::exception& error) {
      refuse(kManifest, "it is damaged: " + linnet::detail::message_of(error));
    }
  }

  nn::IdxArray read_array(const std::string& name, int rank, int64_t count, const json& manifest) const {
    nn::IdxArray array;
    try {
      array = nn::read_idx(folder_ / name);
    } catch (const IoError&) {
      refuse(name, "it is missing, truncated or damaged");
    }
    const json sums = manifest.value(kChecksums, json::object());
    const bool is_sound = array.shape.rank() == rank && array.shape[0] == count && sums.is_object() &&
                          sums.value(name, json()) == checksum(array.bytes);
    if (!is_sound) refuse(name, "its bytes are not those that were written");
    return array;
  }

  [[noreturn]] void refuse(const std::string& file, const std::string& what) const {
    throw IoError(fmt::format("{}: {}; {}", (folder_ / file).string(), what, kRemedyOfCache));
  }

  static constexpr const char* kRemedyOfCache = "delete its folder, which is then made again";
  fs::path folder_;
};

}  // namespace

std::string name_of(const GeneratedSet& set) {
  return fmt::format("generated {} ({}seed {}, version {})", set.generator, options_text(set), set.seed, set.version);
}

std::array<Examples, 3> cached(const Settings& settings, const GeneratedSet& set, const MakeExamples& make) {
  const fs::path path = cache_folder(settings, set);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return CacheReader(path).read(set);
  AtomicFolder folder(path);
  if (!fs::exists(path, ignored)) {  // another process may have made it meanwhile
    fmt::print(stderr, "generating {} ({}seed {}), once, into {}\n", set.generator, options_text(set), set.seed,
               path.string());
    const int64_t total = set.counts[0] + set.counts[1] + set.counts[2];
    Progress progress(stderr, total, set.generator);
    const Examples all = make([&](int64_t done) {
      if (interrupted()) throw Interrupted("stopped while the data were made; the same command makes them anew");
      progress.update(done);
    });
    progress.finish();
    write(folder.temporary(), set, all);
    folder.commit();
  }
  return CacheReader(path).read(set);
}

Examples make_each(int64_t count, int64_t length,
                   const std::function<uint8_t(int64_t i, std::span<uint8_t> bytes)>& make,
                   const ReportMade& report) {
  constexpr int64_t kBetweenReports = 256;
  Examples all;
  all.sequences.shape = {count, length};
  all.sequences.bytes.resize(static_cast<size_t>(count * length));
  all.labels.resize(static_cast<size_t>(count));
  const auto bytes = std::span(all.sequences.bytes);
  for (int64_t begin = 0; begin < count; begin += kBetweenReports) {
    report(begin);
    parallel_tasks(std::min(kBetweenReports, count - begin), [&](int64_t task) {
      const auto i = static_cast<size_t>(begin + task), size = static_cast<size_t>(length);
      all.labels[i] = make(begin + task, bytes.subspan(i * size, size));
    });
  }
  report(count);
  return all;
}

LabelledSequences to_sequences(const Examples& examples, Ends ends, Ids ids) {
  const int64_t count = examples.sequences.shape[0], longest = examples.sequences.shape[1];
  ByteSequences sequences;
  for (int64_t i = 0; i < count; ++i) {
    auto row =
        std::span(examples.sequences.bytes).subspan(static_cast<size_t>(i * longest), static_cast<size_t>(longest));
    while (ends == Ends::zeros && !row.empty() && row.back() == 0) row = row.first(row.size() - 1);
    sequences.append(row);
  }
  return {std::move(sequences), examples.labels, {}, ids};
}

}  // namespace linnet::examples
