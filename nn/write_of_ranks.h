#pragma once

#include <filesystem>

#include <linnet/core/distributed.h>
#include <linnet/core/files/safetensors.h>

/// Internal to nn.

namespace linnet::nn {

/// Writes the tensors of all ranks to one file, with the metadata of rank 0. If several ranks have a tensor of the
/// same name, that of the lowest rank is written. Rank 0 asks for each tensor that it lacks just before it writes it,
/// and all ranks receive it, so no rank has more than one of them in memory. All ranks make the call.
///
/// Throws: as write_safetensors, on all ranks.
void write_of_ranks(ProcessGroup& group, const std::filesystem::path& path, Safetensors content);

}  // namespace linnet::nn
