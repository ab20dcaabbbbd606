#include <linnet/nn/attention/random_key.h>

#include <vector>

#include <linnet/ops/array/creation.h>

namespace linnet::nn {

Tensor tensor_of(RandomKey key) {
  const std::vector<int64_t> words{static_cast<int64_t>(key.seed), static_cast<int64_t>(key.stream)};
  return tensor(words);
}

RandomKey random_key_of(const Tensor& words) {
  const std::vector<int64_t> values = words.to_vector<int64_t>();
  return {static_cast<uint64_t>(values[0]), static_cast<uint64_t>(values[1])};
}

}  // namespace linnet::nn
