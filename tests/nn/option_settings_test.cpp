/// Every option of every mechanism is among the settings that a model's file contains and loading compares.

#include <doctest/doctest.h>

#include <any>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"

using namespace linnet;
using linnet::test::AttentionModel;

namespace {

nn::AttentionConfig config_of(const nn::Mechanism& mechanism, const std::any& options) {
  return {.mechanism = mechanism.name, .width = 8, .heads = 2, .max_tokens = 32, .options = options};
}

/// Values that the option may have, some of them perhaps not beside the other options' values.
std::vector<std::string> values_of(const nn::AttentionOption& option) {
  std::vector<std::string> values = option.words;
  for (const char* number : {"0.1", "1", "2", "3", "4", "8", "16", "64"}) values.emplace_back(number);
  return values;
}

/// A model whose option has another value than the default; null if there can be none, or it is the default.
std::unique_ptr<AttentionModel> model_with(const nn::Mechanism& mechanism, const nn::AttentionOption& option,
                                           const std::string& value) {
  Generator rng(1);
  std::any options = mechanism.options;
  try {
    option.set(options, value);
    if (option.get(options) == option.get(mechanism.options)) return nullptr;
    return std::make_unique<AttentionModel>(rng, config_of(mechanism, options));
  } catch (const ValueError&) {
    return nullptr;
  }
}

}  // namespace

TEST_CASE("Module: no option of an attention may change between saving and loading, unless it changes no result") {
  // How the same numbers are computed, and how often a training step draws others.
  const std::set<std::string> may_change{"fastmax_form", "performer_redraw"};
  Generator rng(1);
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    const AttentionModel saved(rng, config_of(mechanism, mechanism.options));
    for (const nn::AttentionOption& option : mechanism.option_list) {
      CAPTURE(mechanism.name);
      CAPTURE(option.name);
      if (option.of_dropout || may_change.contains(option.name)) continue;
      int tried = 0;
      for (const std::string& value : values_of(option)) {
        const auto model = model_with(mechanism, option, value);
        if (model == nullptr) continue;
        ++tried;
        CHECK_THROWS_AS_MESSAGE(model->load_state(saved), Error, value);
      }
      CHECK(tried > 0);
    }
  }
}
