/// Batches of sequences of bytes.

#include "support/lra/sequences.h"

#include <doctest/doctest.h>

using namespace linnet;
using namespace linnet::examples;

namespace {

using Numbers = std::vector<int64_t>;
using Bytes = std::vector<uint8_t>;

ByteSequences sequences_of(const std::vector<Bytes>& all) {
  ByteSequences sequences;
  for (const Bytes& one : all) sequences.append(one);
  return sequences;
}

nn::Batch batch_of(const LabelledSequences& data, const Numbers& indices) { return data.collate(indices, {}); }

}  // namespace

TEST_CASE("sequences: ids are bytes and one, with padding of 0 and a mask") {
  const LabelledSequences data(sequences_of({{0, 255}, {7}, {1, 0, 3}, {}}), {4, 5, 6, 7});
  CHECK(data.size() == 4);
  CHECK(data.lengths() == Numbers{2, 1, 3, 0});
  const nn::Batch batch = batch_of(data, {1, 0});
  CHECK(batch.inputs.shape() == Shape{2, 2});
  CHECK(batch.inputs.dtype() == DType::int64);
  CHECK(batch.inputs.to_vector<int64_t>() == Numbers{8, 0, 1, 256});
  CHECK(batch.targets.dtype() == DType::int64);
  CHECK(batch.targets.to_vector<int64_t>() == Numbers{5, 4});
  REQUIRE(batch.others.size() == 1);
  CHECK(batch.others[0].dtype() == DType::boolean);
  CHECK(batch.others[0].to_vector<int64_t>() == Numbers{1, 0, 1, 1});
  CHECK(batch_of(data, {2, 2, 3}).inputs.to_vector<int64_t>() == Numbers{2, 1, 4, 2, 1, 4, 0, 0, 0});
  CHECK(batch_of(data, {3}).inputs.shape() == Shape{1, 0});
}

TEST_CASE("sequences: bytes of 0 as padding wherever they are") {
  const LabelledSequences data(sequences_of({{0, 255, 0, 3}, {15}}), {0, 1}, {}, Ids::zero_is_padding);
  const nn::Batch batch = batch_of(data, {0, 1});
  CHECK(batch.inputs.to_vector<int64_t>() == Numbers{0, 255, 0, 3, 15, 0, 0, 0});
  CHECK(batch.others[0].to_vector<int64_t>() == Numbers{0, 1, 0, 1, 1, 0, 0, 0});
  CHECK(data.lengths() == Numbers{4, 1});
}

TEST_CASE("sequences: a batch of pairs has both sequences, each with padding of its own") {
  const LabelledSequences data(sequences_of({{1}, {2, 3}}), {1, 0}, sequences_of({{4, 5, 6}, {7}}));
  CHECK(data.lengths() == Numbers{3, 2});
  const nn::Batch batch = batch_of(data, {0, 1});
  REQUIRE(batch.others.size() == 3);
  CHECK(batch.inputs.to_vector<int64_t>() == Numbers{2, 0, 3, 4});
  CHECK(batch.others[0].to_vector<int64_t>() == Numbers{1, 0, 1, 1});
  CHECK(batch.others[1].to_vector<int64_t>() == Numbers{5, 6, 7, 8, 0, 0});
  CHECK(batch.others[2].to_vector<int64_t>() == Numbers{1, 1, 1, 1, 0, 0});
}

TEST_CASE("sequences: counts that differ, and examples that do not exist") {
  CHECK_THROWS_WITH_AS(LabelledSequences(sequences_of({{1}}), {1, 2}), "1 sequences and 0 second ones for 2 labels",
                       ValueError);
  CHECK_THROWS_AS(LabelledSequences(sequences_of({{1}, {2}}), {1, 2}, sequences_of({{1}})), ValueError);
  const LabelledSequences data(sequences_of({{1}, {2}}), {1, 2});
  CHECK_THROWS_WITH_AS(batch_of(data, {0, 2}), "there is no example 2 of 2; they are numbered from 0", IndexError);
  CHECK_THROWS_AS(batch_of(data, {-1}), IndexError);
}
