#include "support/task.h"

#include <cmath>

#include <fmt/format.h>

#include "support/program.h"

namespace linnet::examples {
namespace {

std::variant<FastmaxScale, double> parse_scale(const std::string& text) {
  if (text == "paper") return FastmaxScale::paper;
  if (text == "sqrt") return FastmaxScale::sqrt;
  if (text == "unit") return FastmaxScale::unit;
  double number = 0;
  if (!CLI::detail::lexical_cast(text, number) || !(number > 0) || std::isinf(number)) {
    throw UsageError(fmt::format("--fastmax-scale {}: must be paper, sqrt, unit or a positive number", text));
  }
  return number;
}

Interaction parse_interaction(const std::string& name) {
  if (name == "add") return Interaction::add;
  return name == "concat" ? Interaction::concat : Interaction::product;
}

FastmaxForm parse_form(const std::string& name) {
  if (name == "quadratic") return FastmaxForm::quadratic;
  return name == "factorised" ? FastmaxForm::factorised : FastmaxForm::automatic;
}

FastmaxDropout parse_dropout_kind(const std::string& name) {
  if (name == "standard") return FastmaxDropout::standard;
  return name == "token" ? FastmaxDropout::token : FastmaxDropout::quadratic;
}

}  // namespace

std::unique_ptr<Task> make_task(const Settings& settings) {
  return settings.task == "mnist" ? make_image_task(settings) : make_text_task(settings);
}

nn::Positions positions_of(const Settings& s) {
  if (s.positions == "sinusoidal") return nn::Positions::sinusoidal;
  if (s.positions == "rotary") return nn::Positions::rotary;
  return s.positions == "none" ? nn::Positions::none : nn::Positions::learned;
}

nn::BlockConfig block_config(const Settings& s) {
  nn::BlockConfig config{.attention = {.mechanism = s.attention, .width = s.width, .heads = s.heads, .bias = s.bias},
                         .hidden = s.feed_forward * s.width,
                         .dropout = s.dropout};
  config.attention.dropout = s.attention_dropout;
  config.attention.short_conv = s.short_conv;
  if (s.attention == "fastformer") {
    config.attention.interaction = parse_interaction(s.fastformer_interaction);
    config.attention.share_query_value = shares(s, "query-value");
    config.attention.share_heads = shares(s, "heads");
    config.attention.columns = s.columns;
  }
  if (s.attention.starts_with("fastmax")) {
    config.attention.fastmax_scale =
        parse_scale(s.fastmax_scale.value_or(s.attention == "fastmax2" ? "sqrt" : "unit"));
    config.attention.fastmax_form = parse_form(s.fastmax_form.value_or("auto"));
    config.attention.dropout_kind = parse_dropout_kind(s.dropout_kind.value_or("quadratic"));
    config.attention.dropout_normaliser =
        s.dropout_normaliser == "shared" ? FastmaxNormaliser::shared : FastmaxNormaliser::clean;
  }
  return config;
}

}  // namespace linnet::examples
