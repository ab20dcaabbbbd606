#pragma once

#include "support/lra/sequences.h"
#include "support/settings/settings.h"

/// Images as sequences of grey pixels, row by row. A token is the mean of `lra.downsample`² pixels, rounded.

namespace linnet::examples {

/// The task `image`: CIFAR-10 (Krizhevsky 2009) in grey, its binary files
/// `cifar-10-batches-bin/data_batch_{1..5}.bin` and `test_batch.bin`. The first 90 % of the training part train, the
/// rest is dev. With --stand-in, if they are absent, Fashion-MNIST from `fashion-mnist` in the data folders, or
/// from Debian's package dataset-fashion-mnist.
///
/// Throws: IoError if the files are absent without --stand-in, and for damaged ones, with the byte; UsageError for
/// a `downsample` that does not divide the images.
SequenceData load_cifar(const Settings& settings);

/// The task `digits`: MNIST, its pixels one by one, 54,000 to train and 6,000 for dev. With --stand-in, if it is
/// absent, drawn digits.
///
/// Throws: as load_cifar.
SequenceData load_digits(const Settings& settings);

/// Throws: UsageError for a factor of --downsample that does not divide both sides.
void check_downsample(int64_t height, int64_t width, int64_t factor);

/// The images [count, height·width] with each square of `factor`² pixels replaced by its mean, rounded half up.
///
/// Throws: as check_downsample.
std::vector<uint8_t> downsampled(std::span<const uint8_t> pixels, int64_t height, int64_t width, int64_t factor);

}  // namespace linnet::examples
