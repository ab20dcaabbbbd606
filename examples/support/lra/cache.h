#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <linnet/linnet.h>

#include "support/lra/sequences.h"
#include "support/settings/settings.h"

/// Generated data sets. A set is made once, and kept as IDX files in a folder such as
/// `data/lra/listops-501-1999-seed-1`. A manifest beside them holds all that determines their bytes, and checksums.
/// The folder is in --data; without --data in the first of `data_folders()` that has it, or else the first that can
/// be written to, or else in data/ of the current folder.

namespace linnet::examples {

/// All that determines the bytes of a generated set.
struct GeneratedSet {
  std::string generator;                                 ///< "listops"
  int64_t version = 1;                                   ///< of the generator; raised when its bytes change
  uint64_t seed = 1;                                     ///< of the generator
  std::vector<std::pair<std::string, int64_t>> options;  ///< of the generator, by name
  std::array<int64_t, 3> counts = {};                    ///< the numbers of examples in train, dev and test
};

/// Its name in tables, pictures and config.json: "generated listops (min_tokens 501, max_tokens 1999, seed 1,
/// version 1)".
std::string name_of(const GeneratedSet& set);

/// Sequences of bytes with a label each.
struct Examples {
  nn::IdxArray sequences;  ///< [count, longest], with padding of 0 at the ends
  std::vector<uint8_t> labels;
};

/// A generator calls this when `done` of its examples are made. Throws Interrupted after Ctrl-C.
using ReportMade = std::function<void(int64_t done)>;
/// Makes all examples of a set: first those to train, then dev, then test.
using MakeExamples = std::function<Examples(const ReportMade& report)>;

/// The train, dev and test examples of a set. If the cache does not have them, `make` makes them. A line on stderr
/// then says so, with progress if it takes long.
///
/// Throws: IoError when the cache cannot be written, and for a folder in it that holds another set or is damaged,
/// with the file and what to do; Interrupted after Ctrl-C. A part of a set is never left behind.
std::array<Examples, 3> cached(const Settings& settings, const GeneratedSet& set, const MakeExamples& make);

/// Examples of one length that do not depend on each other, made by all threads. `make` writes the bytes of example
/// `i` and returns its label.
Examples make_each(int64_t count, int64_t length,
                   const std::function<uint8_t(int64_t i, std::span<uint8_t> bytes)>& make, const ReportMade& report);

/// How the rows of Examples end.
enum class Ends : uint8_t {
  same_length,  ///< every row has the full length
  zeros         ///< zeros at the end of a row are padding
};

/// The examples as a data set.
LabelledSequences to_sequences(const Examples& examples, Ends ends, Ids ids);

}  // namespace linnet::examples
