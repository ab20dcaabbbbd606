#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <linnet/nn/models/encoder_decoder.h>

namespace linnet::nn {

/// Options of beam search. The names are those of Hugging Face's `generate`; the length penalty is GNMT's. Lengths
/// count the end token.
struct BeamSearchOptions {
  int64_t num_beams = 5;                      ///< hypotheses that are extended at a time, b
  double length_penalty = 0.6;                ///< α: a hypothesis of n tokens has the score Σ log p / ((5 + n)/6)^α
  int64_t min_length = 0;                     ///< the least length of a hypothesis
  int64_t max_length = 20;                    ///< a hypothesis of this length is cut off if it has no end token
  int64_t no_repeat_ngram_size = 3;           ///< no n-gram of this size occurs twice; 0 allows all repeats
  int64_t bos_token_id = 0;                   ///< the first token of each target; it is never generated
  int64_t eos_token_id = 1;                   ///< the end token
  std::vector<int64_t> suppress_tokens = {};  ///< further tokens that are never generated, such as padding
};

/// The best target that beam search has found for a source.
struct BeamHypothesis {
  std::vector<int64_t> ids;  ///< without the first token and the end token; max_length of them if it was cut off
  double score = 0;          ///< by which hypotheses are ranked
};

/// The functions of a model that beam search calls. The model keeps a state of R targets, a group of R/S for each of
/// S sources. It starts with one target for each source.
struct BeamScorer {
  /// Takes the next token of each target, ids [R], and returns the log-probabilities [R, V] of the token after it.
  std::function<Tensor(const Tensor& ids)> step;
  /// Reorders, repeats or drops targets, and `sources` with them where it is defined; see
  /// EncoderDecoderState::select.
  std::function<void(const Tensor& rows, const Tensor& sources)> select;
};

/// The best target for each of `sources` sources. Each step extends the open hypotheses of every source by every
/// token and takes the best 2b; ties go to the better hypothesis, then to the lower id. An end token among the first
/// b closes a hypothesis; the first b others stay open. A source is finished and leaves the batch when b hypotheses
/// are closed and no open one can reach their worst score, or at `max_length`. The hypothesis with the best score is
/// returned; of equal ones, the earlier.
///
/// Throws: ValueError for fewer than 1 source or beam or more than 2²⁰ beams, lengths out of order, a negative
/// penalty or n-gram size, an id outside the vocabulary, an end token that is the first token or is suppressed, and
/// for log-probabilities that are NaN; ShapeError for log-probabilities of another shape.
/// Source: Wu et al. 2016 (GNMT), eq. 14, without coverage; Paulus et al. 2018, section 2.5, for repeated trigrams.
std::vector<BeamHypothesis> beam_search(const BeamScorer& scorer, int64_t sources,
                                        const BeamSearchOptions& options = {}, Where where = {});

/// The best target for each source, by the model's step form. During the call the model is in evaluation mode.
///
///     nn::EncoderDecoder model(rng, {.vocabulary = 8000, .source_tokens = 512, .target_tokens = 128,
///                                    .block = {.attention = {.width = 256, .heads = 8}}});
///     model.load("model.safetensors");
///     const auto best = nn::beam_search(model, inputs, ne(inputs, 0), {.max_length = 100});
///     std::cout << vocabulary.decode(best[0].ids);
///
/// Shapes: source [S, N], `source_mask` [S, N].
/// Throws: as above, and as EncoderDecoder; ValueError for a max_length above the model's target_tokens.
std::vector<BeamHypothesis> beam_search(EncoderDecoder& model, const Tensor& source, const Tensor& source_mask = {},
                                        const BeamSearchOptions& options = {}, Where where = {});

}  // namespace linnet::nn
