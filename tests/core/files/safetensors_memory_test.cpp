#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <linnet/core/files/safetensors.h>

#include "tests/support/file_memory.h"
#include "tests/support/files.h"

/// Reading files that were made to waste memory takes no more than the limit of tests/support/file_memory.h and, for
/// the header, the memory of nlohmann's parser.

namespace linnet::test {
namespace {

std::string repeated(int64_t count, const std::string& text) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) all += text;
  return all;
}

/// `item(0)`, `item(1)` and so on, separated by commas.
std::string listed(int64_t count, const std::function<std::string(int64_t)>& item) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) all += (i > 0 ? "," : "") + item(i);
  return all;
}

std::string empty_tensor(int64_t i) {
  return fmt::format(R"("{}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})", i);
}

/// Bytes that the parser takes for each byte of a header of one token: two growing buffers, and an error's message.
constexpr int64_t kParserFactor = 12;

class Reader {
 public:
  /// Whether a file with this header, and no data, is read. Checks the memory that it takes.
  bool reads(const std::string& header, int64_t before_fault = 0) const {
    return memory(header, 0, before_fault).is_read;
  }
  FileMemory memory(const std::string& header, int64_t data, int64_t before_fault = 0) const {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    write_bytes(folder_ / "a", bytes + header + std::string(static_cast<size_t>(data), '\0'));
    return check_memory(folder_ / "a", [&] { return read_safetensors(folder_ / "a"); },
                        {.before_fault = before_fault, .parser = kParserFactor * std::ssize(header)});
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("safetensors: dtypes that become wider take the wider tensor and no more") {
  if (!allocations_are_counted("the memory that files take")) return;
  const Reader reader;
  const int64_t bytes = 24 * kMiB;
  for (const std::string dtype : {"F32", "F16", "BF16", "F8_E5M2", "U8", "U32"}) {
    CAPTURE(dtype);
    const int64_t size = dtype == "F32" || dtype == "U32" ? 4 : dtype == "F16" || dtype == "BF16" ? 2 : 1;
    const std::string header =
        fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype, bytes / size, bytes);
    const FileMemory memory = reader.memory(header, bytes);
    CHECK(memory.is_read);
    CHECK(memory.peak <= memory.kept + kMiB);
  }
}

TEST_CASE("safetensors: headers that are made to waste memory") {
  if (!allocations_are_counted("the memory that files take")) return;
  const Reader reader;
  const int64_t n = 8 * kMiB;
  const std::string x = R"("x":{"dtype":"F32","shape":[0],"data_offsets":[0,0])";
  CHECK_FALSE(reader.reads(R"({"x":{"y":)" + std::string(n, '[')));
  CHECK_FALSE(reader.reads(R"({"x":{"y":)" + std::string(n / 2, '[') + std::string(n / 2, ']') + "}}"));
  CHECK_FALSE(reader.reads(repeated(n / 5, R"({"a":)")));
  CHECK_FALSE(reader.reads(R"({"x":{"dtype":"F32","data_offsets":[0,0],"shape":[)" +
                           listed(n / 2, [](int64_t) { return "1"; }) + "]}}"));
  CHECK_FALSE(reader.reads(R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[)" +
                           listed(n / 2, [](int64_t) { return "0"; }) + "]}}"));
  // Fields that the format does not have are skipped.
  CHECK(reader.reads("{" + x + "," + listed(n / 11, [](int64_t i) { return fmt::format(R"("{}":1)", i); }) + "}}"));
  CHECK(reader.reads("{" + x + R"(,"y":[)" + listed(n / 3, [](int64_t) { return "{}"; }) + "]}}"));
  // One long string: a name, a text, a field, a dtype, or a string that does not end.
  const std::string text(20 * kMiB, 'a');
  CHECK(reader.reads(R"({"__metadata__":{"a":")" + text + R"("}})"));
  CHECK(reader.reads(R"({"__metadata__":{")" + text + R"(":"a"}})"));
  CHECK(reader.reads("{\"" + text + x.substr(2) + "}}"));
  CHECK(reader.reads("{" + x + ",\"" + text + "\":\"" + text + "\"}}"));
  const std::vector<std::string> ends{R"(":3})", R"(":{"dtype":")" + text + R"("}})", "\x01\"}", ""};
  for (const std::string& end : ends) {
    CHECK_FALSE(reader.reads("{\"" + text + end));
    CHECK_FALSE(reader.reads("{" + x + ",\"dtype\":\"" + text + end));
    CHECK_FALSE(reader.reads(R"({"__metadata__":{")" + text + end));
    CHECK_FALSE(reader.reads(R"({"__metadata__":{"a":")" + text + end));
  }
  CHECK(reader.reads(R"({"__metadata__":{"a":")" + repeated(n / 6, R"(\u0001)") + R"("}})"));
  CHECK_FALSE(reader.reads("{\"" + std::string(n, '\x01')));
  // Whitespace, which is 8 characters for each line break in the parser's messages.
  for (const char space : {' ', '\n', '\r', '\t'}) {
    CHECK(reader.reads("{" + x + "}" + std::string(n, space) + "}"));
    CHECK_FALSE(reader.reads("{" + x + "}" + std::string(n, space) + "x"));
  }
  CHECK_FALSE(reader.reads("{\"a\":" + std::string(n, '1') + "}"));
  CHECK_FALSE(reader.reads(R"({"x":{"dtype":"F32","shape":[)" + std::string(n, '1') + "]}}"));
  // Many small objects.
  CHECK(reader.reads(R"({"__metadata__":{)" + listed(n / 12, [](int64_t i) { return fmt::format(R"("{}":"")", i); }) +
                     "}}"));
  CHECK(reader.reads("{" + listed(n / 58, empty_tensor) + "}"));
}

TEST_CASE("safetensors: what is wrong at the end of a header is found before its tensors are made") {
  if (!allocations_are_counted("the memory that files take")) return;
  const Reader reader;
  const int64_t n = 12 * kMiB / 58, entry = 256;  // an entry is far smaller than a tensor
  const std::string tensors = "{" + listed(n, empty_tensor), x = R"("x":{"dtype":"I8","shape":[1],"data_offsets":)";
  CHECK_FALSE(reader.reads(tensors, n * entry));
  CHECK_FALSE(reader.reads(tensors + "," + empty_tensor(0) + "}", n * entry));
  CHECK_FALSE(reader.memory(tensors + "," + x + "[1,2]}}", 2, n * entry).is_read);
  CHECK_FALSE(reader.memory(tensors + "}", 1, n * entry).is_read);
}

}  // namespace linnet::test
