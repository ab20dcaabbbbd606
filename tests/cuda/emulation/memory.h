#pragma once

#include <cstddef>

namespace linnet::emulation {

constexpr size_t kMemoryBytes = size_t{12} << 30;  ///< of the GPU

}  // namespace linnet::emulation
