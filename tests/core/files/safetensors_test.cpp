#include <linnet/core/files/safetensors.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <thread>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

int64_t count_files(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator());
}

/// A file with this header and `data` zero bytes.
std::string with_header(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, '\0');
}

std::string error_of(const std::filesystem::path& path) {
  try {
    read_safetensors(path);
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

Safetensors example() {
  return {.tensors = {{"f32", tensor({1.5, -2, 3, 4, 5, 6}, {2, 3})},
                      {"f64", tensor({1e300, -0.1}, DType::float64)},
                      {"i32", tensor({-7}, DType::int32)},
                      {"i64", tensor(std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 1})},
                      {"flags", tensor({1, 0, 1}, DType::boolean)},
                      {"empty", zeros({0, 4})},
                      {"scalar", scalar(2.5, DType::float64)}},
          .metadata = {{"config", "{\"layers\": 4}"}, {"Ünï", "„code“"}}};
}

}  // namespace

TEST_CASE("safetensors: what is written is read back") {
  const TemporaryFolder folder;
  const Safetensors written = example();
  write_safetensors(folder / "a.safetensors", written);
  CHECK(count_files(folder) == 1);  // no temporary file is left

  const Safetensors read = read_safetensors(folder / "a.safetensors");
  CHECK(read.metadata == written.metadata);
  REQUIRE(read.tensors.size() == written.tensors.size());
  for (const auto& [name, expected] : written.tensors) {
    CAPTURE(name);
    const Tensor& actual = read.tensors.at(name);
    CHECK(actual.dtype() == expected.dtype());
    CHECK(actual.shape() == expected.shape());
    CHECK(actual.to_vector<double>() == expected.to_vector<double>());
  }
  CHECK(read.tensors.at("i64").data<int64_t>()[0] == std::numeric_limits<int64_t>::min());
}

TEST_CASE("safetensors: the header is padded, and every tensor aligned to its elements") {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", example());
  const std::string bytes = read_bytes(folder / "a");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes.substr(8, 16) == "{\"__metadata__\":");
  CHECK(bytes.find(R"("f64":{"data_offsets":[0,16],"dtype":"F64","shape":[2]})") != std::string::npos);
}

TEST_CASE("safetensors: a strided tensor is written row by row") {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {.tensors = {{"t", tensor({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1)}}});
  CHECK(read_safetensors(folder / "a").tensors.at("t").to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("safetensors: deferred tensors are made one at a time, and the file is the same") {
  const TemporaryFolder folder;
  Safetensors content = example();
  write_safetensors(folder / "whole.safetensors", content);
  std::vector<std::string> made;
  for (const std::string name : {"i32", "f64", "empty"}) {
    const Tensor tensor = content.tensors.extract(name).mapped();
    content.deferred[name] = {tensor.shape(), tensor.dtype(), [&made, name, tensor] {
                                made.push_back(name);
                                return tensor.clone();
                              }};
  }
  write_safetensors(folder / "deferred.safetensors", content);
  CHECK(made == std::vector<std::string>{"f64", "empty", "i32"});
  CHECK(read_bytes(folder / "deferred.safetensors") == read_bytes(folder / "whole.safetensors"));

  content.deferred["f64"].dtype = DType::float32;
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "deferred.safetensors", content),
                       doctest::Contains("tensor 'f64' was to be [2] float32, and was made as [2] float64"),
                       ValueError);
  content.tensors["f64"] = zeros({2});
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "deferred.safetensors", content),
                       doctest::Contains("two tensors have the name 'f64'"), ValueError);
  CHECK(read_bytes(folder / "deferred.safetensors") == read_bytes(folder / "whole.safetensors"));
  CHECK(count_files(folder) == 2);
}

TEST_CASE("safetensors: some tensors of a file are read alone") {
  const TemporaryFolder folder;
  const Safetensors written = example();
  write_safetensors(folder / "a.safetensors", written);
  for (const auto& [name, tensor] : written.tensors) {
    CAPTURE(name);
    std::vector<std::string> asked;
    const Safetensors read = read_safetensors(folder / "a.safetensors", [&](const std::string& other) {
      asked.push_back(other);
      return other == name;
    });
    CHECK(asked.size() == written.tensors.size());
    CHECK(read.metadata == written.metadata);
    REQUIRE(read.tensors.size() == 1);
    const Tensor& alone = read.tensors.at(name);
    CHECK(alone.dtype() == tensor.dtype());
    CHECK(alone.shape() == tensor.shape());
    CHECK(alone.to_vector<double>() == tensor.to_vector<double>());
  }
}

TEST_CASE("safetensors: BF16 is read as float32, exactly") {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})";
  // 1, -2.5, 3.140625, 2^-133 (the smallest), -infinity, NaN; then 1.5 as F32
  const std::string data("\x80\x3f\x20\xc0\x49\x40\x01\x00\x80\xff\xc1\x7f\x00\x00\xc0\x3f", 16);
  write_bytes(folder / "a", with_header(header, 0) + data);
  const TensorMap read = read_safetensors(folder / "a").tensors;
  CHECK(read.at("a").shape() == Shape{2, 3});
  const std::span<const float> a = read.at("a").data<float>();
  CHECK(std::vector<float>(a.begin(), a.begin() + 5) ==
        std::vector<float>{1, -2.5, 3.140625, 0x1p-133F, -std::numeric_limits<float>::infinity()});
  CHECK(std::isnan(a[5]));
  CHECK(read.at("b").item<float>() == 1.5);
}

TEST_CASE("safetensors: small floats are read as float32, exactly") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& dtype, const std::string& bytes, int64_t count) {
    write_bytes(folder / "a", with_header(R"({"a":{"dtype":")" + dtype + R"(","shape":[)" + std::to_string(count) +
                                              R"(],"data_offsets":[0,)" + std::to_string(bytes.size()) + "]}}",
                                          0) +
                                  bytes);
    return read_safetensors(folder / "a").tensors.at("a").to_vector<float>();
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  // 1, -2.5, the largest, the smallest normal, the smallest, -0, both infinities, NaN
  const std::vector<float> half =
      read("F16", std::string("\x00\x3c\x00\xc1\xff\x7b\x00\x04\x01\x00\x00\x80\x00\x7c\x00\xfc\x01\x7e", 18), 9);
  CHECK(std::vector<float>(half.begin(), half.begin() + 8) ==
        std::vector<float>{1, -2.5, 65504, 0x1p-14F, 0x1p-24F, 0, kInf, -kInf});
  CHECK(std::signbit(half[5]));
  CHECK(std::isnan(half[8]));
  const std::vector<float> e5m2 = read("F8_E5M2", std::string("\x3c\xc1\x7b\x04\x01\x7c\xfc\x7d", 8), 8);
  CHECK(std::vector<float>(e5m2.begin(), e5m2.begin() + 7) ==
        std::vector<float>{1, -2.5, 57344, 0x1p-14F, 0x1p-16F, kInf, -kInf});
  CHECK(std::isnan(e5m2[7]));
  const std::vector<float> e4m3 = read("F8_E4M3", std::string("\x38\xc2\x7e\x08\x01\x78\x7f\xff", 8), 8);
  CHECK(std::vector<float>(e4m3.begin(), e4m3.begin() + 6) ==
        std::vector<float>{1, -2.5, 448, 0x1p-6F, 0x1p-9F, 256});
  CHECK((std::isnan(e4m3[6]) && std::isnan(e4m3[7])));
}

TEST_CASE("safetensors: small and unsigned integers are read as int32 or int64") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& dtype, const std::string& bytes, int64_t count) {
    write_bytes(folder / "a", with_header(R"({"__metadata__":null,"a":{"dtype":")" + dtype + R"(","shape":[)" +
                                              std::to_string(count) + R"(],"data_offsets":[0,)" +
                                              std::to_string(bytes.size()) + "]}}",
                                          0) +
                                  bytes);
    return read_safetensors(folder / "a").tensors.at("a");
  };
  const auto check = [](const Tensor& x, DType dtype, const std::vector<int64_t>& values) {
    CHECK(x.dtype() == dtype);
    CHECK(x.to_vector<int64_t>() == values);
  };
  check(read("I8", "\x80\x7f", 2), DType::int32, {-128, 127});
  check(read("U8", "\x80\xff", 2), DType::int32, {128, 255});
  check(read("I16", std::string("\x00\x80\xff\x7f", 4), 2), DType::int32, {-32768, 32767});
  check(read("U16", std::string("\x00\x80\xff\xff", 4), 2), DType::int32, {32768, 65535});
  check(read("U32", "\xff\xff\xff\xff", 1), DType::int64, {4294967295});
  check(read("U64", "\xff\xff\xff\xff\xff\xff\xff\x7f", 1), DType::int64, {std::numeric_limits<int64_t>::max()});
  CHECK_THROWS_WITH_AS(read("U64", "\xff\xff\xff\xff\xff\xff\xff\xff", 1),
                       doctest::Contains("holds 18446744073709551615, more than int64 holds"), IoError);
}

TEST_CASE("safetensors: any truncation is refused") {
  const TemporaryFolder folder;
  write_safetensors(folder / "whole", example());
  const std::string bytes = read_bytes(folder / "whole");
  for (size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    write_bytes(folder / "part", bytes.substr(0, length));
    CHECK_THROWS_AS(read_safetensors(folder / "part"), IoError);
  }
  write_bytes(folder / "part", bytes + "x");
  CHECK_THROWS_AS(read_safetensors(folder / "part"), IoError);
}

TEST_CASE("safetensors: a header that lies is refused") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& header, size_t data, const char* because) {
    write_bytes(folder / "bad", with_header(header, data));
    const std::string error = error_of(folder / "bad");
    CAPTURE(error);
    CHECK(error.find(because) != std::string::npos);
    CHECK(error.find((folder / "bad").string()) != std::string::npos);
  };
  const auto entry = [](const char* name, const char* dtype, const char* shape, const char* offsets) {
    return std::string("\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}";
  };

  refused("[1]", 0, "not a JSON object");
  refused("{", 0, "not a JSON object");
  refused("{\"a\":\"\xff\"}", 0, "not a JSON object");
  refused(std::string(200'000, '['), 0, "not a JSON object");
  refused(std::string("{}\0anything", 11), 0, "not a JSON object");
  refused(R"({"a":3})", 0, "lacks dtype");
  refused(R"({"__metadata__":{"a":3}})", 0, "metadata 'a' is not a string");
  refused("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4, "lies in 4 bytes");
  refused("{" + entry("a", "F32", "[2]", "[0,12]") + "}", 8, "of 8 bytes");
  refused("{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8, "[8,0] of 8 bytes");
  refused("{" + entry("a", "F32", "[2]", "[0]") + "}", 8, "[0] of 8 bytes");
  refused("{" + entry("a", "F32", "[-2]", "[0,8]") + "}", 8, "size or offset -2");
  refused("{" + entry("a", "F32", "[2.0]", "[0,8]") + "}", 8, "size or offset 2.0");
  refused("{" + entry("a", "F32", "2", "[0,8]") + "}", 8, "2 where a list belongs");
  refused("{" + entry("a", "F32", "[18446744073709551615]", "[0,8]") + "}", 8, "size or offset");
  // 2^62 · 4 bytes wraps to 0
  for (const char* shape : {"[4611686018427387904]", "[0,4611686018427387904]", "[4611686018427387904,2,0]"}) {
    refused("{" + entry("a", "F32", shape, "[0,0]") + "}", 0, "more dims or bytes than there can be");
  }
  refused("{" + entry("a", "BF16", "[0,2305843009213693952]", "[0,0]") + "}", 0, "more dims or bytes than");
  std::string ones = "[1";
  for (int d = 1; d < 65; ++d) ones += ",1";
  refused("{" + entry("a", "F32", (ones + "]").c_str(), "[0,4]") + "}", 4, "more dims or bytes than there can be");
  refused("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12, "overlaps");
  refused("{" + entry("a", "F32", "[2]", "[4,12]") + "}", 12, "belong to no tensor");
  refused("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}", 8,
          "has the key 'a' twice");
  refused("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[0,4]") + "}", 4,
          "has the key 'a' twice");
  refused(R"({"a":{"dtype":"F32","shape":[1],"dtype":"F32","data_offsets":[0,4]}})", 4, "has the key 'dtype' twice");
  refused(" {" + entry("a", "F32", "[1]", "[0,4]") + "}", 4, "does not begin with {");
  refused("{" + entry("a", "F32", "[1]", "[0,4]") + "}", 8, "but 8 follow");
  refused("{" + entry("a", "BF16", "[3]", "[0,4]") + "}", 4, "'a', BF16 of shape [3], lies in 4 bytes");
  refused("{" + entry("a", "F16", "[3]", "[0,4]") + "}", 4, "'a', F16 of shape [3], lies in 4 bytes");
  refused("{" + entry("a", "C64", "[2]", "[0,16]") + "}", 16, "is C64, which linnet does not read; save it as F32");

  std::string huge(16, '\xff');
  write_bytes(folder / "bad", huge);
  CHECK(error_of(folder / "bad").find("header of 18446744073709551615 bytes") != std::string::npos);

  std::string flags = with_header("{" + entry("a", "BOOL", "[2]", "[0,2]") + "}", 2);
  flags.back() = 7;
  write_bytes(folder / "bad", flags);
  CHECK(error_of(folder / "bad").find("other than 0 and 1") != std::string::npos);
}

TEST_CASE("safetensors: a file of torch.save says what to do") {
  const TemporaryFolder folder;
  write_bytes(folder / "model.pt", std::string("PK\3\4\0\0\x8\x8", 8) + std::string(100, 'x'));
  CHECK_THROWS_WITH_AS(read_safetensors(folder / "model.pt"),
                       doctest::Contains("model.pt' is a zip archive, as torch.save writes; in Python, write"),
                       IoError);
}

TEST_CASE("safetensors: a file that is not there, and one that cannot be written") {
  const TemporaryFolder folder;
  CHECK(error_of(folder / "none").find("check that the file exists") != std::string::npos);
  CHECK(error_of(folder / ".").find("check that the file exists") != std::string::npos);
  CHECK_THROWS_AS(write_safetensors(folder / "no/such/a", example()), IoError);
  CHECK_THROWS_WITH_AS(write_safetensors("/dev/null", example()), doctest::Contains("'/dev/null': it is not a file"),
                       IoError);
  CHECK_THROWS_AS(write_safetensors(folder / "a", {.tensors = {{"__metadata__", zeros({1})}}}), ValueError);
  CHECK_THROWS_AS(write_safetensors(folder / "a", {.tensors = {{"\xff", zeros({1})}}}), ValueError);
  CHECK(count_files(folder) == 0);
}

TEST_CASE("safetensors: a header that no reader would take is not written") {
  const TemporaryFolder folder;
  Safetensors content;
  content.metadata["key"] = std::string(100'000'000, 'a');
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "a", content),
                       doctest::Contains("and no reader allows more than 100000000; shorten the metadata"),
                       ValueError);
  CHECK(count_files(folder) == 0);
}

TEST_CASE("safetensors: a failed write leaves the old file and nothing else") {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", example());
  const std::string before = read_bytes(folder / "a");
  const Tensor undefined;
  CHECK_THROWS(write_safetensors(folder / "a", {.tensors = {{"x", zeros({4})}, {"y", undefined}}}));
  CHECK(read_bytes(folder / "a") == before);
  CHECK(count_files(folder) == 1);
}

TEST_CASE("read_safetensors reads one file or the other while a writer replaces it") {
  const TemporaryFolder folder;
  const auto place = folder / "x.safetensors", next = folder / "next";
  write_safetensors(folder / "small", {.tensors = {{"x", ones({1})}}});
  write_safetensors(folder / "large", {.tensors = {{"x", ones({1000})}}});
  std::filesystem::copy_file(folder / "small", place);
  std::atomic<bool> is_done = false;
  std::thread writer([&] {
    for (bool large = true; !is_done; large = !large) {
      std::filesystem::create_hard_link(folder / (large ? "large" : "small"), next);
      std::filesystem::rename(next, place);
    }
  });
  int damaged = 0;
  for (int i = 0; i < 2000; ++i) damaged += error_of(place) != "no error";
  is_done = true;
  writer.join();
  CHECK(damaged == 0);
}
