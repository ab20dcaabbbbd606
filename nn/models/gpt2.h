#pragma once

#include <filesystem>
#include <optional>

#include <linnet/nn/models/decoder.h>

/// GPT-2 (Radford et al. 2019) and models of its architecture, read from a folder in Hugging Face's format:
///
///     nn::DecoderLM model(rng, nn::read_gpt2_config(folder / "config.json"));
///     nn::load_gpt2(model, folder / "model.safetensors");
///     const auto eos_token_id = nn::read_gpt2_eos_token_id(folder / "config.json");
///     const auto tokenizer = nn::BytePairTokenizer::load(folder);
///     const auto ids = nn::generate(model, tokenizer.encode("Once"), rng, {.eos_token_id = eos_token_id});

namespace linnet::nn {

/// The model that a Hugging Face `config.json` describes: softmax attention, learned positions, biases, and GELU in
/// its tanh form. `resid_pdrop` is also the dropout of the embeddings.
///
/// Throws: IoError for a file that cannot be read or lacks a size; ValueError, with its name, for a setting that this
/// architecture does not have.
DecoderConfig read_gpt2_config(const std::filesystem::path& path, Where where = {});

/// The `eos_token_id` of a Hugging Face `config.json`, for GenerateOptions. It is empty if the file has none, or one
/// outside of the vocabulary: small models often have that of GPT-2, 50256, which they cannot generate.
///
/// Throws: IoError for a file that cannot be read, lacks `vocab_size`, or has something else than a whole number
/// there.
std::optional<int64_t> read_gpt2_eos_token_id(const std::filesystem::path& path, Where where = {});

/// Copies the weights of a Hugging Face safetensors file into the model, in its dtype. The file's names, with or
/// without the prefix `transformer.`, correspond to these names of the model. The blocks' matrices are transposed in
/// the file, [in, out]:
///
/// | file | model |
/// |---|---|
/// | wte.weight, wpe.weight | tok.weight, pos.weight |
/// | h.<i>.ln_1.{weight,bias} | blocks.<i>.norm1 |
/// | h.<i>.attn.c_attn.{weight,bias} | blocks.<i>.attention.qkv, transposed |
/// | h.<i>.attn.c_proj.{weight,bias} | blocks.<i>.attention.out, transposed |
/// | h.<i>.ln_2.{weight,bias} | blocks.<i>.norm2 |
/// | h.<i>.mlp.c_fc.{weight,bias} | blocks.<i>.mlp.fc1, transposed |
/// | h.<i>.mlp.c_proj.{weight,bias} | blocks.<i>.mlp.fc2, transposed |
/// | ln_f.{weight,bias} | norm |
///
/// Causal masks, `h.<i>.attn.{bias,masked_bias}`, are ignored, and so is `lm_head.weight` where it equals
/// `wte.weight`.
///
/// Throws: ValueError, before anything is copied, for a model of another architecture, for a separate head, and with
/// all names that are missing, unexpected or of another shape; IoError for a file that is not a safetensors file.
void load_gpt2(DecoderLM& model, const std::filesystem::path& path, Where where = {});

}  // namespace linnet::nn
