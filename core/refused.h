#pragma once

namespace linnet::detail {

/// Never true, but known only where a template is used: behind a `static_assert`, it refuses a line that another
/// library would take, with a text that says what to write here.
template <class...>
inline constexpr bool refused = false;

}  // namespace linnet::detail
