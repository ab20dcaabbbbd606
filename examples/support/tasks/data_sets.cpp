#include "support/tasks/data_sets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <linnet/core/files/utf8.h>
#include <zlib.h>

#include "support/settings/program.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

const std::string kText = "tinyshakespeare/input.txt", kImages = "mnist";
const std::string kOwnSources = "linnet's own sources (stand-in)", kDrawnDigits = "drawn digits (stand-in)";

/// The names of published data sets, by size and CRC-32.
const std::map<std::string, std::string> kPublished{{"1115394 bytes, crc32 df613551", "Tiny Shakespeare"},
                                                    {"262231 bytes, crc32 9c3fd19e", "Tiny Shakespeare's speakers"},
                                                    {"54950000 bytes, crc32 1939f699", "MNIST"},
                                                    {"54950000 bytes, crc32 c7a95b27", "Fashion-MNIST"}};

std::string name_of(const nn::CharText& text, const std::string& name) {
  const nn::Vocabulary& vocabulary = text.vocabulary();
  const std::string train = vocabulary.decode(text.train()), validation = vocabulary.decode(text.validation());
  return name_by_content({std::as_bytes(std::span(train)), std::as_bytes(std::span(validation))}, name);
}

/// Replaces each byte that is not UTF-8 by a question mark, since config.json must be UTF-8.
std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = linnet::detail::code_point_length(text);
    result += length > 0 ? text.substr(0, length) : "?";
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

nn::TextOptions text_options(const Settings& s) {
  return {.characters = s.bytes ? nn::Characters::bytes : nn::Characters::code_points,
          .normalise_newlines = s.normalise_newlines};
}

/// Says on stderr that the data set was not found, and what is used instead.
void report_stand_in(const Settings& settings, const char* set, const char* stand_in) {
  if (settings.began_with_stand_in) return report_stand_in_again(set, stand_in);
  fmt::print(stderr, "no {} in {} (examples/fetch_data.sh gets it): taking {} instead\n", set, data_places(),
             stand_in);
}

}  // namespace

std::string last_name(const fs::path& path) {
  const fs::path whole = fs::weakly_canonical(path);
  return as_utf8((whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string());
}

std::optional<FoundData> find_data(const Settings& settings, const std::string& name, const std::string& file) {
  return find_data(settings, name, [&](const fs::path& place) {
    std::error_code ignored;  // a name may be too long for any file
    return fs::exists(file.empty() ? place : place / file, ignored);
  });
}

std::optional<FoundData> find_data(const Settings& settings, const std::string& name,
                                   const std::function<bool(const fs::path& place)>& is_in) {
  if (settings.began_with_stand_in) return std::nullopt;
  if (!settings.data.empty()) {
    const fs::path& data = settings.data;
    if (is_in(data / name)) return FoundData{data / name, name};
    std::error_code error;
    if (!fs::exists(data, error)) {
      throw IoError(
          fmt::format("--data {}: {}", data.string(), error ? error.message() : "there is no such file or folder"));
    }
    return is_in(data) ? std::optional(FoundData{data, last_name(data)}) : std::nullopt;
  }
  for (const fs::path& folder : data_folders()) {
    if (is_in(folder / name)) return FoundData{folder / name, name};
  }
  return std::nullopt;
}

std::string name_by_content(const std::vector<std::span<const std::byte>>& parts, const std::string& name) {
  size_t size = 0;
  uLong crc = 0;
  for (const auto& part : parts) {
    size += part.size();
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  const std::string sum = fmt::format("{} bytes, crc32 {:08x}", size, crc);
  const auto published = kPublished.find(sum);
  return published != kPublished.end() ? published->second : fmt::format("{} ({})", name, sum);
}

std::string name_of(const nn::Mnist& mnist, const std::string& name) {
  return name_by_content({std::as_bytes(mnist.train.pixels()), std::as_bytes(mnist.train.labels()),
                          std::as_bytes(mnist.test.pixels()), std::as_bytes(mnist.test.labels())},
                         name);
}

bool is_stand_in(const std::string& name) {
  const bool is_file = name.find(", crc32 ") != std::string::npos;
  const bool is_generated = name.starts_with("generated ") && !is_file;  // such as listops
  return is_generated || name.starts_with("stand-in: ") || name.starts_with(kOwnSources) ||
         name.starts_with(kDrawnDigits);
}

void report_stand_in_again(const std::string& set, const std::string& stand_in) {
  fmt::print(stderr, "the run began without {}: taking {} instead\n", set, stand_in);
}

bool same_data(const std::string& a, const std::string& b) {
  const auto sum = [](const std::string& name) {  // " (19 bytes, crc32 …)" of "my.txt (19 bytes, crc32 …)"
    const size_t begin = name.rfind(" (");
    return begin != std::string::npos && name.find("crc32", begin) != std::string::npos ? name.substr(begin) : name;
  };
  return sum(a) == sum(b);
}

NamedText load_text(const Settings& settings) {
  const nn::TextOptions options = text_options(settings);
  if (const auto found = find_data(settings, kText)) {
    nn::CharText text = nn::CharText::read(found->path, options);
    const int64_t marks = text.dropped_marks();
    if (marks > 0) {
      fmt::print(stderr, "{}: dropped the byte order mark of {} file{}\n", found->name, marks, marks == 1 ? "" : "s");
    }
    return {name_of(text, found->name), found->path, std::move(text)};
  }
  report_stand_in(settings, "Tiny Shakespeare", "the sources of linnet");
  nn::CharText text = nn::CharText::of_this_project(options);
  return {name_of(text, kOwnSources), {}, std::move(text)};
}

NamedImages load_images(const Settings& settings) {
  if (const auto found = find_data(settings, kImages)) {
    nn::Mnist mnist(found->path, {.transpose = settings.transpose});
    return {name_of(mnist, found->name), std::move(mnist.train), std::move(mnist.test)};
  }
  if (settings.transpose) {
    throw UsageError("--transpose does not apply to drawn digits; leave it out, or name images with --data");
  }
  report_stand_in(settings, "MNIST", "drawn digits");
  return {kDrawnDigits, nn::drawn_digits(10000, 1), nn::drawn_digits(2000, 2)};
}

}  // namespace linnet::examples
