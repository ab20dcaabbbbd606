#pragma once

namespace linnet::detail {

/// Always false, but evaluated only where a template is instantiated. In a `static_assert` it refuses a line of
/// another library, with a text that says what to write here.
template <class...>
inline constexpr bool refused = false;

}  // namespace linnet::detail
