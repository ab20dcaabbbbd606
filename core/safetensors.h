#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <linnet/core/tensor.h>

namespace linnet {

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// The content of a safetensors file.
struct Safetensors {
  TensorMap tensors;
  std::map<std::string, std::string> metadata = {};
};

/// Reads a file of F32, F64, BF16, I32, I64 and BOOL tensors, which come to the CPU; those of BF16 become float32,
/// which holds them exactly. Throws IoError when there is no such file, when it is not in the format (a truncated or
/// damaged one is not: sizes, offsets and gaps are all checked), or when it holds another dtype, F16 for example.
Safetensors read_safetensors(const std::filesystem::path& path, Where where = {});

/// Writes a file that any safetensors reader loads. It replaces an older one only when complete (see
/// AtomicFile). Throws IoError when it cannot be written, and DTypeError for a bfloat16 tensor.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where = {});

}  // namespace linnet
