#pragma once

#include <linnet/ops/cpu/device/kernel.h>

namespace linnet::cpu::LINNET_ISA {

/// Whether a row's mean is so large compared with its deviation that the mean of x − mean must be subtracted too:
/// rounding of the mean is then not small when it is divided by the deviation. A constant row is the extreme case;
/// ordinary rows are far below the threshold. T is a number, or a vector with one number for each of several rows.
template <class T>
auto has_large_mean(T mean, T variance) {
  return mean * mean > 256 * variance;
}

}  // namespace linnet::cpu::LINNET_ISA
