#pragma once

#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace linnet::detail {

/// A thread that runs `body()`. If the system refuses a new thread, or memory for it, the result is not joinable, and
/// the caller must do the work itself.
template <class Body>
std::thread start_thread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    return {};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace linnet::detail
