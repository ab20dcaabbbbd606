#include <linnet/core/generator.h>

namespace linnet {

Generator Generator::split() {
  const PhiloxBlock block = philox(next(), 0);
  return Generator(uint64_t{block.word[0]} << 32 | block.word[1]);
}

}  // namespace linnet
