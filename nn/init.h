#pragma once

#include <cstdint>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Initial values of parameters, with PyTorch's names and meanings, written in place: a Tensor is a handle.
///
/// Shapes: xavier and kaiming take weights [fan out, fan in, …].
/// Throws: xavier, kaiming and orthogonal_ throw ShapeError for a tensor of rank below 2.

namespace linnet::nn::init {

/// Every element 0, 1 or `value`.
void zeros_(Tensor tensor, Where where = {});
void ones_(Tensor tensor, Where where = {});
void constant_(Tensor tensor, Scalar value, Where where = {});
/// U(low, high)
void uniform_(Tensor tensor, Generator& rng, double low = 0, double high = 1, Where where = {});
/// N(mean, deviation²)
void normal_(Tensor tensor, Generator& rng, double mean = 0, double deviation = 1, Where where = {});

/// N(mean, deviation²) without its parts outside of [a, b].
///
/// Throws: ValueError unless a < b and deviation > 0.
void trunc_normal_(Tensor tensor, Generator& rng, double mean = 0, double deviation = 1, double a = -2, double b = 2,
                   Where where = {});
/// gain times a random matrix with orthonormal rows, or columns where there are fewer of them. Dims after the first
/// count as one.
///
/// Cost: n·m² operations in float64 for an n×m matrix, n ≥ m.
/// Source: Saxe et al. 2014.
void orthogonal_(Tensor tensor, Generator& rng, double gain = 1, Where where = {});

/// Which fan the variance depends on: `fan_in` keeps that of activations, `fan_out` that of gradients.
enum class FanMode : uint8_t { fan_in, fan_out };

/// U(−b, b), b = gain·√(6/(fan in + fan out)).
///
/// Source: Glorot & Bengio 2010, eq. 16.
void xavier_uniform_(Tensor tensor, Generator& rng, double gain = 1, Where where = {});
/// N(0, σ²), σ = gain·√(2/(fan in + fan out)).
void xavier_normal_(Tensor tensor, Generator& rng, double gain = 1, Where where = {});
/// U(−b, b), b = √(6/((1 + a²)·fan)), for a weight followed by a leaky ReLU of slope `a`.
///
/// Source: He et al. 2015, eqs. 14, 15.
void kaiming_uniform_(Tensor tensor, Generator& rng, double a = 0, FanMode mode = FanMode::fan_in, Where where = {});
/// N(0, σ²), σ = √(2/((1 + a²)·fan)).
void kaiming_normal_(Tensor tensor, Generator& rng, double a = 0, FanMode mode = FanMode::fan_in, Where where = {});

/// Initialises a layer's weight and its bias, which may be undefined, as PyTorch does for linear layers and
/// convolutions: U(−1/√fan in, 1/√fan in).
void fan_in_uniform_(Tensor weight, Tensor bias, Generator& rng, Where where = {});

}  // namespace linnet::nn::init
