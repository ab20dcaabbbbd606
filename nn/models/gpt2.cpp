#include <linnet/nn/models/gpt2.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/files/json_text.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/files/utf8.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::nn {

namespace {

constexpr std::string_view kPrefix = "transformer.";

/// Parts of names, ours and the released.
constexpr std::array<std::array<std::string_view, 2>, 11> kParts{{{"tok.", "wte."},
                                                                  {"pos.", "wpe."},
                                                                  {"blocks.", "h."},
                                                                  {"norm.", "ln_f."},
                                                                  {"norm1.", "ln_1."},
                                                                  {"norm2.", "ln_2."},
                                                                  {"attention.", "attn."},
                                                                  {"qkv.", "c_attn."},
                                                                  {"out.", "c_proj."},
                                                                  {"fc1.", "c_fc."},
                                                                  {"fc2.", "c_proj."}}};

std::string released_name(std::string name) {
  for (const auto& [ours, released] : kParts) {
    if (const size_t at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), released);
  }
  return name;
}

/// A config.json.
class ConfigFile {
 public:
  explicit ConfigFile(const std::filesystem::path& path) : path_(path) {
    const auto fail = [&](const std::string& why) {
      throw IoError(
          fmt::format("'{}' is missing or no JSON file: {}; it lies beside model.safetensors", path.string(), why));
    };
    const std::optional<std::string> text = detail::read_file(path, detail::JsonText::kMaxSettings + 1);
    if (!text) fail("it cannot be read");
    if (std::ssize(*text) > detail::JsonText::kMaxSettings) {
      fail(fmt::format("it has more than {} bytes", detail::JsonText::kMaxSettings));
    }
    try {
      detail::JsonText json(*text);
      json.object([&](const std::string& name) { values_[name] = json.value(); });
      json.end();
    } catch (const detail::JsonError& error) {
      fail(error.what());
    }
  }

  bool has(const std::string& name) const { return value(name) != "null"; }

  /// Throws ValueError unless the value, where there is one, is `wanted`.
  void require(const std::string& name, const std::string& wanted) const {
    const std::string is = value(name, wanted);
    if (is == wanted || (number(wanted) && number(is) == number(wanted))) return;
    throw ValueError(fmt::format("'{}': \"{}\" is {}; models of GPT-2's architecture have {} here", path_.string(),
                                 name, detail::shortened(is), wanted));
  }

  int64_t size(const std::string& name) const {
    const std::string text = value(name);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
    refuse(name, "a whole number");
  }

  double rate(const std::string& name) const {
    if (const std::optional<double> rate = number(value(name, "0.1"))) return *rate;
    refuse(name, "a number");
  }

 private:
  /// The JSON text of it.
  std::string value(const std::string& name, const std::string& otherwise = "null") const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }

  static std::optional<double> number(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
  }

  [[noreturn]] void refuse(const std::string& name, const char* needed) const {
    throw IoError(fmt::format("'{}' does not give the sizes of a model: \"{}\" is {}, where {} is needed",
                              path_.string(), name, detail::shortened(value(name, "missing")), needed));
  }

  std::filesystem::path path_;
  std::map<std::string, std::string> values_;
};

void check_architecture(const DecoderConfig& config) {
  const BlockConfig& block = config.block;
  if (block.attention.mechanism == "softmax" && block.attention.bias && block.attention.short_conv == 0 &&
      block.pre_norm && block.gelu == Gelu::tanh && config.positions == Positions::learned && !config.share_layers) {
    return;
  }
  throw ValueError(
      "the model is not of GPT-2's architecture: softmax attention, biases, norms before the branches, Gelu::tanh, "
      "learned positions; build it with what read_gpt2_config returns");
}

}  // namespace

DecoderConfig read_gpt2_config(const std::filesystem::path& path, Where where) {
  const Call call("read_gpt2_config", where);
  const ConfigFile file(path);
  file.require("model_type", R"("gpt2")");
  file.require("activation_function", R"("gelu_new")");
  file.require("layer_norm_epsilon", "1e-05");
  file.require("tie_word_embeddings", "true");
  file.require("scale_attn_weights", "true");
  file.require("scale_attn_by_inverse_layer_idx", "false");
  file.require("add_cross_attention", "false");
  return {.vocabulary = file.size("vocab_size"),
          .context = file.size("n_positions"),
          .layers = file.size("n_layer"),
          .block = {.attention = {.width = file.size("n_embd"),
                                  .heads = file.size("n_head"),
                                  .dropout = file.rate("attn_pdrop")},
                    .hidden = file.has("n_inner") ? file.size("n_inner") : 0,
                    .dropout = file.rate("resid_pdrop"),
                    .gelu = Gelu::tanh}};
}

void load_gpt2(DecoderLM& model, const std::filesystem::path& path, Where where) {
  const Call call("load_gpt2", where);
  check_architecture(model.config());
  TensorMap given = read_safetensors(path, where).tensors;
  const std::string prefix(given.contains("wte.weight") ? "" : kPrefix);

  if (const auto head = given.find("lm_head.weight"); head != given.end()) {
    const auto embedding = given.find(prefix + "wte.weight");
    if (embedding == given.end() || embedding->second.shape() != head->second.shape() ||
        any(ne(embedding->second, head->second)).item<bool>()) {
      throw ValueError(fmt::format("{}: lm_head.weight differs from {}wte.weight, which is the head of this model",
                                   path.string(), prefix));
    }
    given.erase(head);
  }
  std::erase_if(given, [](const auto& entry) {
    return entry.first.ends_with(".attn.bias") || entry.first.ends_with(".attn.masked_bias");
  });
  for (auto& [name, tensor] : given) tensor = is_floating(tensor.dtype()) ? tensor.to(model.dtype()) : tensor;

  TensorMap wanted;  // shares its elements with the model
  for (const auto& [name, tensor] : model.state()) {
    const bool is_transposed = name.starts_with("blocks.") && tensor.rank() == 2;
    wanted[prefix + released_name(name)] = is_transposed ? tensor.transpose(0, 1) : tensor;
  }
  copy_state(wanted, given, path.string());
}

}  // namespace linnet::nn
