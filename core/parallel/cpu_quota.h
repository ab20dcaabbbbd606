#pragma once

#include <filesystem>
#include <optional>

namespace linnet {

/// The processors' worth of time that control groups grant to this process, as `docker run --cpus=1.5` sets it: the
/// smallest quota of its own group and of those above, in cgroup v2 (`cpu.max`) and v1 (`cpu.cfs_quota_us` over
/// `cpu.cfs_period_us`). None where there is no quota. `root` is the folder that holds `proc` and the mount points.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace linnet
