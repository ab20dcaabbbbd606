#include <linnet/nn/attention/mechanism.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/nn/attention/bigbird.h>
#include <linnet/nn/attention/fastformer.h>
#include <linnet/nn/attention/fastmax.h>
#include <linnet/nn/attention/informer.h>
#include <linnet/nn/attention/linear.h>
#include <linnet/nn/attention/linformer.h>
#include <linnet/nn/attention/longformer.h>
#include <linnet/nn/attention/performer.h>
#include <linnet/nn/attention/poolingformer.h>
#include <linnet/nn/attention/reformer.h>
#include <linnet/nn/attention/softmax.h>

namespace linnet::nn {

namespace {

/// The list. A new mechanism is a file pair in nn/attention/ and a line here.
std::vector<Mechanism>& list() {
  static std::vector<Mechanism>& all = *new std::vector<Mechanism>{
      softmax_mechanism(), fastmax1_mechanism(),      fastmax2_mechanism(),  fastformer_mechanism(),
      linear_mechanism(),  performer_mechanism(),     linformer_mechanism(), longformer_mechanism(),
      bigbird_mechanism(), poolingformer_mechanism(), reformer_mechanism(),  informer_mechanism(),
  };
  return all;
}

const Mechanism* found(std::string_view name) {
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.name == name) return &mechanism;
  }
  return nullptr;
}

}  // namespace

const AttentionOption* Mechanism::option(std::string_view option_name) const {
  const auto found_option = std::ranges::find(option_list, option_name, &AttentionOption::name);
  return found_option == option_list.end() ? nullptr : &*found_option;
}

const std::vector<Mechanism>& mechanisms() { return list(); }

const Mechanism& find_mechanism(std::string_view name) {
  if (const Mechanism* const mechanism = found(name)) return *mechanism;
  throw ValueError(
      fmt::format("no attention is called '{}'; choose one of {}", name, fmt::join(attention_mechanisms(), ", ")));
}

const Mechanism& mechanism_of(const AttentionConfig& config) {
  static const Mechanism& undescribed = *new Mechanism;
  const Mechanism* const mechanism = config.make ? nullptr : found(config.mechanism);
  return mechanism != nullptr ? *mechanism : undescribed;
}

std::vector<std::string> causal_mechanisms() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.causal) names.push_back(mechanism.name);
  }
  return names;
}

std::vector<std::string> cross_mechanisms() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.cross) names.push_back(mechanism.name);
  }
  return names;
}

double quadratic_operations(const AttentionSize& size, const std::vector<std::string>&) {
  const auto heads = static_cast<double>(size.batch * size.heads), n = static_cast<double>(size.tokens);
  return heads * 14 * n * n * static_cast<double>(size.head_dim) * (size.causal ? 0.5 : 1);
}

double least_qkv_bytes(const AttentionSize& size) {
  return 11 * static_cast<double>(size.batch * size.heads * size.tokens * size.head_dim) *
         static_cast<double>(size_of(size.dtype));
}

std::string window_note(const AttentionConfig& config, int64_t window) {
  if (config.max_tokens == 0 || (config.causal ? window : window / 2) < config.max_tokens - 1) return "";
  return fmt::format("the window of {} covers all {} tokens, as in softmax attention", window, config.max_tokens);
}

void register_mechanism(Mechanism mechanism) {
  if (mechanism.name.empty() || !mechanism.make) {
    throw ValueError(fmt::format("a mechanism called '{}' needs a name and `make`", mechanism.name));
  }
  if (found(mechanism.name) != nullptr) {
    throw ValueError(fmt::format("there is a mechanism '{}' already; choose another name", mechanism.name));
  }
  list().push_back(std::move(mechanism));
}

}  // namespace linnet::nn

namespace linnet {

namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

void detail::refuse_word(const std::vector<std::string>& words, const char* or_else) {
  const std::string_view or_other = or_else;
  throw ValueError(
      fmt::format("must be {}{}{}", or_other.empty() ? "one of " : "", fmt::join(words, ", "), or_other));
}

int64_t detail::parse_integer(std::string_view text, int64_t least, int64_t most) {
  const std::optional<int64_t> number = parse<int64_t>(text);
  if (!number || *number < least || *number > most) {
    throw ValueError(fmt::format("must be from {} to {}", least, most));
  }
  return *number;
}

std::optional<double> detail::parse_positive(std::string_view text) {
  const std::optional<double> number = parse<double>(text);
  return number && *number > 0 && std::isfinite(*number) ? number : std::nullopt;
}

std::string detail::text_of(double number) { return fmt::to_string(number); }

std::vector<int64_t> detail::parse_integers(std::string_view text, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(parse_integer(text.substr(begin, end - begin), least, most));
    begin = end + 1;
  }
  return numbers;
}

std::string detail::joined(const std::vector<int64_t>& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); }

std::vector<std::string> detail::parse_words(std::string_view text, const std::vector<std::string>& words) {
  std::vector<std::string> named;
  if (text == "none") return named;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    named.emplace_back(text.substr(begin, end - begin));
    if (std::ranges::find(words, named.back()) == words.end()) refuse_word(words, " or none");
    begin = end + 1;
  }
  return named;
}

std::string detail::joined(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ","));
}

}  // namespace linnet
