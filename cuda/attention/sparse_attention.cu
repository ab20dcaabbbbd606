#include <linnet/cuda/attention/launches.cuh>

/// Softmax attention in which ranges or codes say which keys a query sees, or which continues the results over other
/// keys. It uses the kernels of attention.cu with SparseInputs. For a tile of queries they visit only the tiles of
/// keys that some of these queries see.

namespace linnet::cuda {

void sparse_attention(const AttentionCall& call, const View& o, const View& denominator) {
  launch_attention<SparseInputs>(call, o, denominator);
}

void sparse_attention_backward(const AttentionCall& call, const View& dq, const View& dk, const View& dv,
                               const View& d_o, const View& o, const View& denominator) {
  launch_attention_backward<SparseInputs>(call, dq, dk, dv, d_o, o, denominator);
}

}  // namespace linnet::cuda
