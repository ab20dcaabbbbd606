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

/// Reads a file; its tensors come to the CPU. F32, F64, I32, I64 and BOOL keep their dtype, and the others become one
/// that holds every value exactly: F16, BF16, F8_E4M3 and F8_E5M2 float32, I8, U8, I16 and U16 int32, U32 and U64
/// int64. Throws IoError when there is no such file, when it is not in the format (a truncated or damaged one is not:
/// sizes, offsets, gaps and repeated names are all checked), when it holds another dtype, and for a U64 that int64
/// does not hold.
Safetensors read_safetensors(const std::filesystem::path& path, Where where = {});

/// Writes a file that any safetensors reader loads. It replaces an older one only when complete (see
/// AtomicFile). Throws IoError when it cannot be written, and DTypeError for a bfloat16 tensor.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where = {});

}  // namespace linnet
