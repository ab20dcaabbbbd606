#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include <linnet/linnet.h>

/// The lines that README shows under "From PyTorch" compile and do what their comments say.

using namespace linnet;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE(file);
  return text.str();
}

}  // namespace

TEST_CASE("README's lines for users of PyTorch do what they say") {
  // clang-format off
  Generator rng(1337);                             // no hidden state: random functions take a generator
  Tensor x = randn({2, 3}, rng), y = ones({2, 3}); // sizes go in braces; float32 unless a dtype is given
  Tensor ids = arange(3);                          // int64, as in PyTorch
  x[0];  x[{0, 1}];  x[{Slice{}, -1}];             // views; Python's x[0], x[0, 1], x[:, -1]
  y[0] = 5;  y += 1;  y.fill_(1);                  // edits in place
  x.shape();  x.rank();  x.size(1);  x.numel();
  Tensor z = concat({x, y}, 0);                    // torch.cat
  Tensor m = where(x > 0, x, 0);                   // masks come from comparisons
  x.masked_select(x > 0);                          // x[x > 0], a copy
  Tensor p = index_put(x, {x > 0}, scalar(1));     // p = x.clone(); p[x > 0] = 1
  x.sum();  x.sum(1);  x.mean({0, 1}, true);       // ops are functions, and many are also members
  auto [values, indices] = x.max(1);
  double number = x.sum().item();

  Tensor w = randn({3, 4}, rng).set_requires_grad();
  Tensor loss = matmul(x, w).square().mean();
  loss.backward();                                 // adds to w.grad()
  {
    NoGrad no_grad;                                // torch.no_grad()
    w -= 0.1 * w.grad();
  }
  w.set_grad({});                                  // w.grad = None
  const auto layer = [&](const Tensor& in) { return gelu(matmul(in, w)); };
  Tensor h = checkpoint(layer, x);                 // torch.utils.checkpoint: backward computes activations again
  Tensor j = jacobian(layer, x);                   // torch.autograd.functional; hessian exists too
  // clang-format on

  CHECK(ids.dtype() == DType::int64);
  CHECK(all(y == 1).item<bool>());
  CHECK(z.shape() == Shape{4, 3});
  CHECK(all(m >= 0).item<bool>());
  CHECK(all(p == where(x > 0, 1, x)).item<bool>());
  CHECK(all(values == x.gather(1, indices.unsqueeze(1)).squeeze(1)).item<bool>());
  CHECK(number == doctest::Approx(sum(x).item()));
  CHECK_FALSE(w.grad().defined());
  CHECK(all(h == gelu(matmul(x, w))).item<bool>());
  CHECK(j.shape() == Shape{2, 4, 2, 3});

  // README has exactly these lines, without the two spaces of indentation.
  const std::string source = read(LINNET_TEST_DATA "/nn/tour_test.cpp");
  const std::string begin = "  // clang-format off\n", end = "  // clang-format on\n";
  const size_t first = source.find(begin) + begin.size();
  std::istringstream lines(source.substr(first, source.find(end) - first));
  std::string shown;
  for (std::string line; std::getline(lines, line);) shown += (line.empty() ? line : line.substr(2)) + "\n";
  CHECK(read(LINNET_SOURCE_DIR "/README.md").find("```cpp\n" + shown + "```") != std::string::npos);
}
