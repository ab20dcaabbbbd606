#pragma once

#include <optional>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/fastmax/fastmax.h>

/// The option `dropout_kind` of mechanisms that drop whole queries and keys alone. A struct of their options has a
/// member `FastmaxDropout dropout_kind`.

namespace linnet::nn {

inline OptionWords<FastmaxDropout> token_dropout_words() {
  return {{"token", FastmaxDropout::token},
          {"standard", FastmaxDropout::standard},
          {"quadratic", FastmaxDropout::quadratic}};
}

/// The option. `help` says what is dropped.
template <class Config>
AttentionOption token_dropout_option(const std::string& help) {
  AttentionOption kind = word_option("dropout_kind", help, &Config::dropout_kind, token_dropout_words());
  kind.of_dropout = true;
  return kind;
}

/// A Mechanism::refusal: of dropout of single features.
template <class Config>
std::optional<OptionRefusal> refuse_feature_dropout(const AttentionConfig& config) {
  if (options_of<Config>(config).dropout_kind == FastmaxDropout::token) return std::nullopt;
  return OptionRefusal{"dropout_kind", "which drops whole queries and keys alone; use token"};
}

}  // namespace linnet::nn
