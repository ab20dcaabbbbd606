#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <linnet/core/tensor.h>

namespace linnet {

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// A tensor to be written to a file. It is made just before it is written and freed after that, so that not all
/// tensors need be in memory at once.
struct DeferredTensor {
  Shape shape;                   ///< the shape of the tensor that `make` returns
  DType dtype;                   ///< the dtype of the tensor that `make` returns
  std::function<Tensor()> make;  ///< called once
};

/// The content of a safetensors file.
struct Safetensors {
  TensorMap tensors;                                    ///< by name
  std::map<std::string, std::string> metadata = {};     ///< strings by name
  std::map<std::string, DeferredTensor> deferred = {};  ///< written like `tensors`; empty after reading
};

/// Reads a file to the CPU.
///
/// Dtypes: F32, F64, I32, I64 and BOOL are kept. The others become a dtype that holds every value exactly: F16, BF16,
/// F8_E4M3 and F8_E5M2 become float32; I8, U8, I16 and U16 become int32; U32 and U64 become int64.
/// Throws: IoError for a missing, truncated or damaged file (sizes, offsets, gaps and repeated names are checked),
/// for another dtype, and for a U64 number beyond int64.
Safetensors read_safetensors(const std::filesystem::path& path, Where where = {});
/// Reads only the tensors for whose names `only` returns true. It is called once for each name.
Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& only, Where where = {});

/// Writes a file that any safetensors reader loads. It replaces an older file only when it is complete (see
/// AtomicFile).
///
/// Throws: IoError when it cannot be written; DTypeError for a bfloat16 tensor; ValueError for a deferred tensor
/// whose `make` returns another shape or dtype, or which has the name of another tensor, and for metadata and names
/// that take more than 100,000,000 bytes, the most that readers allow.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content, Where where = {});

}  // namespace linnet
