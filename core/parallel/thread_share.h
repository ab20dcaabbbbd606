#pragma once

namespace linnet::detail {

/// Sets the number of threads, and the reason that describe_threads gives for it. The string must stay valid.
void set_num_threads(int count, const char* decided_by);

}  // namespace linnet::detail
