#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <linnet/core/tensor.h>

namespace linnet {

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// A tensor of a file that is to be written. It is made when its turn comes and is dropped then, so that not all need
/// be in memory at once.
struct DeferredTensor {
  Shape shape;                   ///< of what is made
  DType dtype;                   ///< of what is made
  std::function<Tensor()> make;  ///< called once
};

/// The content of a safetensors file.
struct Safetensors {
  TensorMap tensors;                                    ///< by name
  std::map<std::string, std::string> metadata = {};     ///< texts by name
  std::map<std::string, DeferredTensor> deferred = {};  ///< written among `tensors`; empty after reading
};

/// Reads a file to the CPU.
///
/// Dtypes: F32, F64, I32, I64 and BOOL are kept. The others become a dtype that holds every value exactly: F16, BF16,
/// F8_E4M3 and F8_E5M2 float32; I8, U8, I16 and U16 int32; U32 and U64 int64.
/// Throws: IoError for a missing, truncated or damaged file (sizes, offsets, gaps and repeated names are checked),
/// for another dtype, and for a U64 that int64 does not hold.
Safetensors read_safetensors(const std::filesystem::path& path, Where where = {});
/// The same, of the tensors alone for whose names `only` is true. It is called once for each name.
Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& only, Where where = {});

/// Writes a file that any safetensors reader loads. It replaces an older file only when it is complete (see
/// AtomicFile).
///
/// Throws: IoError when it cannot be written; DTypeError for a bfloat16 tensor; ValueError for a deferred tensor that
/// is made with another shape or dtype, or has the name of another tensor.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where = {});

}  // namespace linnet
