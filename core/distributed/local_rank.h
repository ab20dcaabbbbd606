#pragma once

#include <optional>
#include <string>

/// Which GPU of a host a rank takes. Internal to core and cuda.

namespace linnet::detail {

/// The number of this rank among those on its host, which launchers set in the environment; nothing without a
/// launcher.
std::optional<int> local_rank();

/// The value of CUDA_VISIBLE_DEVICES with which a rank sees only its own GPU. It is the rank's entry of `visible`, or
/// the rank's number if `visible` is null. If `visible` has one entry, it is that entry, because some launchers, such
/// as Slurm's, have already chosen the GPU of each rank.
///
/// Throws: DeviceError if `visible` has several entries, but none for this rank.
std::string visible_gpu(const char* visible, int local_rank);

}  // namespace linnet::detail
