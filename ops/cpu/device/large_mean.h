#pragma once

#include <linnet/ops/cpu/device/kernel.h>

namespace linnet::cpu::LINNET_ISA {

/// Whether a row's mean is to be made a second time, of what the first one left: its rounding is then not small
/// beside the deviation, which divides it. A constant row is nothing but rounding. Ordinary rows are far below. For
/// numbers and for vectors of them, one a row.
template <class T>
auto has_large_mean(T mean, T variance) {
  return mean * mean > 256 * variance;
}

}  // namespace linnet::cpu::LINNET_ISA
