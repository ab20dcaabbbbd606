#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Random tensors. Each call takes one draw from the generator; core/random/generator.h says what a draw depends on.
///
/// Gradient: none, except of `dropout`.
/// Cost: one pass over the elements; randperm shuffles its numbers on the CPU.
/// Throws: DTypeError for dtypes other than those named.

namespace linnet {

/// Uniform numbers in [0, 1).
///
/// Dtypes: floating.
Tensor rand(const Shape& shape, Generator& generator, DType dtype = DType::float32, Device device = Device::cpu,
            Where where = {});

/// Normal numbers of mean 0 and variance 1.
///
/// Dtypes: floating.
Tensor randn(const Shape& shape, Generator& generator, DType dtype = DType::float32, Device device = Device::cpu,
             Where where = {});

/// `rand` and `randn` with x's shape, dtype and device.
Tensor rand_like(const Tensor& x, Generator& generator, Where where = {});
Tensor randn_like(const Tensor& x, Generator& generator, Where where = {});

/// Integers in [low, high), equally likely to within 2^-32.
///
/// Dtypes: int64 or int32.
/// Throws: ValueError unless 0 < high − low ≤ 2^32, and where the dtype cannot hold them.
Tensor randint(int64_t low, int64_t high, const Shape& shape, Generator& generator, DType dtype = DType::int64,
               Device device = Device::cpu, Where where = {});

/// A permutation of 0 … n − 1.
///
/// Shapes: [n].
/// Dtypes: int64.
/// Throws: ValueError unless 0 ≤ n ≤ 2^32.
Tensor randperm(int64_t n, Generator& generator, Where where = {});

/// Zeroes each element with probability `rate`, PyTorch's p, and scales the others by 1/(1 − rate). Returns x when
/// not training. No mask is stored: backward draws it again.
///
/// Dtypes: floating.
/// Gradient: any number of times.
/// Throws: ValueError unless 0 ≤ rate ≤ 1.
/// Source: Srivastava et al. 2014, as inverted dropout.
Tensor dropout(const Tensor& x, double rate, Generator& generator, bool training = true, Where where = {});

}  // namespace linnet
