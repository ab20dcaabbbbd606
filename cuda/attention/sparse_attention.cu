#include <linnet/cuda/attention/launches.cuh>

/// Softmax attention where ranges and codes say which keys a query sees, or where it continues the results of other
/// keys: the kernels of attention.cu with SparseInputs. They visit the tiles of keys that some query of a tile sees.

namespace linnet::cuda {

void sparse_attention(const AttentionCall& call, const View& o, const View& denominator) {
  launch_attention<SparseInputs>(call, o, denominator);
}

void sparse_attention_backward(const AttentionCall& call, const View& dq, const View& dk, const View& dv,
                               const View& d_o, const View& o, const View& denominator) {
  launch_attention_backward<SparseInputs>(call, dq, dk, dv, d_o, o, denominator);
}

}  // namespace linnet::cuda
