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
  TensorMap tensors;                                 ///< by name
  std::map<std::string, std::string> metadata = {};  ///< texts by name
};

/// Reads a file to the CPU.
///
/// Dtypes: F32, F64, I32, I64 and BOOL are kept. The others become a dtype that holds every value exactly: F16, BF16,
/// F8_E4M3 and F8_E5M2 float32; I8, U8, I16 and U16 int32; U32 and U64 int64.
/// Throws: IoError for a missing, truncated or damaged file (sizes, offsets, gaps and repeated names are checked),
/// for another dtype, and for a U64 that int64 does not hold.
Safetensors read_safetensors(const std::filesystem::path& path, Where where = {});

/// Writes a file that any safetensors reader loads. It replaces an older file only when it is complete (see
/// AtomicFile).
///
/// Throws: IoError when it cannot be written; DTypeError for a bfloat16 tensor.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where = {});

}  // namespace linnet
