#include <limits>
#include <sstream>

#include <doctest/doctest.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

/// The expected texts are those of `str` for the same arrays in NumPy 2.4.6.

namespace linnet::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("print: whole numbers keep their point, and columns align") {
  CHECK(to_string(tensor({1.0, 2.0, 3.0}, {3}, DType::float32)) == "[1. 2. 3.]");
  CHECK(to_string(tensor({1.0, -2.0, 30.0, 4.5}, {2, 2}, DType::float32)) ==
        R"([[ 1.  -2. ]
 [30.   4.5]])");
  CHECK(to_string(tensor({0.5, 0.25, 100.125}, {3}, DType::float32)) == "[  0.5     0.25  100.125]");
  CHECK(to_string(tensor({-0.0, 0.0, 1.5}, {3}, DType::float32)) == "[-0.   0.   1.5]");
}

TEST_CASE("print: digits are the shortest that tell the number apart, in its own dtype") {
  CHECK(to_string(tensor({0.1, 0.2, 0.3333333333333333}, {3}, DType::float32)) ==
        "[0.1        0.2        0.33333334]");
  CHECK(to_string(tensor({0.1, 0.2, 0.3333333333333333}, {3}, DType::float64)) ==
        "[0.1        0.2        0.33333333]");
  CHECK(to_string(tensor({3.14159265358979}, {1}, DType::float64)) == "[3.14159265]");
  CHECK(to_string(tensor({1.1, 2.25, 0.001}, {3}, DType::float32)) == "[1.10e+00 2.25e+00 1.00e-03]");
  CHECK(to_string(tensor({0.123456785, 0.999999999}, {2}, DType::float64)) == "[0.12345678 1.        ]");
}

TEST_CASE("print: exponents when numbers are large, small or far apart") {
  CHECK(to_string(tensor({1000000.0, 2.0}, {2}, DType::float32)) == "[1.e+06 2.e+00]");
  CHECK(to_string(tensor({999999.0, 1000.0}, {2}, DType::float32)) == "[999999.   1000.]");
  CHECK(to_string(tensor({100000000.0, 25000000.0}, {2}, DType::float64)) == "[1.0e+08 2.5e+07]");
  CHECK(to_string(tensor({99999999.0, 100000.0}, {2}, DType::float64)) == "[99999999.   100000.]");
  CHECK(to_string(tensor({1e-05, 1.0}, {2}, DType::float32)) == "[1.e-05 1.e+00]");
  CHECK(to_string(tensor({9e-05, 0.01}, {2}, DType::float32)) == "[9.e-05 1.e-02]");
  CHECK(to_string(tensor({0.0001, 0.01}, {2}, DType::float64)) == "[0.0001 0.01  ]");
  CHECK(to_string(tensor({1000.0, 1.0}, {2}, DType::float32)) == "[1000.    1.]");
  CHECK(to_string(tensor({1001.0, 1.0}, {2}, DType::float32)) == "[1.001e+03 1.000e+00]");
  CHECK(to_string(tensor({1e-10, -25000000000.0, 0.0}, {3}, DType::float32)) == "[ 1.0e-10 -2.5e+10  0.0e+00]");
  CHECK(to_string(tensor({1e-300, 1e+300}, {2}, DType::float64)) == "[1.e-300 1.e+300]");
  CHECK(to_string(tensor({12345.678, 0.001}, {2}, DType::float32)) == "[1.2345678e+04 1.0000000e-03]");
  CHECK(to_string(tensor({1e+100, 1.5}, {2}, DType::float64)) == "[1.0e+100 1.5e+000]");
}

TEST_CASE("print: nan and infinities") {
  CHECK(to_string(tensor({kNan, 1.0, kInf}, {3}, DType::float32)) == "[nan  1. inf]");
  CHECK(to_string(tensor({kNan, -kInf, 1.25}, {3}, DType::float32)) == "[ nan -inf 1.25]");
  CHECK(to_string(tensor({kInf, -kInf, kNan}, {3}, DType::float32)) == "[ inf -inf  nan]");
  CHECK(to_string(tensor({kNan}, {1}, DType::float32)) == "[nan]");
  CHECK(to_string(tensor({10000000000.0, kNan, -kInf}, {3}, DType::float32)) == "[1.e+10    nan   -inf]");
  CHECK(to_string(tensor({-kInf, 0.0, 0.0}, {3}, DType::float32)) == "[-inf   0.   0.]");
}

TEST_CASE("print: integers and bool") {
  CHECK(to_string(tensor({1, -20, 300}, {3}, DType::int64)) == "[  1 -20 300]");
  CHECK(to_string(tensor({7, 8, 9, 10}, {2, 2}, DType::int32)) ==
        R"([[ 7  8]
 [ 9 10]])");
  CHECK(to_string(tensor({1, 0}, {2}, DType::boolean)) == "[ True False]");
  CHECK(to_string(tensor({1, 1}, {2}, DType::boolean)) == "[ True  True]");
}

TEST_CASE("print: rank 0 prints as a number does") {
  CHECK(to_string(scalar(1.0, DType::float32)) == "1.0");
  CHECK(to_string(scalar(0.1, DType::float32)) == "0.1");
  CHECK(to_string(scalar(0.1, DType::float64)) == "0.1");
  CHECK(to_string(scalar(123456.789, DType::float32)) == "123456.79");
  CHECK(to_string(scalar(1000000.0, DType::float32)) == "1e+06");
  CHECK(to_string(scalar(1e+16, DType::float64)) == "1e+16");
  CHECK(to_string(scalar(123456789.0, DType::float64)) == "123456789.0");
  CHECK(to_string(scalar(1e-05, DType::float64)) == "1e-05");
  CHECK(to_string(scalar(0.0, DType::float32)) == "0.0");
  CHECK(to_string(scalar(kNan, DType::float32)) == "nan");
  CHECK(to_string(scalar(-kInf, DType::float32)) == "-inf");
  CHECK(to_string(scalar(-7, DType::int64)) == "-7");
  CHECK(to_string(scalar(1, DType::boolean)) == "True");
}

TEST_CASE("print: empty tensors") {
  CHECK(to_string(Tensor::empty({0})) == "[]");
  CHECK(to_string(Tensor::empty({2, 0, 3})) == "[]");
}

TEST_CASE("print: brackets and blank lines") {
  CHECK(to_string(arange(24, DType::int64).reshape({2, 3, 4})) ==
        R"([[[ 0  1  2  3]
  [ 4  5  6  7]
  [ 8  9 10 11]]

 [[12 13 14 15]
  [16 17 18 19]
  [20 21 22 23]]])");
  CHECK(to_string(arange(4, DType::float32).reshape({1, 2, 1, 2})) ==
        R"([[[[0. 1.]]

  [[2. 3.]]]])");
  CHECK(to_string(arange(2, DType::int64).reshape({1, 1, 1, 1, 1, 1, 1, 2})) == "[[[[[[[[0 1]]]]]]]]");
  CHECK(to_string(arange(6, DType::int64).reshape({2, 3}).transpose(0, 1)) ==
        R"([[0 3]
 [1 4]
 [2 5]])");
}

TEST_CASE("print: long lines wrap at 75 characters") {
  CHECK(to_string(arange(40, DType::int64)) ==
        R"([ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39])");
  CHECK(to_string(arange(60, DType::float32).reshape({2, 30}) / 8) ==
        R"([[0.    0.125 0.25  0.375 0.5   0.625 0.75  0.875 1.    1.125 1.25  1.375
  1.5   1.625 1.75  1.875 2.    2.125 2.25  2.375 2.5   2.625 2.75  2.875
  3.    3.125 3.25  3.375 3.5   3.625]
 [3.75  3.875 4.    4.125 4.25  4.375 4.5   4.625 4.75  4.875 5.    5.125
  5.25  5.375 5.5   5.625 5.75  5.875 6.    6.125 6.25  6.375 6.5   6.625
  6.75  6.875 7.    7.125 7.25  7.375]])");
  CHECK(to_string(arange(22, DType::float64) * 1.5) ==
        R"([ 0.   1.5  3.   4.5  6.   7.5  9.  10.5 12.  13.5 15.  16.5 18.  19.5
 21.  22.5 24.  25.5 27.  28.5 30.  31.5])");
}

TEST_CASE("print: more than 1000 elements are summarised") {
  CHECK(to_string(arange(1000, DType::int64).reshape({100, 10}).narrow(0, 0, 2)) ==
        R"([[ 0  1  2  3  4  5  6  7  8  9]
 [10 11 12 13 14 15 16 17 18 19]])");
  CHECK(to_string(arange(1001, DType::int64)) == "[   0    1    2 ...  998  999 1000]");
  CHECK(to_string(arange(1200, DType::int64).reshape({30, 40})) ==
        R"([[   0    1    2 ...   37   38   39]
 [  40   41   42 ...   77   78   79]
 [  80   81   82 ...  117  118  119]
 ...
 [1080 1081 1082 ... 1117 1118 1119]
 [1120 1121 1122 ... 1157 1158 1159]
 [1160 1161 1162 ... 1197 1198 1199]])");
  CHECK(to_string(arange(2000, DType::float32).reshape({2, 500, 2}) / 4) ==
        R"([[[0.0000e+00 2.5000e-01]
  [5.0000e-01 7.5000e-01]
  [1.0000e+00 1.2500e+00]
  ...
  [2.4850e+02 2.4875e+02]
  [2.4900e+02 2.4925e+02]
  [2.4950e+02 2.4975e+02]]

 [[2.5000e+02 2.5025e+02]
  [2.5050e+02 2.5075e+02]
  [2.5100e+02 2.5125e+02]
  ...
  [4.9850e+02 4.9875e+02]
  [4.9900e+02 4.9925e+02]
  [4.9950e+02 4.9975e+02]]])");
  CHECK(to_string(arange(1200, DType::int64).reshape({6, 200})) ==
        R"([[   0    1    2 ...  197  198  199]
 [ 200  201  202 ...  397  398  399]
 [ 400  401  402 ...  597  598  599]
 [ 600  601  602 ...  797  798  799]
 [ 800  801  802 ...  997  998  999]
 [1000 1001 1002 ... 1197 1198 1199]])");
}

TEST_CASE("print: a stream gets the same text; an undefined tensor says so") {
  std::ostringstream stream;
  stream << tensor({1, 2}) << ' ' << Tensor();
  CHECK(stream.str() == "[1. 2.] undefined tensor");
}

TEST_CASE("print: a tensor that requires grad prints like any other") {
  CHECK(to_string(tensor({1, 2.5}).set_requires_grad()) == "[1.  2.5]");
}

}  // namespace linnet::test
