#include <linnet/core/files/json.h>

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using linnet::detail::parse_json;
using linnet::detail::prepare_json;
using linnet::detail::shortened;
using linnet::detail::value_of;
using nlohmann::json;

namespace {

/// The message of parse_json's error; empty when the text is parsed.
std::string fault(const std::string& text) {
  try {
    parse_json(text);
  } catch (const json::exception& error) {
    return linnet::detail::message_of(error);
  }
  return "";
}

std::string prepared(std::string text) {
  prepare_json(text);
  return text;
}

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("parse_json: the values of nlohmann's parser") {
  const std::string text =
      "\xEF\xBB\xBF {\"a\":\t[1, -2.5e1,\r\n null, \"\\u00e9\\n\\\"[\"], \"b\\\\\": {\"c\": true}}\n";
  CHECK(parse_json(text) == json::parse(text));
  for (const std::string broken :
       {"", " ", "{", "[1,]", "{\"a\" 1}", "01", "nul", "[1] 2", "\"\n\"", "\"\xFF\"", "1e999"}) {
    CAPTURE(broken);
    CHECK(fault(broken) != "");
  }
  CHECK(fault(std::string("{}\0x", 4)) == "byte 2: a byte 0");
}

TEST_CASE("parse_json: lists and objects lie 32 deep within each other and no deeper") {
  CHECK(fault(nested(32)) == "");
  CHECK(fault("[" + nested(31) + "," + nested(31) + "]") == "");
  CHECK(fault(nested(33)) == "byte 32: lists and objects are nested more than 32 deep");
  // Brackets in strings do not count, also after escapes; those after a string do.
  CHECK(fault("[\"" + std::string(40, '[') + "\"]") == "");
  CHECK(fault("[\"\\\"" + std::string(40, '[') + "\", \"\\\\\"]") == "");
  CHECK(fault("[\"\\\\\"," + nested(32) + "]").find("more than 32 deep") != std::string::npos);
  for (const std::string piece : {"[", "{\"a\":", "[[],", "{\"]\":"}) {
    std::string deep;
    while (deep.size() < 60'000) deep += piece;
    CHECK(fault(deep).find("more than 32 deep") != std::string::npos);
  }
}

TEST_CASE("parse_json: at most 64 KiB") {
  CHECK(fault("1" + std::string(65535, ' ')) == "");
  CHECK(fault("1" + std::string(65536, ' ')) == "it has more than 65536 bytes");
}

TEST_CASE("prepare_json: line breaks outside strings become spaces, and nothing else changes") {
  CHECK(prepared("{\n\"a\\\"\n\": [1,\r\n\t2],\"b\": \"\t\"}\n") == "{ \"a\\\"\n\": [1,   2],\"b\": \"\t\"} ");
}

TEST_CASE("value_of: whole numbers within the type, numbers, and no other types") {
  const json values = json::parse(R"({"most": 9223372036854775807, "beyond": 9223372036854775808, "less": -2,
      "byte": 256, "fraction": 2.5, "large": 1e33, "true": true, "text": "2", "null": null})");
  CHECK(value_of<int64_t>(values, "most") == INT64_MAX);
  CHECK(value_of<uint64_t>(values, "beyond") == uint64_t{1} << 63);
  CHECK(value_of<int>(values, "less") == -2);
  CHECK(value_of<double>(values, "fraction") == 2.5);
  CHECK(value_of<double>(values, "less") == -2);
  CHECK(value_of<bool>(values, "true"));
  CHECK(value_of<std::string>(values, "text") == "2");
  const auto refused = [](auto&& read, const char* message) {
    CHECK_THROWS_WITH_AS(read(), doctest::Contains(message), json::exception);
  };
  for (const char* name : {"beyond", "fraction", "large", "true", "text", "null"}) {
    CAPTURE(name);
    refused([&] { value_of<int64_t>(values, name); }, "where a whole number is needed");
  }
  refused([&] { value_of<uint8_t>(values, "byte"); }, "\"byte\" is 256, where a whole number is needed");
  refused([&] { value_of<uint64_t>(values, "less"); }, "\"less\" is -2, where a whole number is needed");
  for (const char* name : {"true", "text", "null"}) {
    CAPTURE(name);
    refused([&] { value_of<double>(values, name); }, "where a number is needed");
  }
  refused([&] { value_of<bool>(values, "less"); }, "boolean");
  refused([&] { value_of<int>(values, "none"); }, "'none' not found");
}

TEST_CASE("shortened: what is long is cut off, between characters") {
  const std::string a(99, 'a');
  CHECK(shortened(a + "b") == a + "b");
  CHECK(shortened(a + "bc") == a + "b…");
  CHECK(shortened(a + "é") == a + "…");
  CHECK(shortened(a.substr(1) + "éa") == a.substr(1) + "é…");
  CHECK(shortened(a + "😀 is cut") == a + "…");
  CHECK(shortened(std::string(1000, '\x80')).size() <= 100 + 3);
}
