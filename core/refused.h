#pragma once

namespace linnet::detail {

/// Always false, but evaluated only when a template is instantiated. A `static_assert` of it refuses a call in
/// another library's style, and its message says what to write instead.
template <class...>
inline constexpr bool refused = false;

}  // namespace linnet::detail
