#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/profile.h>
#include <linnet/core/error.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {

TEST_CASE("einsum sums over the labels that are not in the result") {
  const Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3}), b = tensor({1, 0, 0, 1, 2, -1}, {3, 2});
  CHECK(einsum("ij,jk->ik", a, b).to_vector<float>() == std::vector<float>{7, -1, 16, -1});
  CHECK(einsum("ij,jk->ki", a, b).to_vector<float>() == std::vector<float>{7, 16, -1, -1});
  CHECK(einsum(" ij , jk ", a, b).to_vector<float>() == std::vector<float>{7, -1, 16, -1});
  CHECK(einsum("zj,ja", a, b).to_vector<float>() == std::vector<float>{7, 16, -1, -1});  // result [a, z]
  CHECK(einsum("ij,jk->", a, b).item<float>() == 21);
  CHECK(einsum("ij,ij->ij", a, a).to_vector<float>() == std::vector<float>{1, 4, 9, 16, 25, 36});
  CHECK(einsum("i,j->ij", tensor({1, 2}), tensor({3, 4})).to_vector<float>() == std::vector<float>{3, 4, 6, 8});
  CHECK(einsum("bij,bjk->bik", zeros({2, 3, 0}), zeros({2, 0, 4})).shape() == Shape{2, 3, 4});
}

TEST_CASE("einsum: products without a summed label, and of rows with rows, are no matrix products") {
  Generator rng(5);
  const Tensor a = randn({30, 40}, rng, DType::float64), b = randn({40, 30}, rng, DType::float64);
  const Tensor x = randn({30, 5}, rng, DType::float64), y = randn({30, 6}, rng, DType::float64);
  const auto check_product = [](const char* equation, Tensor p, Tensor q, const Tensor& expected) {
    CAPTURE(equation);
    CHECK(allclose(einsum(equation, p, q), expected, 1e-13, 1e-13));
    p = p.detach().set_requires_grad();
    q = q.detach().set_requires_grad();
    Profile profile;
    backward(sum(einsum(equation, p, q)));
    for (const KernelCall& call : profile.calls()) CHECK(call.kernel != "gemm");
  };
  check_product("ij,ij->ij", a, a, mul(a, a));
  check_product("ij,ji->ij", a, b, mul(a, transpose(b)));
  check_product("ij,ji->ji", a, b, mul(transpose(a), b));
  check_product("bi,bj->bij", x, y, mul(x.unsqueeze(2), y.unsqueeze(1)));
  check_product("bi,bj->jbi", x, y, mul(x.unsqueeze(2), y.unsqueeze(1)).permute({2, 0, 1}));
  check_product("ij,ji->i", a, b, sum(mul(a, transpose(b)), {1}));
  check_product("ij,ij->", a, a, sum(mul(a, a)));
  CHECK(einsum("bi,bi->b", zeros({2, 0}), zeros({2, 0})).to_vector<float>() == std::vector<float>{0, 0});
  CHECK_THROWS_WITH_AS(einsum("i,i->i", arange(3), arange(3)),
                       doctest::Contains("einsum: takes floating tensors, not int64"), DTypeError);
}

TEST_CASE("einsum: diagonals, traces and sums of one tensor") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
  CHECK(einsum("ii->i", x).to_vector<float>() == std::vector<float>{1, 5, 9});
  CHECK(einsum("ii->", x).item<float>() == 15);
  CHECK(einsum("ii", x).item<float>() == 15);
  CHECK(einsum("ij->ji", x).to_vector<float>() == std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9});
  CHECK(einsum("ba", x).to_vector<float>() == std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9});
  CHECK(einsum("bA", x).to_vector<float>() == std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9});  // capitals first
  CHECK(einsum("ij->j", {x}).to_vector<float>() == std::vector<float>{12, 15, 18});
  CHECK(einsum("ii->i", arange(9).reshape({3, 3})).to_vector<int64_t>() == std::vector<int64_t>{0, 4, 8});
  const Tensor cube = arange(8, DType::float32).reshape({2, 2, 2});
  CHECK(einsum("iii->i", cube).to_vector<float>() == std::vector<float>{0, 7});
  CHECK(einsum("iji->ij", cube).to_vector<float>() == std::vector<float>{0, 2, 5, 7});
  CHECK(einsum("ii,ij->j", x, x).to_vector<float>() == std::vector<float>{84, 99, 114});
  CHECK(einsum("", scalar(3)).item<float>() == 3);
}

TEST_CASE("einsum: an ellipsis stands for dims that broadcast") {
  const Tensor x = arange(12, DType::float32).reshape({2, 2, 3}), y = arange(3, DType::float32);
  CHECK(einsum("...ij->...ji", x).shape() == Shape{2, 3, 2});
  CHECK(einsum("i...", x).shape() == Shape{2, 3, 2});
  CHECK(einsum("i...->", x).item<float>() == 66);
  CHECK(einsum("...i->...", x).to_vector<float>() == std::vector<float>{3, 12, 21, 30});
  CHECK(einsum("...i,i", x, y).to_vector<float>() == std::vector<float>{5, 14, 23, 32});
  CHECK(einsum("...ij,...jk", zeros({5, 1, 2, 3}), zeros({4, 3, 6})).shape() == Shape{5, 4, 2, 6});
  CHECK(einsum("...ij,...jk->ik", ones({5, 2, 3}), ones({3, 4})).to_vector<float>() == std::vector<float>(8, 15));
  CHECK(einsum("...ii->...i", x.slice(2, 0, 2)).to_vector<float>() == std::vector<float>{0, 4, 6, 10});
  CHECK(einsum("ij->...ij", ones({2, 3})).shape() == Shape{2, 3});
  CHECK(einsum("ij,jk->ik", ones({2, 1}), ones({3, 4})).to_vector<float>() == std::vector<float>(8, 3));  // as size 1
}

TEST_CASE("einsum: several tensors, the cheapest product first") {
  Generator rng(3);
  const Tensor a = randn({4, 5}, rng, DType::float64), b = randn({5, 6}, rng, DType::float64),
               c = randn({6, 2}, rng, DType::float64), d = randn({2}, rng, DType::float64);
  const Tensor expected = matmul(matmul(matmul(a, b), c), d);
  CHECK(allclose(einsum("ij,jk,kl,l->i", {a, b, c, d}), expected, 1e-13, 1e-13));
  CHECK(allclose(einsum("l,kl,ij,jk", {d, c, a, b}), expected, 1e-13, 1e-13));
  CHECK(allclose(einsum("i,i,i->i", {d, d, d}), d * d * d, 1e-14, 0));
  CHECK(allclose(einsum("i,j,k->kji", {d, d, d}), d.unsqueeze(1).unsqueeze(2) * d.unsqueeze(1) * d, 1e-14, 0));

  // Evaluated from left to right, this would make a tensor of 1,000 · 1,000 · 3 numbers.
  const Tensor wide = randn({1000, 3}, rng);
  const int64_t before = memory_stats().live;
  reset_peak_memory();
  einsum("ik,jk,j->i", {wide, wide, ones({1000})});
  CHECK(memory_stats().peak - before < 100'000);
}

TEST_CASE("einsum says what it cannot read") {
  const Tensor a = zeros({2, 3}), b = zeros({3, 2});
  const auto says = [](const std::string& text, const std::string& equation, const std::vector<Tensor>& operands) {
    CHECK_THROWS_WITH(einsum(equation, operands), doctest::Contains(("einsum: " + text).c_str()));
  };
  says("\"ij->ji\" has one term before the arrow, but 2 tensors are given", "ij->ji", {a, a});
  says("\"ij,jk\" has 2 terms before the arrow, but one tensor is given", "ij,jk", {a});
  says("\"ij,jk\" has 2 terms before the arrow, but 0 tensors are given", "ij,jk", {});
  says("\"ij,jk->iz\" has label 'z' after the arrow, but in no operand", "ij,jk->iz", {a, b});
  says("\"ij->jj\" has label 'j' twice after the arrow", "ij->jj", {a});
  says("label 'j' is 3 in operand 0 of shape [2, 3] and 2 in operand 1 of shape [2, 3]", "ij,jk->ik", {a, a});
  says("dim -1 of the ellipsis is 2 in operand 0 of shape [2, 3] and 3 in operand 1 of shape [3, 3]", "...i,...i",
       {a, zeros({3, 3})});
  says("label 'i' is 2 and 3 in one term of \"ii\", for operand 0 of shape [2, 3]", "ii", {a});
  says("\"ijk\" names 3 dims, but operand 0 has shape [2, 3]", "ijk,kl", {a, a});
  says("\"i\" names 1 dims, but operand 0 has shape [2, 3]", "i", {a});
  says("\"ij...k\" names at least 3 dims, but operand 0 has shape [2, 3]", "ij...k", {a});
  says("\"i1\" has '1' where a label should be", "i1", {a});
  says("\"i..j\" has '.' where a label should be", "i..j", {a});
  says("\"...i...\" has '.' where a label should be", "...i...", {a});
  says("\"i->j->k\" has '-' where a label should be", "i->j->k", {a});
  says("\"iä->i\" has 'ä' where a label should be", "iä->i", {a});
  CHECK_THROWS_WITH_AS(einsum("ij,jk", a.to(DType::int64), b),
                       doctest::Contains("convert one with to(DType::float32)"), DTypeError);
  CHECK_THROWS_WITH_AS(einsum("ij,jk", a, b.to(DType::float64)),
                       doctest::Contains("einsum: operand 0 is float32[2, 3], but operand 1 is float64[3, 2]"),
                       DTypeError);
}

}  // namespace linnet
