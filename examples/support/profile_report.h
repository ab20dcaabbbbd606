#pragma once

#include <string>
#include <vector>

#include <linnet/core/profile.h>

namespace linnet::examples {

/// Where the time of `steps` training steps went, which made these calls, one row a kernel, forward and backward
/// apart, the longest first: milliseconds and calls a step, bytes of the operands, the rate at which they were read
/// and written, the share of the step, and the time as a multiple of the step's floor (see floor.h).
std::string profile_table(const std::vector<KernelCall>& calls, int64_t steps, double step_ms, double floor_ms);

/// The same calls one by one, as JSON that chrome://tracing and Perfetto draw.
std::string trace_json(const std::vector<KernelCall>& calls);

}  // namespace linnet::examples
