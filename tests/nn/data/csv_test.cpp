#include <linnet/nn/data/csv.h>

#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <linnet/core/error.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

nn::Table table_of(const std::string& text, const nn::CsvOptions& options = {}) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.csv", text);
  return nn::read_csv(folder / "x.csv", options);
}

/// The error message, from the file's name on.
std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string text = error.what();
    const size_t name = text.find("x.csv");
    const size_t end = text.rfind(" (");  // the caller's line
    return name == std::string::npos ? text : text.substr(name, end == std::string::npos ? end : end - name);
  }
  return "no error";
}

std::string error_of(const std::string& text, const nn::CsvOptions& options = {}) {
  return error_of([&] { table_of(text, options); });
}

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("read_csv: numbers, texts and categories by the names of their columns") {
  const nn::Table table = table_of("rooms,city,price\n3,Rome,1.5\n-4,Oslo,+2e3\n 5 ,Rome,0.25\n");
  CHECK(table.rows() == 3);
  CHECK(table.names() == Texts{"rooms", "city", "price"});
  const Tensor x = table.columns({"price", "rooms"});
  CHECK(x.dtype() == DType::float32);
  CHECK(x.shape() == Shape{3, 2});
  CHECK(x.to_vector<double>() == Numbers{1.5, 3, 2000, -4, 0.25, 5});
  CHECK(table.column("price", DType::float64).shape() == Shape{3});
  CHECK(table.column("rooms", DType::int64).to_vector<int64_t>() == std::vector<int64_t>{3, -4, 5});
  CHECK(table.column("rooms", DType::int32).dtype() == DType::int32);
  CHECK(table.columns({"rooms", "rooms"}).to_vector<double>() == Numbers{3, 3, -4, -4, 5, 5});
  CHECK(table.columns({}).shape() == Shape{3, 0});
  CHECK(table.texts("city") == Texts{"Rome", "Oslo", "Rome"});
  CHECK(table.texts("rooms") == Texts{"3", "-4", " 5 "});
  const auto [indices, names] = table.categories("city");
  CHECK(names == Texts{"Oslo", "Rome"});
  CHECK(indices.dtype() == DType::int64);
  CHECK(indices.to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
}

TEST_CASE("Table::categories: the classes of another file") {
  const nn::Categories train = table_of("animal\ncat\nfox\ndog\n").categories("animal");
  const nn::Table test = table_of("animal\nfox\ncat\n");
  const auto [indices, names] = test.categories("animal", train.names);
  CHECK(names == Texts{"cat", "dog", "fox"});
  CHECK(indices.to_vector<int64_t>() == std::vector<int64_t>{2, 0});
  CHECK(test.categories("animal", {"fox", "cat"}).indices.to_vector<int64_t>() == std::vector<int64_t>{0, 1});
  CHECK(error_of([&] { test.categories("animal", {"dog", "fox"}); }) ==
        "x.csv, row 2, column 'animal': 'cat' is none of the classes 'dog', 'fox'; add it to the names");
  CHECK(error_of([&] { test.categories("animal", {"cat"}); }) ==
        "x.csv, row 1, column 'animal': 'fox' is none of the classes 'cat'; add it to the names");
  CHECK_THROWS_WITH_AS(test.categories("animal", {"fox", "cat", "fox"}),
                       doctest::Contains("the class 'fox' is given twice; name each class once"), ValueError);
  CHECK(error_of([] { table_of("y\na\nNA\n").categories("y", {"a", "NA"}); }).find("row 2, column 'y': no value") !=
        std::string::npos);
}

TEST_CASE("read_csv: quotes hold separators, line ends and quotes") {
  const nn::Table table = table_of("a,\"b,\"\"c\"\"\"\n\"x\ny\r\nz\",\"\"\n\"\"\"\",5\" pipe\n");
  CHECK(table.names() == Texts{"a", "b,\"c\""});
  CHECK(table.texts("a") == Texts{"x\ny\r\nz", "\""});
  CHECK(table.texts("b,\"c\"") == Texts{"", "5\" pipe"});
  CHECK(table_of("a\n\"1\"").column("a").item() == 1);
  CHECK(table_of("a\n\"\"\n").rows() == 1);
}

TEST_CASE("read_csv: line ends of every kind, empty lines, a byte order mark, and a last line without an end") {
  for (const char* text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r",
                           "\xEF\xBB\xBF"
                           "a,b\n1,2\n3,4",
                           "\n\r\na,b\n\n1,2\n\n\n3,4\n\n"}) {
    CAPTURE(text);
    const nn::Table table = table_of(text);
    CHECK(table.names() == Texts{"a", "b"});
    CHECK(table.columns({"a", "b"}).to_vector<double>() == Numbers{1, 2, 3, 4});
  }
  CHECK(table_of("a,b\n1,").texts("b") == Texts{""});
  CHECK(table_of("a,b\n,\n").texts("a") == Texts{""});
  CHECK(table_of("a,b\n").rows() == 0);
  CHECK(table_of("a,b\n").columns({"a", "b"}).shape() == Shape{0, 2});
  CHECK(table_of("a,b\n").categories("a").names.empty());
}

TEST_CASE("read_csv: other separators, and no header") {
  const nn::Table table = table_of("1;2\n3;4\n", {.separator = ';', .header = false});
  CHECK(table.names() == Texts{"0", "1"});
  CHECK(table.rows() == 2);
  CHECK(table.column("1").to_vector<double>() == Numbers{2, 4});
  CHECK(table_of("a\tb\n1\t2\n", {.separator = '\t'}).column("b").item() == 2);
  CHECK(error_of([] { table_of("a;b\n1;2\n").column("b"); }) ==
        "x.csv has no column 'b'; its columns are 'a;b'; is CsvOptions::separator right?");
  CHECK_THROWS_WITH_AS(table_of("a\n", {.separator = '"'}), doctest::Contains("cannot be the separator"), ValueError);
}

TEST_CASE("read_csv: missing numbers are NaN, and errors of integers and categories") {
  const nn::Table table = table_of("x,y\n,a\n NA ,\n1,b\n");
  const Numbers x = table.column("x").to_vector<double>();
  CHECK(std::isnan(x[0]));
  CHECK(std::isnan(x[1]));
  CHECK(x[2] == 1);
  CHECK(std::isnan(table.column("x", DType::float64).to_vector<double>()[0]));
  CHECK(table.texts("x") == Texts{"", " NA ", "1"});
  CHECK(error_of([&] { table.column("x", DType::int64); }) ==
        "x.csv, row 1, column 'x': no value, and integers have no NaN; fill it in, or read the column as float32");
  CHECK(
      error_of([&] { table.categories("y"); }) ==
      "x.csv, row 2, column 'y': no value; fill it in, or take it for a class of its own with CsvOptions::missing = "
      "{}");
  CHECK_THROWS_AS(table_of("y\n NA\n").categories("y"), IoError);
  CHECK(table_of("y\n\"\"\na\n", {.missing = {}}).categories("y").names == Texts{"", "a"});
  CHECK(std::isnan(table_of("x\n-9\n", {.missing = {"-9"}}).column("x").item()));
}

TEST_CASE("read_csv: a row that is too short or too long, with its line") {
  CHECK(error_of("a,b\n1,2\n3\n") ==
        "x.csv, line 3: 1 cells, but the first row has 2; add the missing ones, or leave the line out");
  CHECK(error_of("a,b\n\"1\n\n\",2\n\n3,4,5\n") ==
        "x.csv, line 6: 3 cells, but the first row has 2; put a cell with ',' in it into double quotes");
  CHECK(error_of("a,b\r\n1,2\r\n3\r\n").starts_with("x.csv, line 3: 1 cells"));
  CHECK(error_of("a,b\r\"1\r\",2\r3\r").starts_with("x.csv, line 4: 1 cells"));
  CHECK(error_of("a\n1\n\"2\n") == "x.csv, line 3: a cell begins with a quote and has none at its end");
  CHECK(error_of("a\n\"1\" 2\n") ==
        "x.csv, line 2: text follows the quote that ends a cell; inside of a cell, quotes are doubled");
  CHECK(error_of("") == "x.csv is empty");
  CHECK(error_of("\n\n") == "x.csv is empty");
  CHECK(error_of(std::string("a\0", 2)) == "x.csv: byte 1 is 0, so it is not UTF-8 text; save it as UTF-8");
  CHECK(error_of([] { nn::read_csv("/nowhere/x.csv"); }) ==
        "x.csv': No such file or directory; check that the file exists and that you may read it");
  CHECK_THROWS_AS(nn::read_csv("/"), IoError);
}

TEST_CASE("read_csv: a cell that is no number, with its row and column") {
  const auto error = [](const std::string& cell, DType dtype = DType::float32) {
    return error_of([&] { table_of("x\n1\n\"" + cell + "\"\n").column("x", dtype); });
  };
  const std::string place = "x.csv, row 2, column 'x': ";
  CHECK(error("1,5") ==
        place + "'1,5' is not a number; write the decimal point as '.', and nothing between thousands");
  CHECK(error("two").starts_with(place + "'two' is not a number; if it stands for a missing value, add it to"));
  CHECK(error("1.5", DType::int64) ==
        place + "'1.5' is not a whole number; read the column as float32, its texts or its categories");
  CHECK(error("+").starts_with(place + "'+' is not a number"));
  CHECK(error("0x1p3").starts_with(place + "'0x1p3' is not a number"));
  CHECK(error("1e39") == place + "'1e39' is beyond the range of float32");
  CHECK(error("1e39", DType::float64) == "no error");
  CHECK(error("1e309", DType::float64) == place + "'1e309' is beyond the range of float64");
  CHECK(error("2147483648", DType::int32) == place + "'2147483648' is beyond the range of int32");
  CHECK(error("2147483648", DType::int64) == "no error");
  CHECK(table_of("x\ninf\n").column("x").item() == HUGE_VAL);
  CHECK(error_of([] { table_of("x,y,x\n1,2,3\n").column("x"); }) ==
        "x.csv has several columns 'x'; its columns are 'x', 'y', 'x'");
  CHECK(table_of("x,y,x\n1,2,3\n").column("y").item() == 2);
  CHECK_THROWS_AS(table_of("x\n1\n").column("x", DType::boolean), DTypeError);
  CHECK_THROWS_AS(table_of("x\n1\n").texts("y"), IndexError);
}

TEST_CASE("read_csv: numbers near 0 are denormal or a 0 with their sign, and those beyond the range are refused") {
  const auto number = [](const std::string& cell) {
    return table_of("x\n" + cell + "\n").column("x", DType::float64).item();
  };
  const std::string zeros(400, '0');
  for (const std::string cell : {"1e-50", "1e-400", "0.001E-323", "123.5e-4000", "1e-9999999999"}) {
    CAPTURE(cell);
    for (const DType dtype : {DType::float32, DType::float64}) {
      if (cell == "1e-50" && dtype == DType::float64) continue;
      CHECK_FALSE(std::signbit(table_of("x\n" + cell + "\n").column("x", dtype).item()));
      CHECK(table_of("x\n" + cell + "\n").column("x", dtype).item() == 0);
      CHECK(std::signbit(table_of("x\n-" + cell + "\n").column("x", dtype).item()));
    }
  }
  CHECK(number("0." + zeros + "1") == 0);
  CHECK(number("1" + zeros + "e-800") == 0);
  CHECK(number("0." + zeros + "1e+402") == 10);
  CHECK(number("1" + zeros + "e-400") == 1);
  CHECK(number("4.9e-324") == std::numeric_limits<double>::denorm_min());
  CHECK(table_of("x\n1e-45\n").column("x").item() == std::numeric_limits<float>::denorm_min());
  for (const std::string& cell : Texts{"1e400", "-1e+400", "1" + zeros, "0." + zeros + "1e900", "1e9999999999"}) {
    CAPTURE(cell);
    CHECK(error_of([&] { number(cell); }).ends_with("is beyond the range of float64"));
  }
}

TEST_CASE("read_csv: the decimal point is that of every locale") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) std::setlocale(LC_ALL, name);
  CHECK(table_of("x\n1.5\n").column("x").item() == 1.5);
  std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("read_csv: text in another encoding, and two signs") {
  CHECK(error_of([] { table_of("name\nM\xFCller\n"); }) == "x.csv: byte 6 is not UTF-8; save it as UTF-8");
  CHECK(table_of("x\n+5\n").column("x").item() == 5);
  for (const char* text : {"x\n+-5\n", "x\n++5\n", "x\n-+5\n"}) CHECK_THROWS_AS(table_of(text).column("x"), IoError);
}
