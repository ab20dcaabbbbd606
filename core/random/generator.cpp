#include <linnet/core/random/generator.h>

#include <linnet/core/autograd/recomputation.h>
#include <linnet/core/autograd/recording.h>

namespace linnet {

RandomKey Generator::next() {
  Recording::check_generator(*this);
  return CheckpointedCall::draw(state_);
}

Generator Generator::split() {
  const PhiloxBlock block = philox(next(), 0);
  return Generator(uint64_t{block.word[0]} << 32 | block.word[1]);
}

}  // namespace linnet
