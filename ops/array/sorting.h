#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/reduction.h>

namespace linnet {

/// The elements sorted along `dim`, with their indices. The sort is stable, and NaN counts as the largest.
///
/// Dtypes: any; indices are int64.
/// Gradient: any number of times, of the values.
/// Cost: O(n log n) for each line of n.
/// Throws: ShapeError for a dim that does not exist.
ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false, Where where = {});

/// The indices of `sort`, which put x in order: gather(x, dim, argsort(x, dim)) is sorted.
///
/// Dtypes: any → int64.
/// Gradient: none.
/// Cost, Throws: as `sort`.
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false, Where where = {});

/// The k largest (or smallest) elements along `dim`, best first, with their indices. Otherwise as `sort`.
///
/// Cost: only the k elements are put in order.
/// Throws: ValueError unless 0 ≤ k ≤ the size of `dim`.
ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true, Where where = {});

/// The index at which each of `values` can be inserted into a sorted sequence so that it stays sorted: before equal
/// elements, or after them with `right`. A NaN goes to the end. The order of the sequence is not checked.
///
/// Shapes: sorted_sequence [n], values [...] → [...]; or [..., n], [..., m] → [..., m] with equal leading dims.
/// Dtypes: both of one dtype → int64.
/// Gradient: none.
/// Cost: log₂(n) steps of bisection, each a few passes over the values.
/// Throws: ShapeError for shapes that do not fit; DTypeError for dtypes that differ.
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right = false, Where where = {});

/// `samples` classes drawn for each row of `probabilities`, which need not sum to 1; never one of probability 0.
/// Takes one draw from the generator.
///
/// Shapes: probabilities [..., C] → [..., samples].
/// Dtypes: floating → int64.
/// Gradient: none.
/// Cost: O(C + samples · log C) for each row with replacement; C random numbers and a `topk` without.
/// Throws: ValueError for a row with a negative or non-finite entry, with no positive one, or with fewer than samples
/// drawn without replacement; ShapeError for no classes.
Tensor multinomial(const Tensor& probabilities, int64_t samples, Generator& generator, bool replacement = false,
                   Where where = {});

}  // namespace linnet
