#include <type_traits>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/device/tensor_list.cuh>

/// Norms of many tensors, such as all gradients of a model for clipping. Each block sums the squares of some
/// elements, and a second kernel adds these sums. Reading the tensors bounds it.

namespace linnet::cuda {
namespace {

template <class T>
struct NormTensor {
  const T* data;
  int64_t count, first_block;
  double* norm;  ///< the result
};

/// sums[b] = the sum of squares of block b's elements.
template <class T>
__global__ void sum_squares(TensorList<NormTensor<T>> tensors, double* sums) {
  using Block = ThreadGroup<kThreads>;
  for (int64_t block = blockIdx.x; block < tensors.blocks; block += gridDim.x) {
    const NormTensor<T>& tensor = tensors.at(block);
    const int64_t first = tensors.first(tensor, block);
    const T* x = tensor.data + first;
    const double sum = Block::sum<double>(min(tensors.kBlock, tensor.count - first), [=](int64_t i) {
      const double value = x[i];
      return value * value;
    });
    if (threadIdx.x == 0) sums[block] = sum;
  }
}

/// Computes each tensor's norm from its blocks' sums, with a block for each tensor.
template <class T>
__global__ void finish_norms(TensorList<NormTensor<T>> tensors, const double* sums) {
  using Block = ThreadGroup<kThreads>;
  for (int64_t t = blockIdx.x; t < tensors.count; t += gridDim.x) {
    const NormTensor<T>& tensor = tensors.of[t];
    const double* own = sums + tensor.first_block;
    const double sum = Block::sum<double>(tensors.blocks_of(tensor), [=](int64_t i) { return own[i]; });
    if (threadIdx.x == 0) *tensor.norm = sqrt(sum);
  }
}

/// Tensors of one dtype, collected for one launch.
template <class T>
class NormBatch {
 public:
  void add(const View& x, double* norm) {
    if (tensors_.is_full()) flush();
    tensors_.add({data<const T>(x), numel(x), 0, norm});
  }

  void flush() {
    const Scratch<double> sums(tensors_.blocks);
    launch(sum_squares<T>, tensors_.blocks, kThreads, tensors_, sums.data());
    launch(finish_norms<T>, tensors_.count, kThreads, tensors_, sums.data());
    tensors_.count = 0;
    tensors_.blocks = 0;
  }

 private:
  TensorList<NormTensor<T>> tensors_{};
};

void norms(View out, Views x) {
  NormBatch<float> floats;
  NormBatch<double> doubles;
  for (int64_t i = 0; i < x.count; ++i) {
    dispatch_floating(x.data[i].dtype, [&](auto zero) {
      if constexpr (std::is_same_v<decltype(zero), float>) {
        floats.add(x.data[i], data<double>(out) + i);
      } else {
        doubles.add(x.data[i], data<double>(out) + i);
      }
    });
  }
  floats.flush();
  doubles.flush();
}

}  // namespace

void fill_norms(Backend& table) { table.norms = norms; }

}  // namespace linnet::cuda
