#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Random tensors. Each call takes one draw from the generator; see core/random/generator.h for what a draw depends
/// on. None has a gradient but that of `dropout` to x. Another dtype than those that are named is a DTypeError. One
/// pass over the elements; randperm sorts n of them.

namespace linnet {

/// Uniform in [0, 1). Floating dtypes.
Tensor rand(const Shape& shape, Generator& generator, DType dtype = DType::float32, Device device = Device::cpu,
            Where where = {});

/// Normal with mean 0 and variance 1. Floating dtypes.
Tensor randn(const Shape& shape, Generator& generator, DType dtype = DType::float32, Device device = Device::cpu,
             Where where = {});

/// `rand` and `randn` with x's shape, dtype and device; no gradient flows to x.
Tensor rand_like(const Tensor& x, Generator& generator, Where where = {});
Tensor randn_like(const Tensor& x, Generator& generator, Where where = {});

/// Integers in [low, high), each as likely to within 2^-32. Throws ValueError unless 0 < high − low ≤ 2^32,
/// and where the dtype cannot hold them.
Tensor randint(int64_t low, int64_t high, const Shape& shape, Generator& generator, DType dtype = DType::int64,
               Device device = Device::cpu, Where where = {});

/// A permutation of 0 … n − 1, int64 [n]. Throws ValueError unless 0 ≤ n ≤ 2^32.
Tensor randperm(int64_t n, Generator& generator, Where where = {});

/// Zeroes each element with probability `rate` and scales the others by 1/(1 − rate) (Srivastava et al. 2014,
/// inverted). Floating x, any shape. Returns x when not training. Stores no mask: backward draws it again. Throws
/// ValueError unless 0 ≤ rate ≤ 1.
Tensor dropout(const Tensor& x, double rate, Generator& generator, bool training = true, Where where = {});

}  // namespace linnet
