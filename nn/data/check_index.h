#pragma once

#include <cstdint>

#include <fmt/format.h>

#include <linnet/core/error.h>

/// The check of a data set's indices. Internal to nn and the programs.

namespace linnet::detail {

/// Throws: IndexError unless `index` is from 0 to size − 1. `what` is the message's word for an element.
inline void check_index(int64_t index, int64_t size, const char* what = "example") {
  if (index >= 0 && index < size) return;
  throw IndexError(fmt::format("there is no {} {} of {}; they are numbered from 0", what, index, size));
}

}  // namespace linnet::detail
