#pragma once

#include <cstdint>
#include <string>

#include "support/lra/sequences.h"
#include "support/settings/settings.h"

/// Texts as sequences of bytes, cut after `context` bytes.

namespace linnet::examples {

/// The task `text`: the reviews of IMDb (Maas et al. 2011), `aclImdb/{train,test}/{neg,pos}/*.txt`. Those of pos have
/// the label 1. Dev is the test part, as in the Long Range Arena. With --stand-in, if they are absent, documents of
/// words from two lists. The label is the list that most words come from.
///
/// Throws: IoError if the files are absent without --stand-in, and for a folder or review without text.
SequenceData load_reviews(const Settings& settings);

/// The task `retrieval`: pairs of papers of the ACL Anthology Network (Radev et al. 2013), `new_aan_pairs.train.tsv`,
/// `eval` and `test` in `tsv_data`. The label is 1 if one cites the other. With --stand-in, if they are absent, pairs
/// of documents that share a topic or do not.
///
/// Throws: IoError if the files are absent without --stand-in, and for a malformed line, with its number.
SequenceData load_retrieval(const Settings& settings);

/// Word `i` of an invented language, for generated texts: one of 2,304 pairs of syllables.
std::string made_up_word(int64_t i);

}  // namespace linnet::examples
