#include <array>
#include <regex>

#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/nn/models/fastformer_encoder.h>

/// Loads weights of the published implementation into a FastformerEncoder, by translating parameter names.

namespace linnet::nn {

namespace {

struct Renaming {
  std::regex ours;
  const char* released;
};

std::string released_name(const std::string& name) {
  static const std::array<Renaming, 10> kRenamings{{
      {std::regex(R"(pos\.(.*))"), "position_embeddings.$1"},
      {std::regex(R"(norm\.(.*))"), "LayerNorm.$1"},
      {std::regex(R"(layers\.(\d+)\.attention\.(query|key)\.(.*))"), "encoders.$1.attention.self.$2.$3"},
      {std::regex(R"(layers\.(\d+)\.attention\.out\.(.*))"), "encoders.$1.attention.self.transform.$2"},
      {std::regex(R"(layers\.(\d+)\.out\.(.*))"), "encoders.$1.attention.output.dense.$2"},
      {std::regex(R"(layers\.(\d+)\.norm1\.(.*))"), "encoders.$1.attention.output.LayerNorm.$2"},
      {std::regex(R"(layers\.(\d+)\.mlp\.fc1\.(.*))"), "encoders.$1.intermediate.dense.$2"},
      {std::regex(R"(layers\.(\d+)\.mlp\.fc2\.(.*))"), "encoders.$1.output.dense.$2"},
      {std::regex(R"(layers\.(\d+)\.norm2\.(.*))"), "encoders.$1.output.LayerNorm.$2"},
      {std::regex(R"(pool\.fc(\d)\.(.*))"), "poolers.0.att_fc$1.$2"},
  }};
  for (const Renaming& renaming : kRenamings) {
    if (std::regex_match(name, renaming.ours)) return std::regex_replace(name, renaming.ours, renaming.released);
  }
  // layers.<i>.attention.w_q, w_q_bias, w_k and w_k_bias
  static const std::regex logits(R"(layers\.(\d+)\.attention\.w_([qk])(_bias)?)");
  std::smatch parts;
  if (!std::regex_match(name, parts, logits)) return name;
  return "encoders." + parts[1].str() + ".attention.self." + (parts[2] == "q" ? "query" : "key") + "_att." +
         (parts[3].matched ? "bias" : "weight");
}

}  // namespace

void load_released_fastformer(FastformerEncoder& encoder, const std::filesystem::path& path,
                              const std::string& ignored, Where where) {
  const Call call("load_released_fastformer", where);
  TensorMap wanted, given;
  for (const auto& [name, tensor] : encoder.state()) wanted[released_name(name)] = tensor;
  for (const auto& [name, tensor] : read_safetensors(path, where).tensors) {
    if (!ignored.empty() && name.starts_with(ignored)) continue;
    given[name] = is_floating(tensor.dtype()) ? tensor.to(encoder.dtype()) : tensor;
  }
  copy_state(wanted, given, path.string());
}

}  // namespace linnet::nn
