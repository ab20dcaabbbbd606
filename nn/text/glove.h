#pragma once

#include <cstdint>
#include <filesystem>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/text/words.h>

namespace linnet::nn {

/// Vectors for the words of a vocabulary.
struct WordVectors {
  Tensor vectors;        ///< [vocabulary.size(), D], float32; that of padding is 0
  int64_t found = 0;     ///< words of the vocabulary that the file has
  int64_t repeated = 0;  ///< further lines of such words, of which the first counts
};

/// Reads the vectors of a vocabulary's words from a text file as GloVe's: a line for each word, with the word and its
/// D numbers, separated by blanks. The last D of a line are the numbers, so that a word may have blanks in it. D is
/// that of the first line; a line of two whole numbers before it, as word2vec writes, is passed over. Other words are
/// not kept. Words without a vector are drawn from the normal distribution with the mean and the covariance of
/// those that were found, to whose diagonal 1e-6 is added.
///
///     const auto words = nn::WordVocabulary::build(std::vector<std::string>{"to be or not to be"});
///     const nn::WordVectors glove = nn::read_glove("glove.6B.300d.txt", words, rng);
///
/// Cost: one pass over the file; found·D² for the covariance and D³ to draw, or neither if found < D. Takes one draw.
/// Throws: IoError, with the line, for a line of another width, for more than 1,024 numbers, for a number that cannot
/// be read or is beyond ±1e18, and for a file without any word of the vocabulary.
/// Source: Pennington et al. 2014 for the files; Wu et al. 2021, section 4.1, for the words without a vector.
WordVectors read_glove(const std::filesystem::path& path, const WordVocabulary& vocabulary, Generator& rng,
                       Where where = {});

}  // namespace linnet::nn
