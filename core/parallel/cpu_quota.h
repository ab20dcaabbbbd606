#pragma once

#include <filesystem>
#include <optional>

namespace linnet {

/// The CPU quota of this process in processors, as `docker run --cpus=1.5` sets it; nothing if there is no quota. It
/// is the smallest quota of the process's control group and the groups above it, in cgroup v2 (`cpu.max`) and v1
/// (`cpu.cfs_quota_us` over `cpu.cfs_period_us`). `root` is the folder that holds `proc` and the mount points.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace linnet
