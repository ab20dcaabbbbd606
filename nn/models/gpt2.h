#pragma once

#include <filesystem>

#include <linnet/nn/models/decoder.h>

/// GPT-2 (Radford et al. 2019) and models of its architecture, from a folder as Hugging Face writes it:
///
///     nn::DecoderLM model(rng, nn::read_gpt2_config(folder / "config.json"));
///     nn::load_gpt2(model, folder / "model.safetensors");

namespace linnet::nn {

/// The model that a Hugging Face `config.json` describes: softmax attention, learned positions, biases, the tanh form
/// of GELU. `resid_pdrop` is the dropout of the embeddings too. Throws IoError for a file that cannot be read or
/// lacks a size, and ValueError, naming the setting, for one that this architecture does not have.
DecoderConfig read_gpt2_config(const std::filesystem::path& path, Where where = {});

/// Copies the weights of a Hugging Face safetensors file into the model, in its dtype. The names there, with or
/// without `transformer.` before them, and what they are here; matrices of the blocks are stored [in, out] there:
///
///     wte.weight, wpe.weight                 tok.weight, pos.weight
///     h.<i>.ln_1.{weight,bias}               blocks.<i>.norm1
///     h.<i>.attn.c_attn.{weight,bias}        blocks.<i>.attention.qkv, transposed
///     h.<i>.attn.c_proj.{weight,bias}        blocks.<i>.attention.out, transposed
///     h.<i>.ln_2.{weight,bias}               blocks.<i>.norm2
///     h.<i>.mlp.c_fc.{weight,bias}           blocks.<i>.mlp.fc1, transposed
///     h.<i>.mlp.c_proj.{weight,bias}         blocks.<i>.mlp.fc2, transposed
///     ln_f.{weight,bias}                     norm
///
/// Causal masks, `h.<i>.attn.{bias,masked_bias}`, are passed over, and `lm_head.weight` where it equals `wte.weight`.
/// Throws ValueError, before anything is copied, for a model of another architecture, for a head of its own, and
/// listing all names that are missing, unexpected or of another shape; IoError for a file that is no safetensors
/// file.
void load_gpt2(DecoderLM& model, const std::filesystem::path& path, Where where = {});

}  // namespace linnet::nn
