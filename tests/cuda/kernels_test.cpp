#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/cuda/agreement.h"

namespace linnet::test {
namespace {

constexpr DType kAll[] = {DType::float32, DType::float64, DType::int32, DType::int64, DType::boolean};
constexpr DType kNumbers[] = {DType::float32, DType::float64, DType::int32, DType::int64};

/// Integers with many ties; in floating dtypes also NaN, ±∞ and ±0.
Tensor awkward(const Shape& shape, DType dtype, Device device) {
  Tensor x = uniform(shape, 5, -4, 4).to(DType::int32).to(DType::float64);
  if (is_floating(dtype)) {
    const auto values = x.mutable_data<double>();
    const double special[] = {kNan, kInfinity, -kInfinity, 0.0, -0.0, -kNan};
    for (size_t i = 0; i < values.size(); i += 7) values[i] = special[i / 7 % 6];
  }
  return x.to(dtype).to(device);
}

}  // namespace

TEST_CASE("gpu: random numbers are the CPU's") {
  if (!has_gpu("random numbers of the GPU")) return;
  for (const int64_t n : {0, 1, 5, 1003, 100'000}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      agree("rand", 0, [&](Device device) {
        Generator generator(3);
        return std::vector<Tensor>{rand({n}, generator, dtype, device)};
      });
      agree("randn", dtype == DType::float32 ? 1e-6 : 1e-14, [&](Device device) {
        Generator generator(3);
        return std::vector<Tensor>{randn({n}, generator, dtype, device)};
      });
      agree("dropout", 0, [&](Device device) {
        Generator generator(3);
        const Tensor x = spread({n + 1}, 1, dtype, device);
        return std::vector<Tensor>{dropout(x, 0.3, generator), dropout(x.narrow(0, 1, n), 0.3, generator)};
      });
    }
    for (const DType dtype : {DType::int32, DType::int64}) {
      agree("randint", 0, [&](Device device) {
        Generator generator(3);
        return std::vector<Tensor>{randint(-7, 1'000'000, {n}, generator, dtype, device)};
      });
    }
  }
}

TEST_CASE("gpu: conversions, comparisons and choices") {
  if (!has_gpu("conversions and comparisons on the GPU")) return;
  for (const DType from : kAll) {
    agree("finite to another dtype", 0, [&](Device device) {
      std::vector<Tensor> results;
      for (const DType to : kAll) results.push_back(spread({41, 33}, 2, from, device, -9, 9).transpose(0, 1).to(to));
      return results;
    });
    agree("comparisons", 0, [&](Device device) {
      const Tensor a = awkward({33, 41}, from, device), b = awkward({41}, from, device);
      return std::vector<Tensor>{eq(a, b), ne(a, b), lt(a, b), le(a, b), gt(a, b), ge(a, b), where(eq(a, b), a, b)};
    });
  }
  for (const DType dtype : kNumbers) {
    if (is_floating(dtype)) {
      agree("gradients at NaN and ties", 0, [&](Device device) {
        const Tensor x = awkward({33, 41}, dtype, device).set_requires_grad();
        const Tensor y = awkward({33, 1}, dtype, device).set_requires_grad();
        return grad({relu(x), maximum(x, y), minimum(x, y)}, {x, y},
                    {.grad_outputs = std::vector<Tensor>(3, ones({33, 41}, dtype, device))});
      });
    }
    agree("arithmetic", 0, [&](Device device) {
      const Tensor a = awkward({33, 41}, dtype, device), b = awkward({33, 1}, dtype, device);
      return std::vector<Tensor>{add(a, b), sub(a, b), mul(a, b), maximum(a, b), minimum(a, b)};
    });
    agree("rounding and remainders", 0, [&](Device device) {
      const Tensor a = awkward({33, 41}, dtype, device), b = awkward({33, 1}, dtype, device);
      const Tensor halves = is_floating(dtype) ? a / 2 : a;
      return std::vector<Tensor>{floor(halves),
                                 ceil(halves),
                                 round(halves),
                                 trunc(halves),
                                 remainder(a, 3),
                                 remainder(a, -3),
                                 is_floating(dtype) ? remainder(a, b) : remainder(a, b * 2 + 1)};
    });
  }
}

TEST_CASE("gpu: reductions of long, wide and strided tensors") {
  if (!has_gpu("reductions on the GPU")) return;
  const std::vector<std::pair<Shape, Shape>> uses = {{{100'003}, {0}},         {{3, 5001}, {1}},   {{5001, 3}, {0}},
                                                     {{40, 50, 60}, {0, 2}},   {{300, 70}, {0}},   {{40, 50, 6}, {1}},
                                                     {{40, 50, 6}, {0, 1, 2}}, {{20'000, 65}, {0}}};
  for (const auto& [shape, dims] : uses) {
    for (const DType dtype : kAll) {
      agree("any, all", 0, [&, &s = shape, &d = dims](Device device) {
        const Tensor x = gt(spread(s, 4, DType::float64, device), 0.999).to(dtype);
        return std::vector<Tensor>{any(x, d), all(x, d)};
      });
    }
    for (const DType dtype : kNumbers) {
      agree("max, min", 0, [&, &s = shape, &d = dims](Device device) {
        const Tensor x = spread(s, 4, dtype, device, -1000, 1000);
        return std::vector<Tensor>{max(x, d), min(x, d), max(awkward(s, dtype, device), d)};
      });
      agree("sum", dtype == DType::float32 ? 1e-6 : 1e-14, [&, &s = shape, &d = dims](Device device) {
        const Tensor x = spread(s, 4, dtype, device, -1000, 1000);
        return std::vector<Tensor>{sum(x, d), sum(x.slice(0, 0, s[0], 2), d)};
      });
      if (!is_floating(dtype)) continue;
      agree("norm", dtype == DType::float32 ? 1e-6 : 1e-14, [&, &s = shape, &d = dims](Device device) {
        return std::vector<Tensor>{norm(spread(s, 4, dtype, device, -1e20, 1e20), 2, d)};
      });
    }
  }
}

TEST_CASE("gpu: along a dim") {
  if (!has_gpu("argmax, cumsum and softmax on the GPU")) return;
  for (const DType dtype : kNumbers) {
    agree("argmax, argmin", 0, [&](Device device) {
      const Tensor x = awkward({37, 1500}, dtype, device), y = spread({600, 9}, 6, dtype, device, -50, 50);
      return std::vector<Tensor>{argmax(x, 1), argmin(x, 1), argmax(x, 0), argmin(y, 0), argmax(y, 1)};
    });
  }
  for (const auto& [dtype, allowed] : kPrecisions) {
    agree("cumsum", allowed, [dtype = dtype](Device device) {
      return with_gradients({spread({3, 1000}, 7, dtype, device)}, [](auto& in) { return cumsum(in[0], 1); });
    });
    agree("prod, cumprod", allowed, [dtype = dtype](Device device) {
      return with_gradients({spread({3, 1000}, 7, dtype, device, 0.99, 1.01)},
                            [](auto& in) { return add(cumprod(in[0], 1), prod(in[0], {0}, true)); });
    });
    agree("softmax", allowed, [dtype = dtype](Device device) {
      const Tensor ruled_out = full({3, 5000}, -kInfinity, dtype, device);
      return std::vector<Tensor>{softmax(spread({3, 5000}, 7, dtype, device, -9, 9), -1), softmax(ruled_out, -1),
                                 log_softmax(spread({5000, 3}, 7, dtype, device, -9, 9), 0)};
    });
  }
}

TEST_CASE("gpu: running products past 0, infinity and the range of float64 are the CPU's") {
  if (!has_gpu("running products on the GPU")) return;
  Tensor x = ones({3, 600}, DType::float64);
  const auto values = x.mutable_data<double>();
  values[5] = 0;
  values[300] = kInfinity;
  for (size_t i = 0; i < 32; ++i) {  // powers of 2, so that all products are exact
    const bool outer = i < 8 || i >= 24;
    values[600 + 3 + i] = outer ? 0x1p120 : 0x1p-120;
    values[1200 + 3 + i] = outer ? 0x1p-120 : 0x1p120;
  }
  for (const DType dtype : {DType::float32, DType::float64}) {
    agree("cumprod", 0, [&](Device device) { return std::vector<Tensor>{cumprod(x.to(dtype).to(device), 1)}; });
  }
}

TEST_CASE("gpu: sorting") {
  if (!has_gpu("sorting on the GPU")) return;
  for (const DType dtype : kAll) {
    for (const bool descending : {false, true}) {
      for (const Shape& shape : {Shape{9, 1000}, Shape{1, 20'000}, Shape{3000, 3}, Shape{1}}) {
        agree("sort", 0, [&](Device device) {
          const ValuesAndIndices sorted = sort(awkward(shape, dtype, device), -1, descending);
          return std::vector<Tensor>{sorted.values, sorted.indices};
        });
      }
    }
  }
}

TEST_CASE("gpu: adding at indices that repeat gives the CPU's bits") {
  if (!has_gpu("gather and scatter_add on the GPU")) return;
  const auto ids = [](const Shape& shape, int64_t bound, Device device) {
    Generator generator(8);
    return randint(0, bound, shape, generator, DType::int64, device);
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const int64_t words : {1, 2, 65, 5000}) {  // indices that repeat 700 times, several times, once
      agree("embedding", 0, [&](Device device) {
        return with_gradients({spread({words, 33}, 9, dtype, device)},
                              [&](auto& in) { return embedding(in[0], ids({700}, words, device)); });
      });
    }
    agree("index_select", 0, [&](Device device) {
      return with_gradients({spread({5, 12, 7}, 9, dtype, device)},
                            [&](auto& in) { return index_select(in[0], 1, ids({300}, 12, device)); });
    });
    agree("gather, scatter_add", 0, [&](Device device) {
      return with_gradients(
          {spread({40, 9, 6}, 9, dtype, device), spread({40, 50, 6}, 10, dtype, device)}, [&](auto& in) {
            const Tensor index = ids({40, 50, 6}, 9, device);
            return add(scatter_add(in[0], 1, index, in[1]), scatter_add(in[0], 1, index, gather(in[0], 1, index)));
          });
    });
  }
}

TEST_CASE("gpu: writing at indices that repeat keeps the CPU's last one") {
  if (!has_gpu("scatter and index_put on the GPU")) return;
  for (const DType dtype : kAll) {
    agree("scatter, index_put", 0, [&](Device device) {
      Generator generator(8);
      const Tensor index = randint(0, 9, {40, 50, 6}, generator, DType::int64, device);
      const Tensor x = awkward({40, 9, 6}, dtype, device), src = awkward({40, 50, 6}, dtype, device);
      return std::vector<Tensor>{scatter(x, 1, index, src), index_put(x, {index.select(0, 0).select(1, 0)},
                                                                      src.permute({1, 0, 2}).narrow(1, 0, 9))};
    });
  }
  agree("scatter", 0, [&](Device device) {
    Generator generator(8);
    const Tensor index = randint(0, 9, {40, 50, 6}, generator, DType::int64, device);
    return with_gradients(
        {spread({40, 9, 6}, 9, DType::float32, device), spread({40, 50, 6}, 10, DType::float32, device)},
        [&](auto& in) { return scatter(in[0], 1, index, in[1]); });
  });
}

TEST_CASE("gpu: matrix products of any layout") {
  if (!has_gpu("matrix products on the GPU")) return;
  for (const auto& [dtype, allowed] : kPrecisions) {
    agree("matmul", allowed, [dtype = dtype](Device device) {
      const Tensor a = spread({3, 70, 50}, 11, dtype, device), b = spread({3, 50, 30}, 12, dtype, device);
      const Tensor wide = spread({3, 70, 100}, 13, dtype, device);
      return std::vector<Tensor>{matmul(a, b),
                                 matmul(transpose(b), transpose(a)),
                                 matmul(a, b.select(0, 1)),
                                 matmul(wide.slice(2, 0, 100, 2), b),
                                 matmul(a.select(1, 2), b.select(0, 0)),
                                 matmul(a.narrow(1, 3, 1), b),
                                 matmul(wide.narrow(2, 7, 50), b)};
    });
    agree("linear", allowed, [dtype = dtype](Device device) {
      return with_gradients({spread({200, 50}, 11, dtype, device), spread({30, 50}, 12, dtype, device),
                             spread({30}, 13, dtype, device)},
                            [](auto& in) { return linear(in[0], in[1], in[2]); });
    });
  }
}

TEST_CASE("gpu: a product with a bias, in every layout") {
  if (!has_gpu("products with a bias on the GPU")) return;
  struct Operands {
    Tensor out, a, b, bias;
  };
  using Arrange = std::function<void(Operands&)>;
  for (const auto& [dtype, allowed] : kPrecisions) {
    // Parts of larger tensors, from element `at` of each row on, and a bias from `bias_at` on.
    const auto compare = [&, type = dtype, most = allowed](const std::string& what, const Shape& sizes, int64_t at,
                                                           int64_t bias_at, const Arrange& arrange) {
      const int64_t batch = sizes[0], m = sizes[1], n = sizes[2], k = sizes[3];
      agree(what, most, [&](Device device) {
        const Tensor whole = spread({batch, m, n + 64}, 1, type, device);
        Operands x{whole.narrow(2, at, n), spread({batch, m, k + 64}, 2, type, device).narrow(2, at, k),
                   spread({batch, k, n + 64}, 3, type, device).narrow(2, at, n),
                   spread({n + 64}, 4, type, device).narrow(0, bias_at, n)};
        if (arrange) arrange(x);
        const View bias = detail::view(x.bias);
        backend(device).gemm(detail::view(x.out), detail::view(x.a), detail::view(x.b), &bias);
        return std::vector<Tensor>{whole};
      });
    };
    for (const auto& [at, bias_at] : {std::pair{0, 0}, {64, 64}, {1, 0}, {0, 1}}) {
      compare("one layout at several addresses", {1, 70, 64, 64}, at, bias_at, {});
    }
    compare("transposed", {1, 70, 50, 33}, 0, 0, [](Operands& x) {
      x.a = transpose(transpose(x.a).contiguous());
      x.b = transpose(transpose(x.b).contiguous());
    });
    compare("every other element", {1, 70, 50, 32}, 0, 0, [](Operands& x) {
      x = {x.out.narrow(2, 0, 25), x.a.slice(2, 0, 32, 2), x.b.narrow(1, 0, 16).slice(2, 0, 50, 2),
           x.bias.slice(0, 0, 50, 2)};
    });
    compare("one row", {1, 1, 50, 33}, 0, 0, {});
    compare("one column", {1, 70, 1, 33}, 0, 0, {});
    compare("no terms", {1, 70, 50, 0}, 0, 0, {});
    compare("a batch", {3, 70, 50, 33}, 0, 0, {});
  }
}

}  // namespace linnet::test
