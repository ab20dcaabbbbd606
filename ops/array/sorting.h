#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/reduction.h>

namespace linnet {

/// The elements in order along `dim`, equal ones in the order they had; NaN counts as the largest. Any dtype. Values
/// have gradients, indices none. Throws ShapeError for a dim that does not exist. O(n log n) for each row of n.
ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false, Where where = {});

/// The k largest (or smallest) elements along `dim`, best first. Otherwise as `sort`, of k elements: the rest is not
/// put in order. Throws ValueError unless 0 ≤ k ≤ the size of `dim`.
ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true, Where where = {});

/// `samples` classes drawn for each row of `probabilities` [..., C]: int64 [..., samples]. Rows need not sum
/// to 1. One draw from the generator; with replacement it takes samples · C random numbers a row, else C. No
/// gradient. Throws ValueError for a row with a negative or non-finite entry, with no positive one, or with fewer
/// positive ones than samples to be drawn without replacement.
Tensor multinomial(const Tensor& probabilities, int64_t samples, Generator& generator, bool replacement = false,
                   Where where = {});

}  // namespace linnet
