#include "support/users/conversions.h"

#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <nlohmann/json.hpp>

#include "support/draws.h"
#include "support/tasks/data_sets.h"
#include "support/users/records.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Malformed = RecordReader::Malformed;

constexpr std::array<const char*, 3> kParts{"train", "dev", "test"};

/// Texts by their numbers, each once.
class Texts {
 public:
  int32_t number_of(const std::string& text) {
    const auto [found, is_new] = numbers_.emplace(text, static_cast<int32_t>(all_.size()));
    if (is_new) all_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::string> all_;
};

/// A text, or the ids of its words.
std::string text_of(const json& value, const char* name) {
  if (value.is_string()) return value.get<std::string>();
  std::string text;
  bool are_ids = value.is_array();
  for (const json& id : are_ids ? value : json::array()) {
    are_ids = are_ids && id.is_number_unsigned();
    text += id.dump() + " ";
  }
  if (are_ids) return text;
  throw Malformed(fmt::format("\"{}\" holds {}; a text, or a list of whole numbers, is expected", name,
                              linnet::detail::shortened(value.dump(-1, ' ', false, json::error_handler_t::replace))));
}

/// The member `name`, which must be there.
const json& member(const json& object, const char* name) {
  if (object.is_object() && object.contains(name)) return object[name];
  throw Malformed(fmt::format(
      "\"{}\" is missing; {{\"behaviours\": [\"text\", …], \"ad\": \"text\", \"label\": 0}} is expected", name));
}

Conversion conversion_in(std::string_view line, int64_t most_behaviours, Texts& texts) {
  if (std::cmp_greater(line.size(), linnet::detail::kMaxJsonTree)) {
    throw Malformed(fmt::format("{} bytes; at most {} are read, leave out older behaviours", line.size(),
                                linnet::detail::kMaxJsonTree));
  }
  json object;
  try {
    object = linnet::detail::parse_json(std::string(line));
  } catch (const json::exception& error) {
    throw Malformed(fmt::format("no object of JSON: {}", linnet::detail::message_of(error)));
  }
  const json& behaviours = member(object, "behaviours");
  const json& label = member(object, "label");
  if (!behaviours.is_array()) throw Malformed("\"behaviours\" is no list; a list of texts is expected");
  if (label != 0 && label != 1) {
    throw Malformed(
        fmt::format("\"label\" is {}; 0 or 1 is expected",
                    linnet::detail::shortened(label.dump(-1, ' ', false, json::error_handler_t::replace))));
  }
  const std::string ad = text_of(member(object, "ad"), "ad");
  std::vector<std::string> kept;
  for (const json& behaviour : behaviours) kept.push_back(text_of(behaviour, "behaviours"));
  const int64_t surplus = std::ssize(kept) - most_behaviours;
  if (surplus > 0) kept.erase(kept.begin(), kept.begin() + surplus);
  Conversion conversion;
  for (const std::string& text : kept) conversion.behaviours.push_back(texts.number_of(text));
  conversion.ad = texts.number_of(ad);
  conversion.label = label == 1;
  return conversion;
}

std::vector<Conversion> read_part(const fs::path& path, const Settings& settings, Texts& texts) {
  std::vector<Conversion> all;
  RecordReader(path, settings.of_users.strict).for_each([&](std::string_view line) {
    all.push_back(conversion_in(line, settings.of_users.history, texts));
  });
  return all;
}

/// Divides the users of one file.
void divide(std::vector<Conversion> all, uint64_t seed, ConversionSet& set, const fs::path& path) {
  constexpr int64_t kLeast = 10;
  if (std::ssize(all) < kLeast) {
    throw IoError(fmt::format("{} has {} users; at least {} are needed, to divide them into train, dev and test",
                              path.string(), all.size(), kLeast));
  }
  Draws draws({seed, 0});
  for (int64_t i = std::ssize(all) - 1; i > 0; --i) {
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(draws.below(i + 1))]);
  }
  const auto tenth = std::ssize(all) / 10;
  set.test.assign(all.end() - tenth, all.end());
  set.dev.assign(all.end() - 2 * tenth, all.end() - tenth);
  all.resize(all.size() - static_cast<size_t>(2 * tenth));
  set.train = std::move(all);
}

std::string content_name_of(const std::string& name, const ConversionSet& set) {
  std::vector<std::span<const std::byte>> parts{std::as_bytes(set.items.numbers())};
  std::vector<int32_t> rest;
  for (const auto* users : {&set.train, &set.dev, &set.test}) {
    for (const Conversion& user : *users) {
      parts.push_back(std::as_bytes(std::span(user.behaviours)));
      rest.insert(rest.end(), {user.ad, user.label ? 1 : 0});
    }
  }
  parts.push_back(std::as_bytes(std::span(rest)));
  return name_by_content(parts, name);
}

/// The texts that users of one part have, in the order of their numbers.
std::vector<std::string> texts_of(const std::vector<Conversion>& users, const Texts& texts) {
  std::vector<bool> has(texts.all().size());
  for (const Conversion& user : users) {
    has[static_cast<size_t>(user.ad)] = true;
    for (const int32_t text : user.behaviours) has[static_cast<size_t>(text)] = true;
  }
  std::vector<std::string> all;
  for (size_t i = 0; i < has.size(); ++i) {
    if (has[i]) all.push_back(texts.all()[i]);
  }
  return all;
}

}  // namespace

ConversionSet load_conversions(const Settings& settings) {
  std::error_code ignored;
  const FoundData found = find_data(settings, "conversions").value();
  ConversionSet set;
  Texts texts;
  if (fs::is_regular_file(found.path, ignored)) {
    divide(read_part(found.path, settings, texts), settings.lra.data_seed, set, found.path);
  } else {
    for (const char* part : kParts) {
      const fs::path file = found.path / fmt::format("{}.jsonl", part);
      if (fs::exists(file, ignored)) continue;
      throw IoError(fmt::format(
          "no {} in --data {}; a folder with train.jsonl, dev.jsonl and test.jsonl is needed, or one such "
          "file, and without --data users are generated",
          file.filename().string(), settings.data.string()));
    }
    set.train = read_part(found.path / "train.jsonl", settings, texts);
    set.dev = read_part(found.path / "dev.jsonl", settings, texts);
    set.test = read_part(found.path / "test.jsonl", settings, texts);
  }
  const auto words = nn::WordVocabulary::build(texts_of(set.train, texts), kWordOptions);
  set.vocabulary = words.size();
  for (const std::string& text : texts.all()) {
    set.items.append(first_words(words, text, settings.of_users.title_words));
  }
  set.name = content_name_of(found.name, set);
  return set;
}

}  // namespace linnet::examples
