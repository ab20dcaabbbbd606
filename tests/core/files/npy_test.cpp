#include <linnet/core/files/npy.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/files.h"
#include "tests/support/values.h"

/// Files that NumPy wrote (tests/goldens/numpy_files.py), files that linnet wrote, and damaged files.

using namespace linnet;
using namespace linnet::test;

namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LINNET_TEST_DATA) / "goldens/numpy" / name;
}

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

/// The message of read_npy's error for a file with these bytes.
std::string npy_error(const std::string& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.npy", bytes);
  return error_of([&] { read_npy(folder / "x.npy"); });
}

/// A file with this text as its header, followed by `data` zero bytes.
std::string npy_of(const std::string& text, size_t data) {
  const std::string length{static_cast<char>(text.size() & 255U), static_cast<char>(text.size() >> 8U)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + text + std::string(data, '\0');
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Checks the arrays of tests/goldens/numpy_files.py, which have the same values in both byte orders.
void check_types(const TensorMap& arrays) {
  CHECK(arrays.size() == 12);
  const auto check = [&](const std::string& name, DType dtype, double least, double most) {
    CAPTURE(name);
    const Tensor& x = arrays.at(name);
    CHECK(x.dtype() == dtype);
    CHECK(x.shape() == Shape{2, 3});
    CHECK(x.is_contiguous());
    const std::vector<double> values = x.to_vector<double>();
    if (!is_floating(dtype)) {
      CHECK(values == std::vector<double>{0, 1, 2, 100, least, most});
      return;
    }
    CHECK(std::vector<double>(values.begin(), values.begin() + 5) ==
          std::vector<double>{0.5, -2, most, least, -std::numeric_limits<double>::infinity()});
    CHECK(std::isnan(values[5]));
  };
  check("i1", DType::int32, -128, 127);
  check("u1", DType::int32, 0, 255);
  check("i2", DType::int32, -32768, 32767);
  check("u2", DType::int32, 0, 65535);
  check("i4", DType::int32, -0x1p31, 0x1p31 - 1);
  check("u4", DType::int64, 0, 0x1p32 - 1);
  check("i8", DType::int64, -0x1p63, 0x1p63);  // as a double
  check("u8", DType::int64, 0, 0x1p63);
  CHECK(arrays.at("i8").to_vector<int64_t>()[5] == std::numeric_limits<int64_t>::max());
  check("f2", DType::float32, 0x1p-14, 65504);
  check("f4", DType::float32, 0x1p-126, std::numeric_limits<float>::max());
  check("f8", DType::float64, 0x1p-1022, std::numeric_limits<double>::max());
  CHECK(arrays.at("b1").dtype() == DType::boolean);
  CHECK(arrays.at("b1").to_vector<double>() == std::vector<double>{0, 1, 1, 1, 0, 0});
}

}  // namespace

TEST_CASE("npy: NumPy's files are read, of every version, byte order, order of dims and element type") {
  const std::vector<double> first{0.5, -2, std::numeric_limits<float>::max(), 0x1p-126};
  for (const char* name : {"version1.npy", "version2.npy", "version3.npy"}) {
    CAPTURE(name);
    const Tensor x = read_npy(golden(name));
    CHECK(x.dtype() == DType::float32);
    CHECK(x.shape() == Shape{2, 3});
    const std::vector<double> values = x.to_vector<double>();
    CHECK(std::vector<double>(values.begin(), values.begin() + 4) == first);
  }
  CHECK(read_npy(golden("scalar.npy")).shape() == Shape{});
  CHECK(read_npy(golden("scalar.npy")).item() == 2.5);
  CHECK(read_npy(golden("vector.npy")).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  CHECK(read_npy(golden("empty.npy")).shape() == Shape{0, 4});
  const Tensor fortran = read_npy(golden("fortran.npy"));
  CHECK(fortran.shape() == Shape{2, 3, 4});
  CHECK(fortran.is_contiguous());
  CHECK(fortran.to_vector<int64_t>() == arange(24).to_vector<int64_t>());
  check_types(read_npz(golden("little.npz")));
  check_types(read_npz(golden("big.npz")));
}

TEST_CASE("npz: names are those of numpy.savez, and a comment, folders and Unicode may be there") {
  const TensorMap unnamed = read_npz(golden("unnamed.npz"));
  CHECK(unnamed.size() == 2);
  CHECK(unnamed.at("arr_0").to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  CHECK(unnamed.at("arr_1").shape() == Shape{2, 2});
  CHECK(read_npz(golden("comment.npz")).contains("folder/α"));
  CHECK(read_npz(golden("zip64.npz")).at("x").to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("npy: a written file has the bytes of NumPy's") {
  const TemporaryFolder folder;
  for (const char* name : {"version1.npy", "scalar.npy", "vector.npy", "empty.npy"}) {
    CAPTURE(name);
    write_npy(folder / name, read_npy(golden(name)));
    CHECK(read_bytes(folder / name) == read_bytes(golden(name)));
  }
  CHECK(folder.file_count() == 4);  // no temporary file is left
}

TEST_CASE("npy, npz: what is written is read back") {
  const TemporaryFolder folder;
  TensorMap tensors = read_npz(golden("little.npz"));
  tensors["αβ/transposed"] = arange(6).reshape({2, 3}).transpose(0, 1);
  tensors["empty"] = zeros({0, 4});
  tensors["scalar"] = scalar(2.5, DType::float64);
  tensors["long"] = arange(100'000);
  write_npz(folder / "a.npz", tensors);
  const TensorMap read = read_npz(folder / "a.npz");
  CHECK(read.size() == tensors.size());
  for (const auto& [name, x] : tensors) {
    CAPTURE(name);
    write_npy(folder / "x.npy", x);
    for (const Tensor& y : {read.at(name), read_npy(folder / "x.npy")}) {
      CHECK(y.dtype() == x.dtype());
      CHECK(y.shape() == x.shape());
      CHECK_MESSAGE(bytes_of(y) == bytes_of(x), y);
    }
  }
  write_npz(folder / "null.npz", {{"x", from_memory<float>(nullptr, {0, 2}, nullptr)}});
  CHECK(read_npz(folder / "null.npz").at("x").shape() == Shape{0, 2});
  write_npz(folder / "none.npz", {});
  CHECK(read_npz(folder / "none.npz").empty());
  CHECK(read_bytes(folder / "none.npz").starts_with("PK\x05\x06"));  // by this NumPy recognises the file
  CHECK_THROWS_WITH_AS(write_npz(folder / "b.npz", {{"\xFF", zeros({1})}}), doctest::Contains("is not UTF-8"),
                       ValueError);
  CHECK_THROWS_AS(write_npz(folder / "b.npz", {{std::string(65532, 'a'), zeros({1})}}), ValueError);
  CHECK_FALSE(std::filesystem::exists(folder / "b.npz"));
}

TEST_CASE("npy: elements that linnet has no dtype for are refused, and the message says what to do") {
  const auto error = [](const char* name) { return error_of([&] { read_npy(golden(name)); }); };
  CHECK(contains(error("complex.npy"),
                 "its elements are '<c8' (complex numbers), which linnet does not read; save "
                 "numbers, for example x.astype('float32')"));
  CHECK(contains(error("text.npy"), "'<U2' (text)"));
  CHECK(contains(error("object.npy"), "'|O' (Python's objects, which only code that the file holds can restore)"));
  CHECK(contains(error("structs.npy"), "its elements are structs; save each field as an array of its own"));
  CHECK(contains(error("beyond_int64.npy"), "it holds 9223372036854775808, more than int64 holds"));
  CHECK(contains(error("none.npy"), "none.npy': No such file or directory; check that the file exists and that you"));
  CHECK(contains(error("."), ".': it is not a file; check that the file exists"));
  CHECK(contains(error("little.npz"), "byte 0: it does not begin with \\x93NUMPY"));
}

TEST_CASE("npy: a damaged header is refused with the byte") {
  const std::string rest = "'fortran_order': False, 'shape': (2,), }\n";
  CHECK(npy_error(npy_of("{'descr': '<f4', " + rest, 8)) == "no error");
  CHECK(npy_error(npy_of("{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2L,1L)}", 8)) == "no error");
  const auto check = [](const std::string& text, const std::string& message) {
    const std::string error = npy_error(npy_of(text, 8));
    CHECK_MESSAGE(contains(error, message + "; make or copy it again"), text, " → ", error);
  };
  check("", "byte 10: no '{' in its header");
  check("['descr']", "byte 10: no '{' in its header");
  check("{'descr' '<f4', " + rest, "byte 19: no ':' in its header");
  check("{'descr': <f4, " + rest, "byte 20: no ''' in its header");
  check("{'descr': '<f4", "byte 21: a string in its header has no end");
  check("{'descr': '<f4', 'shape': (2,)}", "byte 41: no descr, fortran_order or shape before the header's end");
  check("{'descr': '<f4', 'descr': '<f4', " + rest,
        "byte 34: its header has the key 'descr', which is unknown or repeated");
  check("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "byte 44: fortran_order is neither True nor False");
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "byte 61: a size of its shape is not a whole number from 0 on");
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", "byte 62: no ',' in its shape");
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "byte 61: a size of its shape is not a whole number from 0 on");
  check("{'descr': '<f4', " + rest + "x", "byte 68: more text after the header's end");
  check("{'descr': __import__('os'), " + rest, "byte 20: no ''' in its header");
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        "byte 85: 8 bytes follow, which are not the '<f4' elements of shape (4611686018427387904, 4)");
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "byte 65: 8 bytes follow, which are not the '<f4' elements of shape (3)");
  std::string dims;
  for (int i = 0; i < 65; ++i) dims += "1,";
  CHECK(contains(npy_error(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (" + dims + ")}", 4)),
                 "more than 64 dims; reshape it"));
  CHECK(contains(npy_error(npy_of(std::string(10'001, ' '), 0)), "byte 8: a header of 10001 bytes, more than 10000"));
  CHECK(contains(npy_error(std::string("\x93NUMPY\x04\x00\x00\x00", 10)), "byte 6: version 4 of the format"));
  CHECK(contains(npy_error("\x93NUMPY\x01"), "a .npy file: it ends too early; make or copy it again"));
  CHECK(contains(npy_error(npy_of("{'descr': '|b1', " + rest, 1) + '\x02'), "it is bool, and has bytes other than"));
}

TEST_CASE("npy, npz: a file that ends early is refused at every byte, and one with more bytes too") {
  const TemporaryFolder folder;
  for (const char* name : {"version1.npy", "version2.npy", "scalar.npy", "fortran.npy"}) {
    const std::string bytes = read_bytes(golden(name));
    for (size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size);
      REQUIRE(contains(npy_error(bytes.substr(0, size)), "x.npy' is damaged, truncated or not a .npy file: "));
    }
    CHECK(contains(npy_error(bytes + '\0'), "bytes follow, which are not"));
  }
  write_npz(folder / "ours.npz", {{"x", arange(3)}});
  for (const std::filesystem::path& path : {golden("unnamed.npz"), folder / "ours.npz"}) {
    const std::string bytes = read_bytes(path);
    for (size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size);
      write_bytes(folder / "x.npz", bytes.substr(0, size));
      REQUIRE(contains(error_of([&] { read_npz(folder / "x.npz"); }),
                       "x.npz' is damaged, truncated or not a .npz file: "));
    }
  }
}

TEST_CASE("npz: a wrong byte is refused or changes nothing but what the checksum does not see") {
  const TemporaryFolder folder;
  for (const char* name : {"unnamed.npz", "big.npz"}) {
    const std::string bytes = read_bytes(golden(name));
    const TensorMap right = read_npz(golden(name));
    int64_t refused = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      CAPTURE(i);
      std::string wrong = bytes;
      wrong[i] = static_cast<char>(wrong[i] ^ 0x15);
      write_bytes(folder / "x.npz", wrong);
      try {
        const TensorMap read = read_npz(folder / "x.npz");
        REQUIRE(read.size() == right.size());
        for (auto a = read.begin(), b = right.begin(); b != right.end(); ++a, ++b) {
          REQUIRE(a->second.shape() == b->second.shape());
          REQUIRE_MESSAGE(bytes_of(a->second) == bytes_of(b->second), a->second);
        }
      } catch (const IoError&) {
        ++refused;
      }
    }
    CHECK(refused > std::ssize(bytes) / 2);
  }
}

TEST_CASE("npz: an archive that is not only arrays, or that needs another program, is refused by name") {
  const auto error = [](const char* name) { return error_of([&] { read_npz(golden(name)); }); };
  CHECK(contains(error("note.npz"), "note.npz': 'note.txt': it is not an array"));
  CHECK(contains(error("bzip2.npz"), "'x.npy' is encrypted, or packed by another method than deflate; save it with"));
  CHECK(contains(error("vector.npy"), "no end of a zip archive; make or copy it again"));
}

TEST_CASE("npz: entries that lie on each other, have one name or claim too much are refused") {
  const TemporaryFolder folder;
  write_npz(folder / "a.npz", {{"x", arange(3)}, {"y", arange(3)}});
  const std::string bytes = read_bytes(folder / "a.npz");
  const auto error = [&](const std::string& of, size_t at, const std::string& instead) {
    std::string changed = bytes;
    const size_t begin = of.empty() ? 0 : changed.rfind(of);
    REQUIRE(begin != std::string::npos);
    changed.replace(begin + at, instead.size(), instead);
    write_bytes(folder / "b.npz", changed);
    return error_of([&] { read_npz(folder / "b.npz"); });
  };
  const std::string central = "PK\x01\x02";
  // In linnet's central records the sizes and the offset follow the name (5 bytes) and the field's header (4 bytes).
  CHECK(contains(
      error(central, 46, "x.npy" + bytes.substr(bytes.rfind(central) + 46 + 5, 4 + 16) + std::string(8, '\0')),
      "two entries overlap"));
  CHECK(contains(error(central, 46, "x.npy"), "'x.npy' has another name here"));
  // The name of y's own record too.
  std::string twice = bytes;
  for (size_t at = twice.find("y.npy"); at != std::string::npos; at = twice.find("y.npy")) twice[at] = 'x';
  write_bytes(folder / "b.npz", twice);
  CHECK(contains(error_of([&] { read_npz(folder / "b.npz"); }), "'x.npy': the archive has it twice"));
  CHECK(contains(error(central, 46 + 5 + 4, std::string(7, '\x7F')), "the sizes of 'y.npy'"));
  CHECK(contains(error(central, 46 + 5 + 4, std::string(7, '\x7F') + '\0' + std::string(7, '\x7F') + '\0'),
                 "'y.npy' ends beyond the file"));
  CHECK(contains(error(central, 16, "abcd"), "'y.npy': its checksum is wrong"));
  CHECK(contains(error(central, 8, "\x01"), "'y.npy' is encrypted"));
  CHECK(contains(error("PK\x06\x06", 32, std::string(7, '\x7F')), "entries from byte"));
  CHECK(contains(error("PK\x06\x06", 48, std::string(8, '\x7F')), "entries from byte"));
  CHECK(contains(error("PK\x06\x07", 8, std::string(8, '\x7F')), "the file ends too early"));
}
