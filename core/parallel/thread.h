#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace linnet::detail {

/// A thread that runs `body()`, or one that is not joinable where the system has no more threads to give: for work
/// that the caller can do itself.
template <class Body>
std::thread start_thread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace linnet::detail
