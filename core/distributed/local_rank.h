#pragma once

#include <optional>
#include <string>

/// Which GPU of a host a rank takes. Internal to core and cuda.

namespace linnet::detail {

/// The number of this rank among those on its host, by the launcher's variables; none where no launcher set one.
std::optional<int> local_rank();

/// What CUDA_VISIBLE_DEVICES must be for a rank to see one GPU of its own: its entry of `visible`, or its number
/// where `visible` is null. A single entry stays, since launchers such as Slurm's name the GPU of each rank
/// themselves.
///
/// Throws: DeviceError where `visible` has several entries and fewer than there are ranks.
std::string visible_gpu(const char* visible, int local_rank);

}  // namespace linnet::detail
