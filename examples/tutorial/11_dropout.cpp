// # 11. Dropout without stored masks
//
// Dropout sets each number to 0 with probability $r$ and divides the others by $1 - r$, so that the mean stays the
// same (Srivastava et al. 2014). So a model cannot rely on any single number. The gradient of a dropped number is 0
// too, so backward needs the same mask as forward. Most libraries store it. linnet draws it a second time.

#include <fmt/core.h>

#include <bit>

#include <linnet/linnet.h>

#include "support/plot/heat_map.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## Random numbers by their index
//
// Most random generators are a chain: each number is computed from the state that the previous one left. To get
// number one million again, one has to start over. A *counter-based* generator is a function instead: it mixes the
// bits of a counter until they look random. Number $i$ of a stream can be computed at any time, by any thread, on any
// device, and is always the same.
//
// Philox (Salmon et al. 2011) takes a key of two words (the seed) and a counter of four (the block and the stream).
// In each of ten rounds it multiplies two counter words by constants. A product of 32-bit words has 64 bits; its
// upper half depends on all bits of both. The halves change places, and XOR mixes in the other words and the key.

struct Words {
  uint32_t w[4];
};

Words mix(Words c, uint64_t seed, int rounds) {
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c.w[0], p1 = uint64_t{0xCD9E8D57} * c.w[2];
    c = {{uint32_t(p1 >> 32) ^ c.w[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c.w[3] ^ k1, uint32_t(p0)}};
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return c;
}

uint32_t random_word_by_hand(RandomKey key, uint64_t i) {
  const uint64_t block = i / 4;  // a block has four words
  return mix({{uint32_t(block), uint32_t(block >> 32), uint32_t(key.stream), uint32_t(key.stream >> 32)}}, key.seed,
             10)
      .w[i % 4];
}

// How many of the 128 bits change if a single bit of the counter is flipped? If the result looks random, about half.
// The picture shows the number for each bit, after each round. Ten rounds leave a margin.

int changed_bits(int bit, int rounds) {
  Words flipped{{1, 2, 3, 4}};
  flipped.w[bit / 32] ^= 1u << (bit % 32);
  const Words a = mix({{1, 2, 3, 4}}, 5, rounds), b = mix(flipped, 5, rounds);
  int count = 0;
  for (int i = 0; i < 4; ++i) count += std::popcount(a.w[i] ^ b.w[i]);
  return count;
}

// ## Dropout
//
// A word is equally likely to be any number below $2^{32}$, so element $i$ is kept if word $i$ is below
// $(1 - r)\,2^{32}$. Each op that draws takes one *stream* from the `Generator`, a number that counts up. The tape's
// node stores the key (seed and stream), 16 bytes, instead of a mask.

Tensor dropout_by_hand(const Tensor& x, double rate, RandomKey key) {
  Tensor y = x.clone();
  const std::span<double> numbers = y.mutable_data<double>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool kept = random_word_by_hand(key, i) < keep_threshold(1 - rate);
    numbers[i] = kept ? numbers[i] * (1 / (1 - rate)) : 0;
  }
  return y;
}

bool same_bits(const Tensor& a, const Tensor& b) { return all(eq(a, b)).item<bool>(); }

int main() {
  Generator generator(1337), copy = generator;  // a copy draws the same numbers
  const RandomKey key = copy.next();
  for (uint64_t i = 0; i < 1000; ++i) {
    check(random_word_by_hand(key, i) == random_word(key, i), "the words by hand are linnet's");
  }
  Generator data(1);
  const Tensor x = randn({512, 512}, data, DType::float64).set_requires_grad();
  const int64_t before = memory_stats().live;
  const Tensor y = dropout(x, 0.2, generator);
  const int64_t more = memory_stats().live - before - 8 * y.numel();
  check(more < y.numel(), "backward keeps less than a byte a number");
  check(same_bits(y, dropout_by_hand(x.detach(), 0.2, key)), "dropout by hand is linnet's");
  backward(y.sum());
  check(same_bits(eq(x.grad(), 0), eq(y, 0)), "backward drops the same numbers");
  fmt::print("dropped: {:.2f} %\n", 100 * eq(y, 0).to(DType::float64).mean().item());
  set_num_threads(1);
  Generator again(1337);
  check(same_bits(dropout(x, 0.2, again), y), "one thread draws the same mask");
  fmt::print("by hand, in backward and with one thread: the same mask to the bit\n");

  examples::HeatMap map{.rows = 10, .cols = 128, .values = {}, .x_ticks = {}, .y_ticks = {}};
  for (int rounds = 1; rounds <= 10; ++rounds) {
    for (int bit = 0; bit < 128; ++bit) map.values.push_back(changed_bits(bit, rounds));
    map.y_ticks.push_back(std::to_string(rounds));
  }
  examples::write_png({.title = "Bits that change, of 128",
                       .x_label = "bit of the counter that is flipped",
                       .y_label = "rounds",
                       .value_label = "bits",
                       .maps = {map}},
                      "11_rounds.png");
}
// <!-- output -->
// ![Changed bits for each bit of the counter, after each round](11_rounds.png)
//
// ## Exercises
//
// 1. Apply dropout with rate $r$ to ones. What are the mean and the variance? Derive both and measure them.
// 2. Compute the gradient of `dropout(x).square().sum()` from $x$ and the key alone.
// 3. Two layers draw from copies of one generator in the same state. What is wrong with their masks?
