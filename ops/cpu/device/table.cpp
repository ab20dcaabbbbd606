#include <linnet/core/device/backend.h>

/// The table of CPU kernels for one instruction set.

namespace linnet::cpu::LINNET_ISA {

void fill_elementwise(Backend& table);
void fill_random(Backend& table);
void fill_reduction(Backend& table);
void fill_arg_reduce(Backend& table);
void fill_cumsum(Backend& table);
void fill_recurrence(Backend& table);
void fill_softmax(Backend& table);
void fill_norms(Backend& table);
void fill_sorting(Backend& table);
void fill_indexing(Backend& table);
void fill_gemm(Backend& table);
void fill_normalisation(Backend& table);
void fill_batch_norm(Backend& table);
void fill_loss(Backend& table);
void fill_attention(Backend& table);
void fill_attention_backward(Backend& table);
void fill_fastmax(Backend& table);
void fill_performer(Backend& table);
void fill_sampled_scores(Backend& table);
void fill_attention_pool(Backend& table);
void fill_additive_attention(Backend& table);
void fill_short_conv(Backend& table);
void fill_convolution(Backend& table);
void fill_pooling(Backend& table);
void fill_recurrent(Backend& table);
void fill_optimizer(Backend& table);

void fill_kernels(Backend& table) {
  fill_elementwise(table);
  fill_random(table);
  fill_reduction(table);
  fill_arg_reduce(table);
  fill_cumsum(table);
  fill_recurrence(table);
  fill_softmax(table);
  fill_norms(table);
  fill_sorting(table);
  fill_indexing(table);
  fill_gemm(table);
  fill_normalisation(table);
  fill_batch_norm(table);
  fill_loss(table);
  fill_attention(table);
  fill_attention_backward(table);
  fill_fastmax(table);
  fill_performer(table);
  fill_sampled_scores(table);
  fill_attention_pool(table);
  fill_additive_attention(table);
  fill_short_conv(table);
  fill_convolution(table);
  fill_pooling(table);
  fill_recurrent(table);
  fill_optimizer(table);
}

}  // namespace linnet::cpu::LINNET_ISA
