#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

namespace linnet::nn {

/// A random key as a tensor, for a buffer: what evaluation draws is then the same after a checkpoint.
///
/// Shapes: [2]: seed and stream.
/// Dtypes: int64.
Tensor tensor_of(RandomKey key);
RandomKey random_key_of(const Tensor& words);

}  // namespace linnet::nn
