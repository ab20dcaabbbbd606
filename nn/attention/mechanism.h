#pragma once

#include <algorithm>
#include <any>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <linnet/nn/attention/attention.h>

/// The description of an attention mechanism. With it, models, programs and tables need not know mechanisms by name.

namespace linnet::nn {

/// An option that a mechanism has in addition to those of AttentionConfig, as data. Programs make flags,
/// `config.json`, errors and tables from it. Its values are strings, as on a command line.
struct AttentionOption {
  /// The kinds of values.
  enum class Kind {
    word,            ///< one of `words`
    word_or_number,  ///< one of `words`, or a positive number
    integer,         ///< from `least` to `most`
    integers,        ///< one or more from `least` to `most`, separated by commas
    words,           ///< some of `words`, separated by commas, or "none"
  };

  std::string name;                     ///< "fastmax_scale"; the flag is --fastmax-scale
  std::string help;                     ///< one line with the default, in lower case, without a full stop
  Kind kind = Kind::word;               ///< of its values
  std::vector<std::string> words = {};  ///< for the kinds with words
  int64_t least = 0, most = 0;          ///< the bounds, for the kinds with integers
  bool of_dropout = false;              ///< the option does nothing without dropout
  /// The option's names in earlier versions, which an old `config.json` may have.
  std::vector<std::string> older_names = {};

  /// Reads the value from a mechanism's options.
  std::function<std::string(const std::any& options)> get = {};
  /// Writes the value into a mechanism's options.
  ///
  /// Throws: ValueError, which lists the possible values, for a string that is not one of them.
  std::function<void(std::any& options, std::string_view value)> set = {};
};

/// Why a mechanism refuses the value of one of its options in a config.
struct OptionRefusal {
  std::string option;  ///< its name, or that of a setting of all mechanisms, such as short_conv
  std::string why;     ///< "whose weights …; use …"
};

/// A mechanism without its linear maps, for timing.
struct AttentionCore {
  std::vector<Tensor> parameters;  ///< whose gradients backward also computes
  /// q, k and v [B, H, N, D] → [B, H, N, D]
  std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)> attend;
};

/// The sizes of an attention.
struct AttentionSize {
  int64_t batch = 1;             ///< B, the number of sequences
  int64_t heads = 1;             ///< H, the number of heads
  int64_t tokens = 1;            ///< N, the length of each sequence
  int64_t head_dim = 1;          ///< D, the width of a head
  bool causal = false;           ///< as AttentionConfig::causal
  DType dtype = DType::float32;  ///< of queries, keys and values
  std::any options = {};         ///< AttentionConfig::options
};

/// A mechanism in the list of `mechanisms()`. Each has its own file pair, nn/attention/NAME.h and .cpp.
struct Mechanism {
  std::string name;        ///< "fastmax2"
  std::string paper = {};  ///< authors, year and equations
  /// Makes the attention and checks its config. make_attention compares the type of `config.options` first.
  AttentionMaker make = {};

  /// The programs' default options, a struct such as FastmaxConfig; empty where there are none. They may differ from
  /// the struct's own defaults.
  std::any options = {};
  /// The options as data, one entry for each that programs show.
  std::vector<AttentionOption> option_list = {};
  /// Returns why the mechanism refuses a config's combination of options, or nothing if it accepts them.
  std::function<std::optional<OptionRefusal>(const AttentionConfig& config)> refusal = {};
  /// Returns a remark for readers of results about a config whose sequences have at most `max_tokens` tokens, such as
  /// that it equals softmax attention; empty if there is nothing to remark.
  std::function<std::string(const AttentionConfig& config)> note = {};

  bool rotary = false;  ///< takes rotary positions
  /// Has a causal form, which language models need. make_attention refuses AttentionConfig::causal without it.
  bool causal = true;
  std::string why_not_causal = {};  ///< why it has none: "whether it chooses a query depends on later ones"
  /// Has a step form, Attention::step, when causal. Without it Attention::start throws, and generate() evaluates the
  /// sequence form for every new token.
  bool step = true;
  /// Has cross-attention: Attention::cross and its step form.
  bool cross = false;

  /// Makes the parameter that the layers of `model` share with this `config`; undefined if they share none. See
  /// make_shared_parameter.
  std::function<Tensor(const Module& model, const AttentionConfig& config)> shared = {};

  /// For `bench`: the number of multiplications and additions of forward and backward without the linear maps, given
  /// the `kernels` that were called.
  std::function<double(const AttentionSize& size, const std::vector<std::string>& kernels)> operations = {};
  /// For `bench scaling`: the paper's time complexity of a head without the linear maps, such as "N·D²" for N tokens
  /// and a head of D numbers.
  std::string complexity = {};
  /// For `bench attention`: the least number of bytes that forward and backward, without the linear maps, read from
  /// memory and write to it.
  std::function<double(const AttentionSize& size)> least_bytes = {};
  /// For `bench attention`: the core, whose random parameters and dropout draw from `rng`.
  std::function<AttentionCore(const AttentionConfig& config, Generator& rng, Device device)> core = {};

  /// The initial standard deviation of the query and key weights in a language model, if they are part of one linear
  /// map `qkv`. A mechanism's file that changes this number or the next says why.
  double query_key_std = 0.02;
  double position_std = 1;  ///< the initial standard deviation of learned positions in an image classifier

  /// The entry of `option_list` with this name; null when there is none.
  const AttentionOption* option(std::string_view option_name) const;
};

/// A Mechanism::make for a class with the same constructor as Attention.
template <class Class>
AttentionMaker maker() {
  return [](Module& parent, std::string name, const AttentionConfig& config) {
    return std::make_unique<Class>(parent, std::move(name), config);
  };
}

/// A Mechanism::operations for attention over every pair of tokens: for each head 4·N²·D multiplications and
/// additions forward and 10·N²·D backward, half of that when causal.
double quadratic_operations(const AttentionSize& size, const std::vector<std::string>& kernels);

/// A Mechanism::least_bytes where queries, keys, values and results are [B, H, N, D] and parameters are small:
/// 11·B·H·N·D elements. Forward reads q, k and v and writes o, 4 tensors. Backward reads q, k, v and ∂o and writes
/// ∂q, ∂k and ∂v, 7 tensors.
double least_qkv_bytes(const AttentionSize& size);

/// A Mechanism::note for attention in a window of `window` tokens, half of them on each side or, if causal, all of
/// them before the token. It remarks that the window covers all of `max_tokens`, and is empty if it does not.
std::string window_note(const AttentionConfig& config, int64_t window);

/// All mechanisms, in the order of tables and pictures: linnet's first, then the registered ones.
const std::vector<Mechanism>& mechanisms();
/// The mechanism of this name.
///
/// Throws: ValueError, with the known names, for an unknown one.
const Mechanism& find_mechanism(std::string_view name);
/// The names of the mechanisms that have a causal form.
std::vector<std::string> causal_mechanisms();
/// The names of the mechanisms that have cross-attention.
std::vector<std::string> cross_mechanisms();
/// The mechanism of `config`; a Mechanism with the defaults if `config.make` makes the attention or no mechanism has
/// its name.
const Mechanism& mechanism_of(const AttentionConfig& config);
/// Adds a mechanism of your own. Models then take it by name, and programs have flags and table rows for it. Call
/// this before any other thread makes an attention.
///
/// Throws: ValueError for a name that is taken, or without `make`.
void register_mechanism(Mechanism mechanism);

// ---- Helpers to write option lists ----

/// The words of an option and the values that they mean.
template <class Value>
using OptionWords = std::vector<std::pair<std::string, Value>>;

}  // namespace linnet::nn

namespace linnet::detail {

/// The words of a table, for AttentionOption::words.
template <class Value>
std::vector<std::string> words_of(const nn::OptionWords<Value>& table) {
  std::vector<std::string> words;
  for (const auto& [word, value] : table) words.push_back(word);
  return words;
}
/// The word for `stored`, a Value or a std::optional<Value>; `otherwise` if the table has no word for it.
template <class Value, class Stored>
std::string word_of(const nn::OptionWords<Value>& table, const Stored& stored, const char* otherwise = "automatic") {
  for (const auto& [word, value] : table) {
    if (stored == value) return word;
  }
  return otherwise;
}
/// Throws: ValueError, always: "must be one of product, add, concat".
[[noreturn]] void refuse_word(const std::vector<std::string>& words, const char* or_else = "");
int64_t parse_integer(std::string_view text, int64_t least, int64_t most);
std::optional<double> parse_positive(std::string_view text);
std::string text_of(double number);
std::vector<std::string> parse_words(std::string_view text, const std::vector<std::string>& words);
std::string joined(const std::vector<std::string>& words);
std::vector<int64_t> parse_integers(std::string_view text, int64_t least, int64_t most);
std::string joined(const std::vector<int64_t>& numbers);

}  // namespace linnet::detail

namespace linnet::nn {

/// An option with one of several words, for an enum or an optional enum.
template <class Config, class Value, class Member>
AttentionOption word_option(const std::string& name, const std::string& help, Member Config::* member,
                            const OptionWords<Value>& table) {
  AttentionOption option{.name = name, .help = help, .words = detail::words_of(table)};
  option.get = [=](const std::any& options) {
    return detail::word_of(table, std::any_cast<const Config&>(options).*member);
  };
  option.set = [=, words = option.words](std::any& options, std::string_view text) {
    for (const auto& [word, value] : table) {
      if (word == text) return void(std::any_cast<Config&>(options).*member = value);
    }
    detail::refuse_word(words);
  };
  return option;
}

/// An option with one of several words or a positive number.
template <class Config, class Value>
AttentionOption word_or_number_option(const std::string& name, const std::string& help,
                                      std::variant<Value, double> Config::* member, const OptionWords<Value>& table) {
  AttentionOption option{
      .name = name, .help = help, .kind = AttentionOption::Kind::word_or_number, .words = detail::words_of(table)};
  option.get = [=](const std::any& options) {
    const std::variant<Value, double>& stored = std::any_cast<const Config&>(options).*member;
    if (const double* number = std::get_if<double>(&stored)) return detail::text_of(*number);
    return detail::word_of(table, std::get<Value>(stored));
  };
  option.set = [=, words = option.words](std::any& options, std::string_view text) {
    std::variant<Value, double>& stored = std::any_cast<Config&>(options).*member;
    for (const auto& [word, value] : table) {
      if (word == text) return void(stored = value);
    }
    const std::optional<double> number = detail::parse_positive(text);
    if (!number) detail::refuse_word(words, " or a positive number");
    stored = *number;
  };
  return option;
}

/// An option with an integer from `least` to `most`.
template <class Config>
AttentionOption integer_option(const std::string& name, const std::string& help, int64_t Config::* member,
                               int64_t least, int64_t most) {
  AttentionOption option{
      .name = name, .help = help, .kind = AttentionOption::Kind::integer, .least = least, .most = most};
  option.get = [=](const std::any& options) { return std::to_string(std::any_cast<const Config&>(options).*member); };
  option.set = [=](std::any& options, std::string_view text) {
    std::any_cast<Config&>(options).*member = detail::parse_integer(text, least, most);
  };
  return option;
}

/// An option with one or more integers from `least` to `most`.
template <class Config>
AttentionOption integers_option(const std::string& name, const std::string& help,
                                std::vector<int64_t> Config::* member, int64_t least, int64_t most) {
  AttentionOption option{
      .name = name, .help = help, .kind = AttentionOption::Kind::integers, .least = least, .most = most};
  option.get = [=](const std::any& options) { return detail::joined(std::any_cast<const Config&>(options).*member); };
  option.set = [=](std::any& options, std::string_view text) {
    std::any_cast<Config&>(options).*member = detail::parse_integers(text, least, most);
  };
  return option;
}

/// An option with some of several words, each for a bool.
template <class Config>
AttentionOption words_option(const std::string& name, const std::string& help,
                             const OptionWords<bool Config::*>& table) {
  AttentionOption option{
      .name = name, .help = help, .kind = AttentionOption::Kind::words, .words = detail::words_of(table)};
  option.get = [=](const std::any& options) {
    std::vector<std::string> set;
    for (const auto& [word, member] : table) {
      if (std::any_cast<const Config&>(options).*member) set.push_back(word);
    }
    return detail::joined(set);
  };
  option.set = [=, words = option.words](std::any& options, std::string_view text) {
    const std::vector<std::string> named = detail::parse_words(text, words);
    for (const auto& [word, member] : table) {
      std::any_cast<Config&>(options).*member = std::ranges::find(named, word) != named.end();
    }
  };
  return option;
}

}  // namespace linnet::nn
