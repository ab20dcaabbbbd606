#include <optional>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <nlohmann/json.hpp>

#include "support/texts/formats.h"
#include "support/texts/lines.h"

namespace linnet::examples {
namespace {

/// The object of a line. Throws json::exception if the line is not JSON.
nlohmann::json object_in(std::string line) {
  linnet::detail::prepare_json(line);
  return nlohmann::json::parse(line);
}

/// The text of a field that is a string, or a number if it may be one; none for any other.
std::optional<std::string> text_of(const nlohmann::json& object, const std::string& field, bool or_number) {
  const auto found = object.find(field);
  if (found == object.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!or_number || !found->is_number()) return std::nullopt;
  return found->is_number_float() ? fmt::format("{}", found->get<double>()) : found->dump();  // 5.0 is the class 5
}

/// Reads the objects of a file.
class JsonLines {
 public:
  JsonLines(const LabelledTextSettings& settings, MalformedLines& malformed)
      : text_fields_(words_of_list(settings.text_field.empty() ? "text" : settings.text_field)),
        label_field_(settings.label_field.empty() ? "label" : settings.label_field),
        malformed_(malformed) {}

  void add(const nlohmann::json& object, const std::string& place) {
    if (!object.is_object()) return malformed_.add(place, "no object, where {\"field\": value, …} is expected");
    std::string text;
    for (const std::string& field : text_fields_) {
      const std::optional<std::string> part = text_of(object, field, false);
      if (!part) return malformed_.add(place, fmt::format("no field '{}' with a text", field));
      text += (field == text_fields_.front() ? "" : " ") + *part;
    }
    std::optional<std::string> label = text_of(object, label_field_, true);
    if (!label || label->empty()) {
      return malformed_.add(place, fmt::format("no field '{}' with a label, a text or a number", label_field_));
    }
    texts.push_back({std::move(text), std::move(*label), place});
  }

  std::vector<LabelledText> texts;

 private:
  std::vector<std::string> text_fields_;
  std::string label_field_;
  MalformedLines& malformed_;
};

}  // namespace

std::vector<LabelledText> read_jsonl(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                     MalformedLines& malformed) {
  JsonLines lines(settings, malformed);
  for (LineReader file(path); file.next();) {
    try {
      lines.add(object_in(std::string(file.line())), file.place());
    } catch (const nlohmann::json::exception& error) {
      malformed.add(file.place(), "not JSON, " + linnet::detail::message_of(error));
    }
  }
  return std::move(lines.texts);
}

}  // namespace linnet::examples
