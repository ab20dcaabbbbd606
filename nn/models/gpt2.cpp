#include <linnet/nn/models/gpt2.h>

#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/error.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/files/utf8.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::nn {

namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "transformer.";

/// Parts of names in linnet, and the corresponding parts in the released files.
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

std::string gpt2_name(std::string name) {
  for (const auto& [ours, released] : kParts) {
    if (const size_t at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), released);
  }
  return name;
}

json read_settings(const std::filesystem::path& path) {
  constexpr const char* kRemedy = "give the one that lies beside model.safetensors";
  const auto fail = [&](const std::string& why) {
    throw IoError(fmt::format("'{}' is not a JSON file: {}; {}", path.string(), why, kRemedy));
  };
  std::string text = detail::read_file(path, detail::kMaxJsonTree + 1, kRemedy);
  json settings;
  try {
    settings = detail::parse_json(std::move(text));
  } catch (const json::exception& error) {
    fail(detail::message_of(error));
  }
  if (!settings.is_object()) fail("it is not an object");
  return settings;
}

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
  const json settings = read_settings(path);
  const auto require = [&](const char* name, const json& wanted) {
    const json value = settings.value(name, wanted);
    if (value == wanted) return;
    throw ValueError(fmt::format("'{}': \"{}\" is {}; models of GPT-2's architecture have {} here", path.string(),
                                 name, detail::shortened(value.dump()), wanted.dump()));
  };
  const auto size = [&](const char* name) { return detail::value_of<int64_t>(settings, name); };
  const auto rate = [&](const char* name) {
    return settings.contains(name) ? detail::value_of<double>(settings, name) : 0.1;
  };
  require("model_type", "gpt2");
  require("activation_function", "gelu_new");
  require("layer_norm_epsilon", 1e-5);
  require("tie_word_embeddings", true);
  require("scale_attn_weights", true);
  require("scale_attn_by_inverse_layer_idx", false);
  require("add_cross_attention", false);
  try {
    const int64_t hidden = settings.value("n_inner", json()).is_null() ? 0 : size("n_inner");
    return {.vocabulary = size("vocab_size"),
            .context = size("n_positions"),
            .layers = size("n_layer"),
            .block = {.attention = {.width = size("n_embd"), .heads = size("n_head"), .dropout = rate("attn_pdrop")},
                      .hidden = hidden,
                      .dropout = rate("resid_pdrop"),
                      .gelu = Gelu::tanh}};
  } catch (const json::exception& error) {
    throw IoError(
        fmt::format("'{}' does not give the sizes of a model: {}", path.string(), detail::message_of(error)));
  }
}

std::optional<int64_t> read_gpt2_eos_token_id(const std::filesystem::path& path, Where where) {
  const Call call("read_gpt2_eos_token_id", where);
  const json settings = read_settings(path);
  if (settings.value("eos_token_id", json()).is_null()) return std::nullopt;
  try {
    const auto id = detail::value_of<int64_t>(settings, "eos_token_id");
    if (id < 0 || id >= detail::value_of<int64_t>(settings, "vocab_size")) return std::nullopt;
    return id;
  } catch (const json::exception& error) {
    throw IoError(fmt::format("'{}' does not give an end token: {}", path.string(), detail::message_of(error)));
  }
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
    wanted[prefix + gpt2_name(name)] = is_transposed ? tensor.transpose(0, 1) : tensor;
  }
  copy_state(wanted, given, path.string());
}

}  // namespace linnet::nn
