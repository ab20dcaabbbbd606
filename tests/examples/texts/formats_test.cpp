/// The formats of texts with labels.

#include "support/texts/formats.h"

#include <doctest/doctest.h>

#include <functional>

#include <linnet/core/error.h>
#include <zlib.h>

#include "support/settings/program.h"
#include "tests/support/cut_file.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::cut_everywhere;
using linnet::test::Quiet;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

namespace {

namespace fs = std::filesystem;

/// Texts as "label|text" lines.
std::string lines_of(const std::vector<LabelledText>& texts) {
  std::string lines;
  for (const LabelledText& text : texts) lines += text.label + '|' + text.text + '\n';
  return lines;
}

struct Read {
  std::string lines;
  int64_t malformed = 0;
};

/// The texts of a file with this name and content.
Read read(const std::string& name, const std::string& content, const LabelledTextSettings& settings = {}) {
  const TemporaryFolder folder;
  const Quiet quiet(STDERR_FILENO);
  write_bytes(folder / name, content);
  MalformedLines malformed(settings.strict);
  const std::vector<LabelledText> texts = read_text_file(folder / name, settings, malformed);
  return {lines_of(texts), malformed.count()};
}

/// The error of a file with --strict, from the file's name on.
std::string error_of(const std::string& name, const std::string& content, LabelledTextSettings settings = {}) {
  settings.strict = true;
  try {
    read(name, content, settings);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(std::min(text.find(name), text.size()));
  }
  return "no error";
}

std::string packed(const std::string& content) {
  const TemporaryFolder folder;
  const fs::path path = folder / "x.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return linnet::test::read_bytes(path);
}

}  // namespace

TEST_CASE("jsonl: an object a line, with fields of any name") {
  CHECK(
      read("a.jsonl", "{\"text\": \"one\", \"label\": \"x\"}\r\n\n{\"label\": 2, \"text\": \"\\u00fc \\n\"}").lines ==
      "x|one\n2|\u00fc \n\n");
  CHECK(read("a.json", "\xEF\xBB\xBF{\"reviewText\": \"good\", \"overall\": 5.0, \"more\": [1]}\n",
             {.text_field = "reviewText", .label_field = "overall"})
            .lines == "5|good\n");
  CHECK(read("a.jsonl", "{\"b\": \"2\", \"a\": \"1\", \"label\": \"x\"}\n", {.text_field = "a,b"}).lines ==
        "x|1 2\n");
  CHECK(read("a.jsonl", "{\"text\": \"\", \"label\": \"x\"}\n").lines == "x|\n");
  CHECK(read("a.dat", "{\"text\": \"one\", \"label\": \"x\"}\n", {.format = "jsonl"}).lines == "x|one\n");
}

TEST_CASE("jsonl: a packed file cut off at any byte is refused, and a plain one loses the line that it cuts") {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"one or two\", \"label\": \"x\"}\n{\"text\": \"three\", \"label\": \"y\"}\n";
  const auto read_strictly = [&](const fs::path& path) {
    MalformedLines malformed(true);
    return lines_of(read_text_file(path, {}, malformed));
  };
  write_bytes(folder / "a.jsonl.gz", packed(lines));
  cut_everywhere(
      folder / "a.jsonl.gz", [&] { return read_strictly(folder / "a.jsonl.gz"); },
      [](const std::string&, const auto& texts) { CHECK_FALSE(texts.has_value()); });
  write_bytes(folder / "a.jsonl", lines);
  cut_everywhere(
      folder / "a.jsonl", [&] { return read_strictly(folder / "a.jsonl"); },
      [&](const std::string& part, const auto& texts) {
        const bool is_whole = part.ends_with('}') || part.ends_with('\n');
        CHECK(texts.has_value() == is_whole);
        if (texts) CHECK(*texts == (part.size() + 1 < lines.size() ? "x|one or two\n" : "x|one or two\ny|three\n"));
      });
}

TEST_CASE("jsonl: packed by gzip, and damaged") {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "{\"text\": \"" + std::string(17, 'a') + "\", \"label\": 1}\n";
  lines += "{\"text\": \"" + std::string(10'000, 'b') + "\", \"label\": 2}\n";  // longer than the reader's buffer
  const std::string file = packed(lines);
  CHECK(read("a.jsonl.gz", file).lines == read("a.jsonl", lines).lines);
  CHECK(error_of("a.jsonl.gz", file.substr(0, file.size() / 2)).find("damaged") != std::string::npos);
}

TEST_CASE("jsonl: malformed lines are left out and counted, and end the program with --strict") {
  const std::string good = "{\"text\": \"one\", \"label\": \"x\"}\n";
  const Read some = read("a.jsonl", good + "no\n" + good + "{\"text\": 1, \"label\": 1}\n[]\n");
  CHECK(some.lines == "x|one\nx|one\n");
  CHECK(some.malformed == 3);
  CHECK(error_of("a.jsonl", good + "{\"text\": \"on").starts_with("a.jsonl, line 2: not JSON, "));
  CHECK(error_of("a.jsonl", good + "\n[1]\n") ==
        "a.jsonl, line 3: no object, where {\"field\": value, …} is expected");
  CHECK(error_of("a.jsonl", "{\"label\": 1}\n") == "a.jsonl, line 1: no field 'text' with a text");
  CHECK(error_of("a.jsonl", "{\"text\": null, \"label\": 1}\n") == "a.jsonl, line 1: no field 'text' with a text");
  for (const std::string label : {"", ", \"label\": null", ", \"label\": \"\"", ", \"label\": true"}) {
    CHECK(error_of("a.jsonl", "{\"text\": \"a\"" + label + "}\n") ==
          "a.jsonl, line 1: no field 'label' with a label, a text or a number");
  }
  CHECK(error_of("a.jsonl", std::string(100, '[') + "\n").starts_with("a.jsonl, line 1: not JSON, "));
  CHECK(error_of("a.jsonl", "\n") == "a.jsonl has no text with a label in it");
  CHECK_THROWS_WITH_AS(read("a.jsonl", "no\n"), doctest::Contains("has no text with a label in it"), IoError);
}

TEST_CASE("tsv: label and text, or columns by their numbers") {
  CHECK(read("a.tsv", "x\tone \"quoted\r\ny\ttwo\tthree").lines == "x|one \"quoted\ny|two three\n");
  const LabelledTextSettings news{.text_field = "4,5", .label_field = "2"};
  CHECK(
      read("news.tsv", "N1\tsports\tgolf\tTitle\tAbstract\turl\t[]\t[]\nN2\tnews\tx\tT\t\tu\t[]\t[]\n", news).lines ==
      "sports|Title Abstract\nnews|T \n");
  CHECK(read("a.tsv", "one\tx\n", {.label_field = "2"}).lines == "x|one\n");
  CHECK(error_of("a.tsv", "x\tone\nx\n") == "a.tsv, line 2: 1 column, where 2 or more are expected");
  CHECK(error_of("news.tsv", "N1\tsports\tgolf\tTitle\n", news) ==
        "news.tsv, line 1: 4 columns, where 5 or more are expected");
  CHECK(error_of("a.tsv", "\tone\n") == "a.tsv, line 1: column 1 is empty, where a label is expected");
  CHECK(read("a.tsv", "x\tone\nx\n").malformed == 1);
}

TEST_CASE("csv: quotes are doubled, and a row may have several lines") {
  CHECK(read("ag.csv", "\"3\",\"Wall St.\",\"Short \"\"sellers\"\",\nback\"\n4,a,b\n").lines ==
        "3|Wall St. Short \"sellers\",\nback\n4|a b\n");
  CHECK(error_of("ag.csv", "3,a\n,b\n") == "ag.csv, line 2: column 1 is empty, where a label is expected");
  CHECK(error_of("ag.csv", "3,a\n4,\"b\n").find("line 2") != std::string::npos);
  CHECK(error_of("ag.csv", "3,a\n4,b,c\n").find("line 2: 3 cells") != std::string::npos);
}

TEST_CASE("csv: malformed rows are left out and counted, and end the program with --strict") {
  const std::string ragged = "3,a,b\n4,c\n5,d,e\n6,f,g,h\n7,i,j\n";
  CHECK(read("a.csv", ragged).lines == "3|a b\n5|d e\n7|i j\n");
  CHECK(read("a.csv", ragged).malformed == 2);
  CHECK(error_of("a.csv", ragged) == "a.csv, line 2: 2 cells, but the first row has 3");
  CHECK(error_of("a.csv", "3,a\n4,b,c\n") ==
        "a.csv, line 2: 3 cells, but the first row has 2; put a cell with ',' in it into double quotes");

  const std::string stray = "3,\"a\nb\"\n4,\"c\" d\n\n5,e\n6,\"f\n7,g\n";
  CHECK(read("a.csv", stray).lines == "3|a\nb\n5|e\n7|g\n");
  CHECK(read("a.csv", stray).malformed == 2);
  CHECK(error_of("a.csv", stray) ==
        "a.csv, line 3: text follows the quote that ends a cell; inside of a cell, quotes are doubled");
  // The lines after a quote without an end are as they were, although that cell had doubled quotes in them.
  CHECK(read("a.csv", "3,\"a\"\"\"\n4,\"b\"\"c\n5,\"d\"\n6,d\"\"e\n").lines == "3|a\"\n5|d\n6|d\"\"e\n");
  CHECK(error_of("a.csv", "3,a\r\n4,\"b\r\n5,c\r\n") ==
        "a.csv, line 2: a cell begins with a quote and has none at its end");
  CHECK(read("a.csv", "\xEF\xBB\xBF\"3\",caf\xE9\r4,\"\"\"b\"\"\"").lines == "3|caf\xE9\n4|\"b\"\n");
  CHECK_THROWS_WITH_AS(read("a.csv", "\r\n"), doctest::Contains("has no text with a label in it"), IoError);
}

TEST_CASE("a byte 0, as UTF-16 has: refused in every format, also without --strict") {
  const std::string utf16("\xFF\xFEx\0\t\0a\0\n\0", 10), bytes("x\tone\nx\ta\0b\n", 12);
  const auto refuses = [](const std::string& name, const std::string& content, const char* part) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(read(name, content), doctest::Contains(part), IoError);
  };
  refuses("a.tsv", utf16, "a.tsv, line 1: a byte 0, so it is not UTF-8 text; save it as UTF-8");
  refuses("a.tsv", bytes, "a.tsv, line 2: a byte 0, so");
  refuses("a.tsv.gz", packed(bytes), "a.tsv.gz, line 2: a byte 0, so");
  refuses("a.csv", utf16, "a.csv: a byte 0, so");
  refuses("a.jsonl", utf16, "a.jsonl, line 1: a byte 0, so");
  const TemporaryFolder folder;
  fs::create_directories(folder / "t/x");
  write_bytes(folder / "t/x/1.txt", utf16);
  CHECK_THROWS_WITH_AS(read_text_folder(folder / "t"), doctest::Contains("x/1.txt: a byte 0, so"), IoError);
}

TEST_CASE("formats that are not there, and columns that cannot be") {
  CHECK_THROWS_WITH_AS(read("a.txt", "x"),
                       doctest::Contains("has an ending that no format has; name one of auto, jsonl"), UsageError);
  CHECK_THROWS_WITH_AS(read("a.tsv", "x\ty\n", {.label_field = "label"}),
                       doctest::Contains("--label-field label: columns of tables have numbers, from 1 on"),
                       UsageError);
  CHECK_THROWS_WITH_AS(read("a.tsv", "x\ty\n", {.text_field = "2,0"}), doctest::Contains("--text-field 0"),
                       UsageError);
  CHECK_THROWS_WITH_AS(read("a.tsv", "x\ty\n", {.text_field = "2,1"}),
                       doctest::Contains("--text-field 2,1 contains the label's column 1; name another with "
                                         "--label-field"),
                       UsageError);
  CHECK_THROWS_WITH_AS(read("a.csv", "x,y\n", {.text_field = "2", .label_field = "2"}),
                       doctest::Contains("--text-field 2 contains the label's column 2"), UsageError);
  CHECK_THROWS_WITH_AS(read("a.csv", "x,y\n", {.text_field = "2,"}), doctest::Contains("--text-field :"), UsageError);
  MalformedLines malformed(true);
  CHECK_THROWS_WITH_AS(read_text_file("/nowhere.jsonl", {}, malformed), doctest::Contains("/nowhere.jsonl"), IoError);
  const TemporaryFolder folder;
  fs::create_directories(folder / "x.jsonl");
  CHECK_THROWS_AS(read_text_file(folder / "x.jsonl", {}, malformed), IoError);
}

TEST_CASE("a folder for each label, in the order of names; unsup and what is hidden are left out") {
  const TemporaryFolder folder;
  for (const char* label : {"pos", "neg", "unsup", ".git"}) fs::create_directories(folder / "t" / label);
  write_bytes(folder / "t/pos/2.txt", "fine\n");
  write_bytes(folder / "t/pos/10.txt", "good");
  write_bytes(folder / "t/pos/notes.md", "no text");
  write_bytes(folder / "t/pos/._2.txt", "Mac OS X");
  write_bytes(folder / "t/.git/1.txt", "hidden");
  write_bytes(folder / "t/neg/1.txt", "");
  write_bytes(folder / "t/readme.txt", "of no label");
  CHECK(lines_of(read_text_folder(folder / "t")) == "neg|\npos|good\npos|fine\n\n");
  fs::remove(folder / "t/neg/1.txt");
  CHECK_THROWS_WITH_AS(read_text_folder(folder / "t"),
                       doctest::Contains("neg has no text in *.txt; each label is a folder of them"), IoError);
  CHECK_THROWS_WITH_AS(read_text_folder(folder / "t/pos"), doctest::Contains("has no folder of texts for any label"),
                       IoError);
  CHECK_THROWS_WITH_AS(read_text_folder(folder / "none"), doctest::Contains("cannot read the folder"), IoError);
}
