#include "support/bench/floor.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <cblas.h>

#include <linnet/core/device/kernel_access.h>
#include <linnet/linnet.h>
#include <omp.h>

namespace linnet::examples {
namespace {

/// Whether a matrix, the last two dims of an operand, is stored column by column.
bool is_transposed(const KernelCall::Operand& x) {
  return x.shape[2] != 1 && x.strides[2] != 1 && (x.shape[1] == 1 || x.strides[1] == 1);
}

void add_attention(std::vector<MatrixProduct>& products, const KernelCall& call, bool backward) {
  // attention(o, normaliser, q, k, v, …); attention_backward(dq, dk, dv, d_o, o, normaliser, q, k, v, …)
  const Shape& q = call.operands[backward ? 6 : 2].shape;
  const Shape& k = call.operands[backward ? 7 : 3].shape;
  const int64_t batch = q[0] * q[1], n = q[2], m = k[2], d = q[3];
  if (!backward) {
    products.push_back({batch, n, m, d, false, true});   // q·kᵀ
    products.push_back({batch, n, d, m, false, false});  // weights·v
  } else {
    products.push_back({batch, m, d, n, true, false});   // dv
    products.push_back({batch, n, m, d, false, true});   // d weights
    products.push_back({batch, n, d, m, false, false});  // dq
    products.push_back({batch, m, d, n, true, false});   // dk
  }
}

/// Operands of one product, filled once.
struct Operands {
  Tensor a, b, out;  // out is [batch, m, n]; a and b have the shapes that they have in memory

  explicit Operands(const MatrixProduct& p) {
    Generator rng(0);
    a = randn(p.transpose_a ? Shape{p.batch, p.k, p.m} : Shape{p.batch, p.m, p.k}, rng);
    b = randn(p.transpose_b ? Shape{p.batch, p.n, p.k} : Shape{p.batch, p.k, p.n}, rng);
    out = zeros({p.batch, p.m, p.n});
  }
};

void multiply_by_tiles(const MatrixProduct& p, const Operands& x) {
  const Tensor a = p.transpose_a ? transpose(x.a) : x.a, b = p.transpose_b ? transpose(x.b) : x.b;
  backend(x.out).gemm(detail::view(x.out), detail::view(a), detail::view(b), nullptr);
}

void multiply_by_blas(const MatrixProduct& p, const Operands& x) {
  const auto as_int = [](int64_t size) { return static_cast<blasint>(size); };
  for (int64_t i = 0; i < p.batch; ++i) {
    cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans,
                as_int(p.m), as_int(p.n), as_int(p.k), 1, static_cast<float*>(detail::view(x.a).data) + i * p.m * p.k,
                as_int(p.transpose_a ? p.m : p.k), static_cast<float*>(detail::view(x.b).data) + i * p.k * p.n,
                as_int(p.transpose_b ? p.k : p.n), 0, static_cast<float*>(detail::view(x.out).data) + i * p.m * p.n,
                as_int(p.n));
  }
}

/// Products in their order, with operands to compute them.
class Products {
 public:
  explicit Products(const std::vector<MatrixProduct>& products) : products_(products) {
    for (const MatrixProduct& p : products) {
      const Key key{p.batch, p.m, p.n, p.k, p.transpose_a, p.transpose_b};
      order_.push_back(&operands_.try_emplace(key, p).first->second);
    }
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  void by_tiles() const { compute(multiply_by_tiles); }

  void by_blas() const {
    const int threads = omp_get_max_threads();
    omp_set_num_threads(num_threads());
    compute(multiply_by_blas);
    omp_set_num_threads(threads);
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, bool, bool>;

  template <class Multiply>
  void compute(Multiply multiply) const {
    for (size_t i = 0; i < products_.size(); ++i) multiply(products_[i], *order_[i]);
  }

  std::vector<MatrixProduct> products_;
  std::map<Key, Operands> operands_;  // products of one shape share them
  std::vector<const Operands*> order_;
};

/// The products by OpenBLAS and by linnet, each to be measured for `seconds`.
std::vector<Work> ways_of(const Products& products, double seconds) {
  return {{[&] { products.by_blas(); }, seconds}, {[&] { products.by_tiles(); }, seconds}};
}

Timing faster(const Timing& a, const Timing& b) { return a.median_ms <= b.median_ms ? a : b; }

}  // namespace

std::vector<MatrixProduct> products_of(const std::vector<KernelCall>& calls) {
  std::vector<MatrixProduct> products;
  for (const KernelCall& call : calls) {
    if (call.kernel == "gemm") {
      const KernelCall::Operand &a = call.operands[1], &b = call.operands[2];
      products.push_back({a.shape[0], a.shape[1], b.shape[2], a.shape[2], is_transposed(a), is_transposed(b)});
    } else if (call.kernel == "attention" || call.kernel == "attention_backward") {
      add_attention(products, call, call.kernel != "attention");
    }
  }
  std::erase_if(products, [](const MatrixProduct& p) { return p.batch * p.m * p.n * p.k == 0; });
  return products;
}

Timing measure_floor(const std::vector<MatrixProduct>& products, double seconds) {
  const Products all(products);
  const std::vector<Timing> times = measure_in_rounds(ways_of(all, seconds));
  return faster(times[0], times[1]);
}

BesideFloor measure_beside_floor(const std::function<void()>& work, const std::vector<MatrixProduct>& products,
                                 double seconds) {
  if (products.empty()) return {measure(work, seconds), {}};
  constexpr double kShare = 0.2;
  const Products all(products);
  std::vector<Work> works = ways_of(all, kShare * seconds);
  works.push_back({work, seconds});
  const std::vector<Timing> times = measure_in_rounds(works);
  return {times[2], faster(times[0], times[1])};
}

}  // namespace linnet::examples
