#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/sequence_classifier.h>

#include "support/settings/program.h"

/// The words that a setting takes, with their values. Its flag, config.json and the model use the same table.

namespace linnet::examples {

template <class Value, size_t N>
using Choices = std::array<std::pair<std::string_view, Value>, N>;

constexpr Choices<nn::Positions, 4> kPositions{{{"learned", nn::Positions::learned},
                                                {"sinusoidal", nn::Positions::sinusoidal},
                                                {"rotary", nn::Positions::rotary},
                                                {"none", nn::Positions::none}}};
constexpr Choices<nn::Pooling, 4> kPools{{{"padded", nn::Pooling::padded_mean},
                                          {"kept", nn::Pooling::mean},
                                          {"additive", nn::Pooling::attention},
                                          {"first", nn::Pooling::first}}};
constexpr Choices<TextLevels, 2> kLevels{{{"word", TextLevels::word}, {"sentence", TextLevels::sentence}}};
constexpr Choices<UserEncoder, 3> kUserEncoders{
    {{"layers", UserEncoder::layers}, {"nrms", UserEncoder::nrms}, {"mean", UserEncoder::mean}}};
constexpr Choices<Device, 2> kDevices{{{"cpu", Device::cpu}, {"cuda", Device::cuda}}};

/// The words of a table.
template <class Value, size_t N>
std::vector<std::string> words(const Choices<Value, N>& choices) {
  std::vector<std::string> all;
  for (const auto& [word, value] : choices) all.emplace_back(word);
  return all;
}

/// The value of `word`. Throws UsageError, with the flag and its words, for any other word.
template <class Value, size_t N>
Value choose(const Choices<Value, N>& choices, std::string_view flag, std::string_view word) {
  for (const auto& [known, value] : choices) {
    if (known == word) return value;
  }
  throw UsageError(fmt::format("--{} {}: must be one of {}", flag, word, fmt::join(words(choices), ", ")));
}

}  // namespace linnet::examples
