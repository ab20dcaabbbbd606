#include "tests/support/op_case.h"

namespace linnet::test {

Registry all_cases() {
  Registry all;
  add_elementwise_cases(all);
  add_reduction_cases(all);
  add_indexing_cases(all);
  add_matmul_cases(all);
  add_layer_cases(all);
  add_convolution_cases(all);
  add_batch_norm_cases(all);
  add_vision_cases(all);
  add_recurrent_cases(all);
  add_attention_cases(all);
  add_sparse_attention_cases(all);
  add_view_cases(all);
  return all;
}

Device& case_device() {
  static Device device = Device::cpu;
  return device;
}

}  // namespace linnet::test
