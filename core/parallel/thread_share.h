#pragma once

namespace linnet::detail {

/// Sets the number of threads, and the reason that describe_threads gives for it: a text that stays.
void set_num_threads(int count, const char* decided_by);

}  // namespace linnet::detail
