#include <doctest/doctest.h>
#include <linnet/nn/data/sequences.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

const std::map<std::string, Comparison> kComparisons = {
    {"pad_sequence", function_comparison([](const Golden& golden, const TensorMap& in) {
       const auto [sequences, padding_mask] =
           nn::pad_sequence({in.at("input0"), in.at("input1"), in.at("input2")},
                            {.batch_first = golden.parameters.value("batch_first", false),
                             .padding_value = golden.parameters.value("padding_value", 0.0)});
       CHECK(padding_mask.to_vector<bool>() == golden.get("padding_mask").to_vector<bool>());
       return sequences;
     })},
};

}  // namespace

TEST_CASE("pad_sequence agrees with PyTorch, float64") { compare_goldens("sequences", DType::float64, kComparisons); }
TEST_CASE("pad_sequence agrees with PyTorch, float32") { compare_goldens("sequences", DType::float32, kComparisons); }
