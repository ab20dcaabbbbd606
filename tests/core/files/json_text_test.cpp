#include <linnet/core/files/json_text.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <linnet/core/files/utf8.h>

using linnet::detail::JsonError;
using linnet::detail::JsonText;

namespace {

/// What is wrong with it; empty when nothing is.
std::string fault(const std::string& text) {
  try {
    JsonText json(text);
    json.value();
    json.end();
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

std::string string_of(const std::string& text) {
  JsonText json(text);
  std::string result = json.string();
  json.end();
  return result;
}

}  // namespace

TEST_CASE("JsonText: takes what nlohmann's parser takes") {
  const std::vector<std::string> whole{"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-0",
                                       "12",
                                       "-1.5e+10",
                                       "1E-2",
                                       "0.0",
                                       "0e0",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       " [ 1 , 2 ] ",
                                       R"({"a":{"b":[null,true]},"a":1})",
                                       "\"\\u00e9\\n\\/\\\\\\\"\"",
                                       "\"é😀\"",
                                       "\"\\ud83d\\ude00\"",
                                       "\t\r\n1 ",
                                       "\xEF\xBB\xBF{}",
                                       "123456789012345678901234567890",
                                       "\"\\u0000\"",
                                       "\"\x7F\""};
  for (const std::string& text : whole) {
    CAPTURE(text);
    CHECK(nlohmann::json::accept(text));
    CHECK(fault(text) == "");
    CHECK(fault(text + '\0') != "");  // which nlohmann's takes for the end
  }
  const std::vector<std::string> broken{"",
                                        " ",
                                        "nul",
                                        "nulll",
                                        "True",
                                        "01",
                                        "-",
                                        "+1",
                                        ".5",
                                        "1.",
                                        "1.e1",
                                        "1e",
                                        "1e+",
                                        "- 1",
                                        "NaN",
                                        "Infinity",
                                        "[1,]",
                                        "[,1]",
                                        "[1 2]",
                                        "[1}",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "{1:1}",
                                        "{\"a\" 1}",
                                        "{\"a\":1 \"b\":2}",
                                        "[",
                                        "{",
                                        "]",
                                        "1 2",
                                        "\"",
                                        "\"\\\"",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\u12g4\"",
                                        "\"\\ud83d\"",
                                        "\"\\ud83dx\"",
                                        "\"\\ud83d\\n\"",
                                        "\"\\ud83d\\ud83d\"",
                                        "\"\\ude00\"",
                                        "\"\n\"",
                                        "\"\xFF\"",
                                        "\"\xC3\"",
                                        "\"\xED\xA0\x80\"",
                                        "'a'",
                                        "[1]x",
                                        "/**/1",
                                        "\"\\",
                                        "\"\\u",
                                        "\"\\ud83d\\",
                                        "\xEF\xBB\xBF",
                                        "{\"a\":1",
                                        "{\"a\":",
                                        "{\"a",
                                        "[1"};
  for (const std::string& text : broken) {
    CAPTURE(text);
    CHECK_FALSE(nlohmann::json::accept(text));
    CHECK(fault(text) != "");
  }
}

TEST_CASE("JsonText: strings are decoded") {
  CHECK(string_of(R"( "a\"\\\/\b\f\n\r\t" )") == "a\"\\/\b\f\n\r\t");
  CHECK(string_of(R"("\u0041\u00E9\u00e9\u5c71\uD83D\ude00")") == "Aéé山😀");
  CHECK(string_of(R"("é山😀")") == "é山😀");
  CHECK(string_of(R"("a\u0000b")") == std::string("a\0b", 3));
}

TEST_CASE("JsonText: members and elements in their order, as text") {
  const std::string text = R"({"a": [1, "x" , {}], "b": -2.50})";
  JsonText json(text);
  std::string seen;
  CHECK(json.peek() == '{');
  json.object([&](const std::string& name) {
    seen += name + ":";
    if (json.peek() != '[') {
      seen += json.value();
      return;
    }
    json.list([&] { seen += std::string(json.value()) + ";"; });
  });
  json.end();
  CHECK(json.peek() == '\0');
  CHECK(seen == "a:1;\"x\";{};b:-2.50");
  CHECK_THROWS_AS(JsonText("[]").string(), JsonError);
  CHECK_THROWS_AS(JsonText("[]").object([](const std::string&) {}), JsonError);
  CHECK_THROWS_AS(JsonText("{}").list([] {}), JsonError);
}

TEST_CASE("JsonText: objects and lists lie 32 deep within each other and no deeper") {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(fault(nested(32)) == "");
  CHECK(fault("[" + nested(31) + "," + nested(31) + "]") == "");
  CHECK(fault(nested(33)) == "byte 32: lists and objects lie more than 32 deep within each other");
  for (const std::string piece : {"[", "{\"a\":", "[[],"}) {
    std::string deep;
    while (deep.size() < 1'000'000) deep += piece;
    CHECK(fault(deep).find("more than 32 deep") != std::string::npos);
  }
}

TEST_CASE("JsonText: faults are told by their byte") {
  CHECK(fault("[1, 2") == "byte 5: the text ends too early");
  CHECK(fault("{\"a\" 1}") == "byte 5: : is missing");
  CHECK(fault("[1 2]") == "byte 3: ] is missing");
  CHECK(fault("[1] 2") == "byte 4: more follows the value");
  CHECK(fault("[x]") == "byte 1: no value");
  CHECK(fault("\"a\xFF\"") == "byte 2: not UTF-8");
  CHECK(fault("\"a\\x\"") == "byte 3: no such escape");
  CHECK(fault("\"a") == "byte 2: a string does not end");
  CHECK(fault("\"\n\"") == "byte 1: a control character in a string");
}

TEST_CASE("shortened: what is long is cut off, between characters") {
  using linnet::detail::shortened;
  const std::string a(99, 'a');
  CHECK(shortened(a + "b") == a + "b");
  CHECK(shortened(a + "bc") == a + "b…");
  CHECK(shortened(a + "é") == a + "…");
  CHECK(shortened(a.substr(1) + "éa") == a.substr(1) + "é…");
  CHECK(shortened(a + "😀 is cut") == a + "…");
  CHECK(shortened(std::string(1000, '\x80')).size() <= 100 + 3);
}
