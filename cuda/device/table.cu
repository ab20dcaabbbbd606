#include <linnet/core/device/backend.h>
#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/precision.cuh>
#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/transfer.cuh>
#include <linnet/cuda/matmul/blas.cuh>

/// Fills the GPU's kernel table with the kernels of all folders.

namespace linnet {
namespace cuda {

void fill_elementwise(Backend& table);
void fill_copy(Backend& table);
void fill_random(Backend& table);
void fill_reduction(Backend& table);
void fill_arg_reduce(Backend& table);
void fill_cumsum(Backend& table);
void fill_recurrence(Backend& table);
void fill_softmax(Backend& table);
void fill_sorting(Backend& table);
void fill_indexing(Backend& table);
void fill_gemm(Backend& table);
void fill_normalisation(Backend& table);
void fill_batch_norm(Backend& table);
void fill_loss(Backend& table);
void fill_attention(Backend& table);
void fill_fastmax(Backend& table);
void fill_sampled_scores(Backend& table);
void fill_attention_pool(Backend& table);
void fill_additive_attention(Backend& table);
void fill_short_conv(Backend& table);
void fill_convolution(Backend& table);
void fill_pooling(Backend& table);
void fill_recurrent(Backend& table);
void fill_norms(Backend& table);
void fill_optimizer(Backend& table);

namespace {

std::string describe() { return describe_device() + ", " + describe_blas(); }

Backend make_backend() {
  open_device();
  precision();  // throws for an unknown setting before any work
  Backend table{};
  table.describe = describe;
  table.allocate = allocate;
  table.deallocate = deallocate;
  table.memory_stats = memory_stats;
  table.reset_peak = reset_peak;
  table.release_cached = release_cached;
  table.from_host = from_host;
  table.to_host = to_host;
  table.record = record;
  table.set_precision = set_precision;
  fill_elementwise(table);
  fill_copy(table);
  fill_random(table);
  fill_reduction(table);
  fill_arg_reduce(table);
  fill_cumsum(table);
  fill_recurrence(table);
  fill_softmax(table);
  fill_sorting(table);
  fill_indexing(table);
  fill_gemm(table);
  fill_normalisation(table);
  fill_batch_norm(table);
  fill_loss(table);
  fill_attention(table);
  fill_fastmax(table);
  fill_sampled_scores(table);
  fill_attention_pool(table);
  fill_additive_attention(table);
  fill_short_conv(table);
  fill_convolution(table);
  fill_pooling(table);
  fill_recurrent(table);
  fill_norms(table);
  fill_optimizer(table);
  return table;
}

}  // namespace
}  // namespace cuda

/// Throws DeviceError if no GPU answers; the next call tries again. This is the only name of the CUDA backend that a
/// shared library exports.
[[gnu::visibility("default")]] const Backend& cuda_backend() {
  static const Backend table = cuda::make_backend();
  return table;
}

}  // namespace linnet
