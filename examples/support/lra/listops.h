#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <linnet/linnet.h>

#include "support/lra/cache.h"
#include "support/lra/sequences.h"
#include "support/settings/settings.h"

/// ListOps (Nangia & Bowman 2018): nested operations on digits, as [MAX 2 [MED 7 1 4 ] 3 ], and their values.
///
/// Source: lra_benchmarks/data/listops.py of Tay et al. 2021.

namespace linnet::examples {

/// The tokens of an expression are ids: 1 … 10 for the digits 0 … 9, 11 … 15 for [MIN, [MAX, [MED, [SM and ]. The
/// brackets ( and ) of the published files are no tokens.
inline constexpr int64_t kListOpsIds = 16;

/// An expression, and its value from 0 to 9.
struct ListOps {
  std::vector<uint8_t> tokens;
  uint8_t value;
};

/// A random expression that depends only on the key; none if it has more than `most` tokens. A node is an operator
/// with probability ¼, down to a depth of 10, and then has 2 to 10 arguments; otherwise it is a digit.
std::optional<ListOps> random_listops(RandomKey key, int64_t most);

/// The value of an expression; none if the tokens are not exactly one expression. The median of an even number of
/// arguments is the mean of the middle two, rounded down, and [SM is the sum modulo 10.
std::optional<uint8_t> value_of_listops(std::span<const uint8_t> tokens);

/// The first `count` different expressions of `least` to `most` tokens, where expression i is random_listops of
/// (seed, i). All threads make them, and the number of threads changes no byte.
///
/// Throws: UsageError if there are too few such expressions.
Examples generate_listops(uint64_t seed, int64_t least, int64_t most, int64_t count, const ReportMade& report);

/// The published files `listops/basic_{train,val,test}.tsv` in the data folders, for expressions of the published
/// lengths. If they are absent, and for other lengths, 96,000, 2,000 and 2,000 different expressions of
/// `lra.min_tokens` to `context` tokens, which are generated once.
///
/// Throws: UsageError for lengths that are not possible; IoError, with its line, for a malformed file.
SequenceData load_listops(const Settings& settings);

}  // namespace linnet::examples
