#pragma once

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// Throws IoError if the file of --glove is absent. It is cheap: call it before data are read. A resumed run does not
/// need the file.
void check_word_vectors(const Settings& settings);

/// The vectors of --glove. A line on stderr says how many words have one. Undefined without --glove. A resumed run,
/// for which its checkpoint has them, gets others of the same width, or none if that is the model's.
///
/// Throws: as nn::read_glove; IoError for a resumed run's checkpoint that cannot be read.
Tensor word_vectors(const Settings& settings, const nn::WordVocabulary& vocabulary);

/// Copies `vectors` into the embeddings, as their initial values. Does nothing if `vectors` is undefined.
///
/// Shapes: embeddings and vectors [vocabulary, width].
void begin_with(const Tensor& vectors, Tensor embeddings);

}  // namespace linnet::examples
