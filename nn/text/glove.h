#pragma once

#include <cstdint>
#include <filesystem>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/text/words.h>

namespace linnet::nn {

/// Vectors for the words of a vocabulary.
struct WordVectors {
  Tensor vectors;        ///< [vocabulary.size(), D], float32; the vector of padding is 0
  int64_t found = 0;     ///< words of the vocabulary that the file has
  int64_t repeated = 0;  ///< further lines for words that were already found; only the first line is used
};

/// Reads the vectors of a vocabulary's words from a text file in GloVe's format: each line has a word and its D
/// numbers, separated by blanks. The last D fields of a line are the numbers, so a word may contain blanks. D is that
/// of the first line. If the file begins with a line of two whole numbers, as word2vec writes, that line is skipped.
/// Words outside of the vocabulary are not kept. The vectors of words that the file lacks are drawn from the normal
/// distribution with the mean and the covariance of those that were found; 1e-6 is added to the covariance's
/// diagonal.
///
///     const auto words = nn::WordVocabulary::build(std::vector<std::string>{"to be or not to be"});
///     const nn::WordVectors glove = nn::read_glove("glove.6B.300d.txt", words, rng);
///
/// Cost: one pass over the file; found·D² for the covariance and D³ to draw, or neither if found < D. It takes one
/// draw from `rng`.
/// Throws: IoError, with the line, for a line without D numbers, for a D above 1,024, for a number that cannot be
/// read or is beyond ±1e18, and for a file without any word of the vocabulary.
/// Source: Pennington et al. 2014 for the files; Wu et al. 2021, section 4.1, for the words without a vector.
WordVectors read_glove(const std::filesystem::path& path, const WordVocabulary& vocabulary, Generator& rng,
                       Where where = {});

}  // namespace linnet::nn
