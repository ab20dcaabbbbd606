#include <doctest/doctest.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/random/philox.h>

namespace linnet::test {
namespace {

void check_block(RandomKey key, uint64_t block, const PhiloxBlock& expected) {
  const PhiloxBlock actual = philox(key, block);
  for (int i = 0; i < 4; ++i) CHECK(actual.word[i] == expected.word[i]);
}

}  // namespace

TEST_CASE("philox: the known answers of Random123 (kat_vectors, philox4x32 10)") {
  check_block({0, 0}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  check_block({~uint64_t{0}, ~uint64_t{0}}, ~uint64_t{0}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  check_block({0x299f31d0a4093822, 0x0370734413198a2e}, 0x85a308d3243f6a88,
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("philox: words count through blocks") {
  const RandomKey key{7, 3};
  for (uint64_t i = 0; i < 12; ++i) CHECK(random_word(key, i) == philox(key, i / 4).word[i % 4]);
}

TEST_CASE("philox: uniforms are in [0, 1), and the keep threshold rounds down") {
  CHECK(to_uniform(0) == 0);
  CHECK(to_uniform(0xffffffff) == 1 - 0x1p-24f);
  CHECK(keep_threshold(1) == uint64_t{1} << 32);
  CHECK(keep_threshold(0) == 0);
  CHECK(keep_threshold(0.5) == uint64_t{1} << 31);
}

TEST_CASE("generator: each draw has a stream of its own; state goes back and forth") {
  Generator generator(42);
  const RandomKey first = generator.next();
  CHECK(first.seed == 42);
  CHECK(first.stream == 0);
  CHECK(generator.next().stream == 1);

  Generator copy = generator;
  CHECK(copy.next().stream == generator.next().stream);

  const Generator::State state = generator.state();
  CHECK(state.draws == 3);
  Generator resumed(0);
  resumed.set_state(state);
  CHECK(resumed.next().stream == 3);
  CHECK(resumed.state().seed == 42);
}

TEST_CASE("generator: split gives independent ones, the same for the same state") {
  Generator a(42), b(42);
  const uint64_t first = a.split().state().seed;
  CHECK(first == b.split().state().seed);
  CHECK(first != a.split().state().seed);
  CHECK(first != 42);
  CHECK(a.state().draws == 2);
}

}  // namespace linnet::test
